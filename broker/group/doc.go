// Package group coordinates consumer groups with the classic protocol (KIP-62, 134, 345, 394, 814) and keeps their
// committed offsets.
//
// A group belongs to a partition of __consumer_offsets, and is coordinated by the broker that leads the partition. A
// shard holds the groups of one partition under one lock. It is loaded from the partition when this broker becomes the
// leader, and dropped when it no longer is: the log is the only truth.
//
//	request or timer -> shard's lock: state machine decides -> record appended -> applied -> lock released
//	-> high watermark awaited -> answered
//
// Commits that arrive at the same time are decided one by one and share a batch: see commitWithOthers.
//
// The state machine (group and its methods in state.go, join.go, rebalance.go, sync.go, member.go, offsets.go) does no
// I/O and uses no lock, clock or logger. It is given a step with the time, to which it adds what is to be written.
//
//	Empty -> PreparingRebalance -> CompletingRebalance -> Stable
//	  ^------------+  ^----------------+------------------+
//
// PreparingRebalance waits for members to join, CompletingRebalance for the leader's assignment.
//
// # Records
//
// Keys and values begin with an int16 version. The format is that of Apache Kafka, and fixed.
//
//	key 0, 1  group, topic, partition -> a committed offset; null value: removed
//	key 2     group                   -> the group's members and their assignments; null value: removed
//
// Keys of other versions belong to other kinds of coordinators and are skipped.
//
// # Goroutines
//
// One goroutine looks for expired offsets at intervals; each partition is loaded by a goroutine, a few of them at a
// time; one waits for each record of a group that is not replicated at once. Close ends them all. A group has a timer
// while something in it may become due, which brings the event to the shard. Groups without members have none, and cost
// only memory.
//
// # What differs from Apache Kafka
//
// A waiting SyncGroup or JoinGroup is answered if its member is removed or sends another one; Apache Kafka never
// answers it. A partition with a record that cannot be read is not served at all (COORDINATOR_NOT_AVAILABLE); Apache
// Kafka serves it as if it were empty. A commit that timed out takes effect if its record is replicated after all.
//
// The package knows nothing about sockets, topic metadata or znodes.
package group

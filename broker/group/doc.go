// Package group coordinates consumer groups with the classic protocol (KIP-62, 134, 345, 394, 814) and keeps their
// committed offsets.
//
// A group belongs to a partition of __consumer_offsets; the broker that leads the partition coordinates it. Its shard
// holds the groups of one partition under one lock. A shard is loaded from the partition when this broker begins to lead
// it, and dropped when it no longer does: nothing in it is worth more than the log.
//
//	request or timer -> shard's lock: state machine decides -> record appended -> applied -> lock released
//	-> high watermark awaited -> answered
//
// Commits that come at the same time are decided one by one and share a batch: see commitWithOthers.
//
// The state machine (group and its methods in state.go, join.go, rebalance.go, sync.go, member.go, offsets.go) does no
// I/O, takes no lock, clock or logger. It is given a step with the time, and leaves in it what is to be written.
//
//	Empty -> PreparingRebalance -> CompletingRebalance -> Stable
//	  ^------------+  ^----------------+------------------+
//
// PreparingRebalance waits for members to join, CompletingRebalance for the leader's assignment.
//
// # Records
//
// Keys and values begin with an int16 version; all of it is fixed by the format of Apache Kafka.
//
//	key 0, 1  group, topic, partition -> a committed offset; null value: removed
//	key 2     group                   -> the group's members and their assignments; null value: removed
//
// Keys of other versions belong to coordinators of other kinds and are passed over.
//
// # Goroutines
//
// One looks for expired offsets in intervals; one loads each partition, a few of them at a time; one awaits each group's
// record that is not replicated at once. Close ends them all. A group has one timer, while something in it may become due:
// it brings the shard the event. Groups without members have none, and cost memory only.
//
// # What differs from Apache Kafka
//
// A SyncGroup or JoinGroup of a member that is removed or asks again meanwhile is answered, where Apache Kafka forgets it.
// A partition of which a record cannot be read is not served at all (COORDINATOR_NOT_AVAILABLE), where Apache Kafka serves
// it as if it were empty. A commit that timed out counts when its record is replicated after all.
//
// The package does not know sockets, topics' metadata or znodes.
package group

// Package zkcoord keeps a cluster's state in ZooKeeper, in the schema of Apache Kafka 3.9:
// sessions, broker registrations, the controller's election, topics, partition states,
// configurations and the small nodes by which brokers tell each other that something changed.
//
// It is the only package that knows a path or a JSON field; its callers speak of brokers,
// topics and partitions. There is one file for each family of nodes. Every reader takes the
// fields in any order and ignores those that it does not know; every writer gives the fields
// that Apache Kafka gives.
//
// # Writes
//
// A write that depends on what was read names the version that it read. A lost race is a
// value (ErrConflict in a WriteResult, or a bool), not a failure. What a controller writes
// also names the version of /controller_epoch that its election produced (Term), so that a
// deposed controller can change nothing: ErrDeposed.
//
// A write whose connection broke may have happened. Each one is repeated, and where the
// repetition meets the first attempt's effect it reads the node and recognises it.
//
// # Events
//
// Methods called Watch… read and leave a watch behind. What a watch brings is a Change; the
// subscribers of OnChange get it, after the session's own events in the order in which the
// ZooKeeper client reported them, on one goroutine that never drops one. A watch fires once:
// who wants to go on watching reads again. After a SessionReestablished all watches are gone
// and all ephemeral nodes too: the owner registers again and reads again.
package zkcoord

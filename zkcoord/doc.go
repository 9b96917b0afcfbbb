// Package zkcoord stores a cluster's state in ZooKeeper, in the schema of Apache Kafka 3.9: sessions, broker
// registrations, the controller's election, topics, partition states, configurations, and the notifications with which
// brokers tell each other about changes.
//
// It is the only package that knows paths and JSON fields; its callers deal with brokers, topics and partitions. There
// is one file for each family of nodes. Readers accept fields in any order and ignore unknown ones; writers write the
// fields that Apache Kafka writes.
//
// # Writes
//
// A write that depends on what was read is conditional on the version that was read. A lost race is a value
// (ErrConflict in a WriteResult, or a bool), not a failure. Writes by a controller are also conditional on the version
// of /controller_epoch from its election (Term), so that a deposed controller cannot change anything: ErrDeposed.
//
// A write whose connection broke may have happened. It is repeated, and if the repetition is refused because of the
// first attempt's effect, that is recognised by reading the node. A change that brokers tell each other of is one request
// with its notification, so that nobody can die in between.
//
// # Events
//
// Methods called Watch… read and leave a watch behind. What a watch reports is a Change. The subscribers of OnChange
// receive it on a single goroutine, which drops none, after the session's own events and in the order in which the
// ZooKeeper client reported them. A watch fires once: to continue watching, read again. After SessionReestablished all
// watches and all ephemeral nodes are gone: their owner registers and reads again.
package zkcoord

// Package replica owns the partitions that a broker hosts: their roles and epochs, the in-sync replicas, the high
// watermark, and the fetchers that copy from leaders on other brokers.
//
// A Manager applies the controller's LeaderAndIsr and StopReplica requests to Partitions. A Partition that is a leader
// takes appends, serves reads and tracks the progress of its followers; one that is a follower is kept up to date by a
// fetcher. The package knows no client API, no znode and no property name.
//
// Lock order: Manager.control, Manager.mu, Partition.reading, Partition.mu, Partition.moved, Partition.progress, the log's
// own locks; docs/threads.md says what each guards. During a call over the network none is held but Manager.control, for
// the settings of new topics. Partition.mu is held for reading during an append, so that the leadership under which a
// record was accepted cannot change while it is written.
package replica

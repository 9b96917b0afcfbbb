// Package replica owns the partitions that a broker hosts: their role and epochs, the
// in-sync replicas, the high watermark, and the fetchers that copy from other brokers' leaders.
//
// A Manager applies the controller's LeaderAndIsr and StopReplica requests to Partitions.
// A Partition that leads takes appends, serves reads and follows its followers' progress;
// one that follows is kept up to date by a fetcher. The package knows no client API, no
// znode and no property name.
//
// Lock order: Manager.mu, Partition.mu, Partition.progress, the log's own lock. None is held
// during a network call. Partition.mu is held for reading during an append, so that the
// leadership under which a record was accepted can't change while it is written.
package replica

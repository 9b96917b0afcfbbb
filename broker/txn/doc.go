// Package txn is the transaction coordinator (KIP-98): it knows every transactional id whose partition of
// __transaction_state this broker leads, and ends their transactions with markers in all partitions that they wrote to.
// It also assigns producer ids, and asks other coordinators whether a partition belongs to a transaction.
//
// A shard owns the ids of one partition of __transaction_state. A step is a plain function of an id's current state.
// Its result is written to the shard's log, and becomes current when all in-sync replicas have it; until then the id is
// busy, and requests for it get CONCURRENT_TRANSACTIONS. Nothing ever has to be undone: whether a written record takes
// effect is decided by the log alone. Loading after a failover reads the same records, and losing the leadership drops
// the shard.
//
//	Empty, CompleteCommit, CompleteAbort --AddPartitionsToTxn--> Ongoing
//	Ongoing --EndTxn--> PrepareCommit or PrepareAbort --all markers written--> CompleteCommit or CompleteAbort
//	Ongoing --timeout, or InitProducerId--> PrepareAbort, epoch + 1
//	Empty, CompleteCommit, CompleteAbort --InitProducerId--> Empty, epoch + 1
//	Empty, CompleteCommit, CompleteAbort --unused for transactional.id.expiration.ms--> forgotten (a tombstone)
//
// From PrepareCommit and PrepareAbort on, a goroutine for each transaction sends the markers to the partitions'
// leaders, for as long as that takes: leaders may move meanwhile, and partitions that are deleted are dropped.
//
// Goroutines: two for all shards, with timers (for timeouts and unused ids); one for each shard while it is being
// loaded; one for each transaction that is being ended; one for each other broker and kind of request, while there is
// something to send. All of them end with Coordinator.Close, and those of a shard when its leadership is lost.
//
// A shard's mu guards its ids. It is held during an append, so that records are in the order of the steps, but never
// while waiting for replicas or other brokers.
//
// The package knows nothing about client requests, metadata or replication: it reaches them through functions in its
// Config.
package txn

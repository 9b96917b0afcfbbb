// Package txn is the transaction coordinator (KIP-98): it knows every transactional id whose partition of
// __transaction_state this broker leads, and ends their transactions with markers in all partitions that they wrote to.
// It gives out producer ids too, and asks other coordinators whether a partition belongs to a transaction.
//
// A shard owns the ids of one partition of __transaction_state. A step is decided by a plain function of what is known
// about an id, written to the shard's log, and becomes what is known when all in-sync replicas have it; until then the
// id is busy, and everybody hears CONCURRENT_TRANSACTIONS. Nothing has to be undone: whether a record that was written
// holds is decided by the log alone. Loading after a failover reads the same records, and lost leadership drops the shard.
//
//	Empty, CompleteCommit, CompleteAbort --AddPartitionsToTxn--> Ongoing
//	Ongoing --EndTxn--> PrepareCommit or PrepareAbort --all markers written--> CompleteCommit or CompleteAbort
//	Ongoing --timeout, or InitProducerId of another incarnation--> PrepareAbort, epoch + 1
//	Empty, CompleteCommit, CompleteAbort --InitProducerId--> Empty, epoch + 1
//	Empty, CompleteCommit, CompleteAbort --unused for transactional.id.expiration.ms--> forgotten (a tombstone)
//
// From PrepareCommit and PrepareAbort on a goroutine for each transaction brings the markers to the partitions' leaders,
// for as long as that takes: leaders may move meanwhile, and partitions that were deleted are left out.
//
// Goroutines: two timers for all shards (timeouts, unused ids); a loader for each shard until it is loaded; one for each
// transaction that is being ended; one for each other broker and kind of request, while there is something to send. All of
// them end with Coordinator.Close, and those of a shard when its leadership is lost.
//
// A shard's mu guards its ids. It is held over an append, so that records are in the order of the steps, and never while
// waiting for replicas or other brokers.
//
// The package knows nothing of requests from clients, metadata or replication: those are functions in its Config.
package txn

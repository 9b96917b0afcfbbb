// Package logstore keeps the logs of partitions on disk: a partition's log consists of segments with their indexes,
// leader epochs and producer state, and a log directory holds many logs.
//
// A Log is the log of one partition. Appends take its lock; reads do not: they see an immutable list of segments and
// the published end. A Manager owns the directories in log.dirs: it locks them, loads their logs, recovers them after
// an unclean shutdown, and runs retention, flushing, compaction and checkpoints in the background.
//
// All files have the format of Apache Kafka 3.9, so that either broker can open the other's directories. The package
// knows nothing about topic properties by name, requests or other brokers. Errors that a client must see wrap the
// *kerr.Error of their code.
//
// Directory of a partition (<base> is the 20-digit offset of a segment's first possible record):
//
//	<base>.log               record batches, back to back
//	<base>.index             int32 offset-base, int32 position, sparse
//	<base>.timeindex         int64 timestamp, int32 offset-base, sparse
//	<base>.txnindex          aborted transactions, see txnindex.go
//	<offset>.snapshot        producer state before that offset, see snapshot.go
//	leader-epoch-checkpoint  first offset of each leader epoch
//	partition.metadata       the topic id
package logstore

// Package logstore keeps the logs of partitions on disk: one partition's log as segments with their indexes, epochs and
// producer state, and the directories that hold many of them.
//
// A Log is one partition's log. Appends take its lock; reads don't, they see an immutable list of segments and the
// published end. A Manager owns the directories of log.dirs: it locks them, loads what is in them, recovers what an unclean
// stop left, and runs retention, flushing and checkpoints in the background.
//
// Every byte it writes is laid out as Apache Kafka 3.9 does it, so that either broker opens the other's directories.
// The package knows neither topics' property names nor requests nor other brokers. Errors that a client must see wrap
// the *kerr.Error of their code.
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

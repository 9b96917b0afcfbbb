// Package zkserver is a ZooKeeper server for development and tests: one node that speaks the
// real client protocol, as ZooKeeper 3.8 does, and keeps its data in a bbolt file or in memory.
//
// It knows nothing of what its clients store. Parts:
//
//	tree.go, acl.go   the znodes as plain data: no socket, no clock, no lock
//	watch.go          who is to be told of which change
//	wire.go           requests and answers as bytes
//	store.go          the bbolt file
//	server.go         connections, sessions, the loop that owns all of the above
//
// One goroutine, the loop, owns the tree, the sessions and the watches. It takes what has
// arrived from all connections as one batch, applies it in order, makes the batch durable with
// one transaction of the file, and only then lets the answers and the events of the batch go.
// So a write is never answered before it is on disk, nobody reads what could be lost, and a
// thousand pipelined creates cost one flush.
//
// Left out of ZooKeeper: ensembles, quotas, TLS and SASL, TTL nodes (off there by default).
package zkserver

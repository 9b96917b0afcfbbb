// Package zkserver is a ZooKeeper server for development and tests: a single node that speaks the client protocol of
// ZooKeeper 3.8, and stores its data in a bbolt file or in memory.
//
// It knows nothing about what its clients store. Its parts are:
//
//	tree.go, acl.go               the znodes as plain data: no socket, no clock, no lock
//	watch.go                      which client is told about which change
//	wire.go                       encoding of requests and responses
//	store.go                      the bbolt file
//	loop.go, serve.go, command.go the loop that owns all of the above and the sessions, and what it answers
//	server.go, conn.go            listeners and connections
//	run.go                        a server as zookeeper.properties configures it
//
// One goroutine, the loop, owns the tree, the sessions and the watches. It takes everything that has arrived from all
// connections as a batch, applies it in order, makes it durable with one transaction of the file, and only then
// releases the responses and events of the batch. So a write is never answered before it is on disk, nobody reads what
// could still be lost, and a thousand pipelined creates cost one flush.
//
// Not supported: ensembles, quotas, TLS and SASL, and TTL nodes (which ZooKeeper disables by default).
package zkserver

// Package zksim is a ZooKeeper ensemble in one thread, for simulations: the embedded server's tree, without sockets,
// goroutines and time. The simulation decides when requests arrive, connections break and sessions expire.
//
// Nothing in it is safe for concurrent use. It must not know what the nodes mean.
package zksim

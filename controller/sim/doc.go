// Package sim runs a whole cluster in one thread, from a seed: the real controllers and their
// real ZooKeeper client, on a simulated ZooKeeper and among simulated brokers. Brokers die and
// return, sessions expire, connections break, requests and answers are lost or late,
// controllers are deposed in the middle of what they do, and meanwhile topics come, move and
// go. After every step the invariants are checked (check.go); at the end all is healed, and
// the cluster must settle.
//
// A controller's goroutine is a coroutine here, which stops at each request to ZooKeeper, so
// that anything may happen between two of them. All choices are made by one source of random
// numbers: a seed is a history.
package sim

// Package sim runs a whole cluster in one thread, from a seed: the real controllers with their real ZooKeeper client,
// on a simulated ZooKeeper and among simulated brokers. Brokers die and return, sessions expire, connections break,
// requests and responses are lost or late, controllers are deposed in the middle of their work, and meanwhile topics
// are created, moved and deleted. After every step the invariants are checked (check.go); at the end everything is
// healed, and the cluster must settle.
//
// A controller's goroutine is a coroutine here, which pauses at each request to ZooKeeper, so that anything may happen
// between two of them. All choices are made with a single source of random numbers: a seed determines the history.
package sim

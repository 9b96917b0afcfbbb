// Package quota limits how fast clients and replicas may go: byte rates of producers and consumers, shares of request
// handling time, changes of topics (KIP-13, 55, 124, 599), and new connections from an address (KIP-612).
//
// A client that exceeds a limit is not refused but made to wait: the broker does not read from its connection
// meanwhile. Rates are measured over a few windows of time, quota.window.num of quota.window.size.seconds each, of
// which the last is still filling.
package quota

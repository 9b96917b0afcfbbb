// Package quota bounds how fast clients and replicas may go: byte rates of producers and consumers, shares of request
// handling time, changes of topics (KIP-13, 55, 124, 599) and new connections of an address (KIP-612).
//
// Who is above a limit is not refused but told to wait: until then the broker does not read from its connection. What is
// measured is a rate over a few windows of time, quota.window.num of quota.window.size.seconds each, of which the last is
// still filling.
package quota

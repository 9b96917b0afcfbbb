// Package api answers requests: one file for each API, and one table of all of them.
//
// table.go is the only list of APIs, with their keys, versions and handlers; ApiVersions returns what it contains. A
// handler is called for one request of a connection after the other, but for many connections at once. What waits for
// replicas, group members or other requests is in the network.Answer that it returns; reading and writing ZooKeeper is
// not.
//
// Errors carry the protocol's code as a *kerr.Error in their chain; errcode.Of converts them to the number in a response.
package api

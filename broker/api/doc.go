// Package api answers requests: one file for each API, and one table of all of them.
//
// table.go is the only list of APIs, with their keys, versions and handlers; ApiVersions returns what it contains. The
// first half of a handler runs in the order of the connection's requests; what may block is in the network.Answer that
// it returns.
//
// Errors carry the protocol's code as a *kerr.Error in their chain; code converts them to the number in a response.
package api

// Package api answers requests: one file for each API, and one table of them all.
//
// table.go is the only list of APIs: keys, versions, handlers. What it says is what
// ApiVersions tells clients. A handler's first half runs in the order of the connection's
// requests; what may block is in the network.Answer that it returns.
//
// Errors carry the protocol's code as a *kerr.Error in their chain; code turns them into
// the number that goes into a response.
package api

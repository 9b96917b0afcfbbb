//go:build !compat

package integration

var clientsOfThisRun = usualClients

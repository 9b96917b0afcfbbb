//go:build !race

package zkcoord

// watchSetupPause: see race.go.
const watchSetupPause = 0

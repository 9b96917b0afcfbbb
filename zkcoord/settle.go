//go:build !race

package zkcoord

// librarySettles: see settle_race.go.
const librarySettles = 0

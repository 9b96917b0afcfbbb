//go:build unix && !linux

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a BSD lock, which also conflicts with a second broker in the same process.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

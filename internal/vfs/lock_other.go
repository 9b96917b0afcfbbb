//go:build unix && !linux

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a BSD lock, which holds against a second broker in our own process as well.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

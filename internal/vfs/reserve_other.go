//go:build unix && !linux

package vfs

import "errors"

// Reserve implements File.
func (osFile) Reserve(int64, int64) error { return errors.ErrUnsupported }

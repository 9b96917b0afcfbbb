//go:build unix && !linux

package vfs

import "bytes"

// WritePartsAt implements File.
func (f osFile) WritePartsAt(parts [][]byte, offset int64) (int, error) {
	return f.WriteAt(bytes.Join(parts, nil), offset)
}

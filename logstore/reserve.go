package logstore

import (
	"math"

	"barnabas/internal/vfs"
)

// A file system that finds space for each page when it is written, as ext4 does, takes a third of the CPU time of an
// append for it. So a segment reserves space in larger pieces, ahead of its end and without changing its size: a
// quarter of what it has, within these limits in bytes. What is left is given back when the segment is rolled, closed
// or recovered. Errors do not matter: the write finds space itself, or reports that there is none.
const (
	reserveLeast = 64 << 10
	reserveMost  = 4 << 20
	reserveFrom  = 4 * reserveLeast // size of a segment from which on it reserves
)

// neverReserve is the value of segment.reserved with which it tries no more.
const neverReserve = math.MaxInt64

// reserve reserves space in the segment's file for an append that ends at a position, unless there is some. The caller
// holds the log's lock.
func (s *segment) reserve(f vfs.File, end int64, cfg *Config) {
	if end <= s.reserved {
		return
	}
	ahead := min(end/4, reserveMost, int64(cfg.SegmentBytes)-end)
	if ahead < reserveLeast {
		return
	}
	from := max(s.reserved, s.size.Load())
	if err := f.Reserve(from, end+ahead-from); err != nil {
		s.reserved = neverReserve
		return
	}
	s.reserved = end + ahead
}

package logstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"

	"barnabas/internal/vfs"
)

// openFiles is the file system of a Manager, which also counts the record files that segments have open, so that a broker with
// many partitions, or a reader of much that is old, doesn't use up the files that a process may have.
type openFiles struct {
	vfs.FS
	max   int64 // record files to keep open; 0: no limit
	count atomic.Int64
	round atomic.Int64  // of closing; a segment notes the one in which it was used last
	wake  chan struct{} // capacity 1: there are too many
}

func newOpenFiles(fsys vfs.FS, limit int) *openFiles {
	return &openFiles{FS: fsys, max: int64(limit), wake: make(chan struct{}, 1)}
}

// opened counts a file. It doesn't block: for a moment there may be more files than the limit.
func (o *openFiles) opened() {
	if n := o.count.Add(1); o.max > 0 && n > o.max {
		ring(o.wake)
	}
}

func (o *openFiles) closed() { o.count.Add(-1) }

// tooManyFiles tells whether an error is that no file can be opened for a while.
func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// runCloser closes files when there are too many, those first that were not used for the longest time.
func (k *keeper) runCloser(ctx context.Context) {
	o := k.m.env.fs
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
		o.round.Add(1)
		spare := o.max - o.max/4 // a quarter at a time: looking for them takes a while
		for _, c := range k.m.openSegments() {
			if o.count.Load() <= spare {
				break
			}
			c.log.closeIdle(c.seg)
		}
	}
}

// openSegment is a segment whose record file is open.
type openSegment struct {
	log  *Log
	seg  *segment
	used int64 // the round in which it was used last
}

// openSegments are those of all logs, longest unused first.
func (m *Manager) openSegments() []openSegment {
	var all []openSegment
	for _, v := range m.disks {
		for _, l := range m.logsOn(v) {
			for _, s := range *l.segments.Load() {
				if s.file.Load() != nil {
					all = append(all, openSegment{l, s, s.used.Load()})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b openSegment) int { return cmp.Compare(a.used, b.used) })
	return all
}

// closeIdle closes the record file and the indexes of a segment that nobody is using. They are opened again when they are needed.
func (l *Log) closeIdle(s *segment) {
	l.mu.Lock() // keeps appends, truncation and the like off; who reads without it has a reference
	defer l.mu.Unlock()
	if s.closeUnused() && s != l.active() {
		_ = s.closeIndexes() // unmapping fails only for what isn't mapped
	}
}

// closeUnused closes the file unless someone besides the owner has a reference. The caller has the log's lock.
func (s *segment) closeUnused() bool {
	s.mu.Lock() // keeps others from opening it meanwhile
	defer s.mu.Unlock()
	f := s.file.Swap(nil)
	if f == nil {
		return false
	}
	if s.refs.Load() > 1 { // who took a reference before the swap may have the file; who takes one later waits for the lock
		s.file.Store(f)
		return false
	}
	_ = f.Close() // written data is not lost by that: it is in the page cache
	s.fs.closed()
	return true
}

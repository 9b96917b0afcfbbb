package logstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"barnabas/internal/vfs"
)

// openFiles is the file system of a Manager, which also counts the open segment files, so that a broker with many
// partitions, or reads of much old data, do not use up the process's file descriptors.
type openFiles struct {
	vfs.FS
	padding
	max   int64 // segment files to keep open; 0: no limit
	count atomic.Int64
	round atomic.Int64  // number of the closing round; a segment records the one in which it was last used
	wake  chan struct{} // capacity 1: there are too many
}

func newOpenFiles(fsys vfs.FS, limit int, p *padding) *openFiles {
	if p == nil {
		p = &usualPadding
	}
	return &openFiles{FS: fsys, padding: *p, max: int64(limit), wake: make(chan struct{}, 1)}
}

// opened counts a file. It does not block: for a moment there may be more files than the limit.
func (o *openFiles) opened() {
	if n := o.count.Add(1); o.max > 0 && n > o.max {
		ring(o.wake)
	}
}

func (o *openFiles) closed() { o.count.Add(-1) }

// tooManyFiles reports whether an error says that no file can be opened for a while.
func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// spareFiles is how many files must be possible to open for a shortage of descriptors to be over: a new log opens some at
// once, and connections take some as well.
const spareFiles = 16

// canOpen reports whether a file can be opened so many times.
func canOpen(fsys vfs.FS, name string) bool {
	for range spareFiles {
		f, err := fsys.OpenFile(name, vfs.ReadOnly)
		if err != nil {
			return !tooManyFiles(err) // anything else is not for lack of descriptors
		}
		defer f.Close() //nolint:errcheck // it was only read
	}
	return true
}

const (
	insistPause = 100 * time.Millisecond
	insistCount = 100
)

// insist is insistWhile for a step of a change of the log that has begun.
func (l *Log) insist(fn func() error) error {
	return insistWhile(func() bool { return l.readable() == nil }, fn)
}

// insistWhile calls fn again while too many files are open, for 10 s at most, as long as it is wanted. fn must be
// repeatable. The shortage does not last: connections end, and idle files are closed.
func insistWhile(wanted func() bool, fn func() error) error {
	for count := 1; ; count++ {
		err := fn()
		if !tooManyFiles(err) || count == insistCount || !wanted() {
			return err
		}
		time.Sleep(insistPause)
	}
}

// runCloser closes files when there are too many, those first that have been unused for longest.
func (s *scheduler) runCloser(ctx context.Context) {
	o := s.m.env.fs
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
		o.round.Add(1)
		spare := o.max - o.max/4 // a quarter at a time, since finding them takes a while
		for _, c := range s.m.openSegments() {
			if o.count.Load() <= spare {
				break
			}
			c.log.closeIdle(c.seg)
		}
	}
}

// openSegment is a segment whose file is open.
type openSegment struct {
	log  *Log
	seg  *segment
	used int64 // the round in which it was last used
}

// openSegments returns those of all logs, the longest unused first.
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

// closeIdle closes the file and the indexes of a segment that is not in use. They are reopened when they are needed. It
// passes over a log that is busy.
func (l *Log) closeIdle(s *segment) {
	if !l.mu.TryLock() { // excludes appends, truncation and the like, of which the latter may wait for files: its turn comes again
		return
	}
	defer l.mu.Unlock() // readers without the lock hold a reference
	if s.closeUnused() && s != l.active() {
		_ = s.closeIndexes() // unmapping fails only for what is not mapped
	}
}

// closeUnused closes the file unless there are references besides the owner's. The caller holds the log's lock.
func (s *segment) closeUnused() bool {
	s.mu.Lock() // prevents others from opening it meanwhile
	defer s.mu.Unlock()
	f := s.file.Swap(nil)
	if f == nil {
		return false
	}
	if s.refs.Load() > 1 { // references from before the swap may use the file; later ones wait for the lock
		s.file.Store(f)
		return false
	}
	_ = f.Close() // loses no written data: it is in the page cache
	s.fs.closed()
	return true
}

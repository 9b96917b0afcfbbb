package logstore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"barnabas/internal/logx"
)

// Loading tells how far the loading of logs is, for who watches a start. The zero value is ready; its methods are safe for
// concurrent use, and on nil do nothing.
type Loading struct {
	mu   sync.Mutex // leaf; guards what follows
	dirs []*dirProgress
}

// DirLoading is how far the loading of one of log.dirs is. A directory that is offline is not there.
type DirLoading struct {
	Dir           string
	Loaded, Total int   // logs
	Read, ToRead  int64 // bytes of records behind the recovery points
	Recovering    bool  // the last stop was not clean: logs are checked, which takes longer
	Done          bool
	// Remaining is an estimate of how long the rest takes; 0: there is none.
	Remaining time.Duration
}

// Dirs gives the directories in the order in which they began.
func (p *Loading) Dirs() []DirLoading {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	dirs := slices.Clone(p.dirs)
	p.mu.Unlock()
	states := make([]DirLoading, len(dirs))
	for i, d := range dirs {
		states[i] = d.state()
	}
	return states
}

func (p *Loading) add(d *dirProgress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirs = append(p.dirs, d)
}

// dirProgress counts how far the loading of a directory is, and tells the log now and then.
type dirProgress struct {
	dir        string
	total      int
	toRead     int64
	recovering bool
	now        func() time.Time
	began      time.Time
	logger     *logrus.Entry
	lines      rate.Sometimes

	loaded    atomic.Int64
	bytesRead atomic.Int64
	done      atomic.Bool
}

// newProgress is that of a directory whose logs are about to be loaded.
func newProgress(dir string, parts []loading, recovering bool, now func() time.Time, logger *logrus.Entry) *dirProgress {
	d := &dirProgress{dir: dir, total: len(parts), recovering: recovering, now: now, began: now(), logger: logger.WithField(logx.Dir, dir),
		lines: rate.Sometimes{Interval: time.Second}}
	for _, o := range parts {
		d.toRead += o.toRead
	}
	if recovering {
		d.logger.WithFields(logrus.Fields{logx.Count: len(parts), logx.SizeBytes: d.toRead}).Info("last stop was not clean, recovering logs")
	}
	d.lines.Do(func() {}) // the first line comes after an interval
	return d
}

// read counts bytes that were read, or need not be any more.
func (d *dirProgress) read(bytes int64) {
	d.bytesRead.Add(bytes)
	d.lines.Do(d.tell)
}

// loadedOne counts a log that was loaded.
func (d *dirProgress) loadedOne() {
	d.loaded.Add(1)
	d.lines.Do(d.tell)
}

func (d *dirProgress) tell() {
	s := d.state()
	fields := logrus.Fields{logx.Count: fmt.Sprintf("%d/%d", s.Loaded, s.Total)}
	if s.ToRead > 0 {
		fields[logx.SizeBytes] = fmt.Sprintf("%d/%d", s.Read, s.ToRead)
	}
	if s.Remaining > 0 {
		fields[logx.LeftMs] = s.Remaining.Milliseconds()
	}
	d.logger.WithFields(fields).Info("loading logs")
}

func (d *dirProgress) end() {
	d.done.Store(true)
	d.logger.WithField(logx.Count, d.loaded.Load()).WithField(logx.TookMs, d.now().Sub(d.began).Milliseconds()).Info("loaded logs")
}

func (d *dirProgress) state() DirLoading {
	s := DirLoading{Dir: d.dir, Loaded: int(d.loaded.Load()), Total: d.total, Read: d.bytesRead.Load(), ToRead: d.toRead,
		Recovering: d.recovering, Done: d.done.Load()}
	if !s.Done {
		s.Remaining = remaining(s.Read, s.ToRead, d.now().Sub(d.began))
	}
	return s
}

// remaining is how long the rest takes if it goes on at the speed of so far.
func remaining(read, toRead int64, elapsed time.Duration) time.Duration {
	if read <= 0 || toRead <= read || elapsed <= 0 {
		return 0
	}
	return time.Duration(float64(elapsed) * (float64(toRead-read) / float64(read)))
}

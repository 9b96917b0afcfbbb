package logstore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
)

// Loading is the progress of loading logs, for observers of a start. The zero value is ready to use; its methods are
// safe for concurrent use, and do nothing on nil.
type Loading struct {
	mu struct {
		sync.Mutex // a leaf
		dirs       []*dirProgress
	}
}

// DirLoading is the progress of loading one of log.dirs. Directories that are offline are omitted.
type DirLoading struct {
	Dir           string
	Loaded, Total int   // logs
	Read, ToRead  int64 // bytes of records above the recovery points
	Recovering    bool  // the last shutdown was unclean: logs are checked, which takes longer
	Done          bool
	// Remaining is an estimate of the remaining time; 0: unknown.
	Remaining time.Duration
}

// Dirs returns the directories in the order in which they began.
func (p *Loading) Dirs() []DirLoading {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	dirs := slices.Clone(p.mu.dirs)
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
	p.mu.dirs = append(p.mu.dirs, d)
}

// dirProgress counts the progress of loading a directory, and logs it from time to time.
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

// newProgress returns the progress of a directory whose logs are about to be loaded.
func newProgress(dir string, logs []loadOptions, recovering bool, now func() time.Time, logger *logrus.Entry) *dirProgress {
	d := &dirProgress{dir: dir, total: len(logs), recovering: recovering, now: now, began: now(), logger: logger.WithField(logx.Dir, dir),
		lines: rate.Sometimes{Interval: time.Second}}
	for _, o := range logs {
		d.toRead += o.toRead
	}
	if recovering {
		d.logger.WithFields(logrus.Fields{logx.Count: len(logs), logx.SizeBytes: d.toRead}).Info("the last shutdown was not clean, recovering logs")
	}
	d.lines.Do(func() {}) // the first line comes after an interval
	return d
}

// read counts bytes that were read, or no longer need to be.
func (d *dirProgress) read(bytes int64) {
	d.bytesRead.Add(bytes)
	d.lines.Do(d.logProgress)
}

// loadedOne counts a loaded log.
func (d *dirProgress) loadedOne() {
	d.loaded.Add(1)
	d.lines.Do(d.logProgress)
}

func (d *dirProgress) logProgress() {
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

// remaining estimates the remaining time from the speed so far.
func remaining(read, toRead int64, elapsed time.Duration) time.Duration {
	if read <= 0 || toRead <= read || elapsed <= 0 {
		return 0
	}
	return time.Duration(float64(elapsed) * (float64(toRead-read) / float64(read)))
}

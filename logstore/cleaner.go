package logstore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
)

// CleanerConfig configures compaction. The broker property is beside each field.
type CleanerConfig struct {
	Enable         bool          // log.cleaner.enable
	Threads        int           // log.cleaner.threads: number of logs compacted at a time
	DedupeBytes    int64         // log.cleaner.dedupe.buffer.size, over all threads
	LoadFactor     float64       // log.cleaner.io.buffer.load.factor: how full the dedupe buffer may get
	BufferBytes    int           // log.cleaner.io.buffer.size, over all threads
	MaxBytesPerSec float64       // log.cleaner.io.max.bytes.per.second, read and written, over all threads
	Backoff        time.Duration // log.cleaner.backoff.ms, between examinations of logs that are not worth compacting yet
}

// defaultCleanerConfig has the defaults of Apache Kafka 3.9.
func defaultCleanerConfig() CleanerConfig {
	return CleanerConfig{Enable: true, Threads: 1, DedupeBytes: 128 << 20, LoadFactor: 0.9, BufferBytes: 512 << 10,
		MaxBytesPerSec: math.MaxFloat64, Backoff: 15 * time.Second}
}

// share returns what one thread may use.
func (c *CleanerConfig) share(throttle func(context.Context, int) error) resources {
	threads := max(c.Threads, 1)
	const readAndWrite = 2
	return resources{mapBytes: c.DedupeBytes / int64(threads), loadFactor: c.LoadFactor,
		bufferBytes: max(c.BufferBytes/threads/readAndWrite, minCleanBuffer), throttle: throttle}
}

// minCleanBuffer is the minimum that is read or written at a time. A larger batch makes the buffer grow.
const minCleanBuffer = 4 << 10

// cleaner compacts the logs of a Manager, the dirtiest first. One goroutine chooses logs and starts another one for
// each compaction. While no log has anything dirty, none of them wakes up.
type cleaner struct {
	m       *Manager
	limiter *rate.Limiter
	wg      sync.WaitGroup
	wake    chan struct{} // capacity 1: there is a new log to examine
	now     chan struct{} // capacity 1: examine at once

	mu struct {
		sync.Mutex // leaf
		cfg        CleanerConfig
		cancel     context.CancelFunc
		stopped    bool
		suspects   map[*Log]bool // logs that have something to compact, or may later
		running    map[*Log]bool
		failed     map[*Log]cleanFailure
		counts     CleanerCounts // except what failed and running contain
	}
}

// cleanFailure describes a log that could not be compacted. It is tried again when it has changed, or after a while.
type cleanFailure struct {
	count int
	retry time.Time
	cfg   *Config
	start int64
}

// The shortest and longest time until a log that could not be compacted is tried again. Apache Kafka never does.
const (
	cleanRetry    = time.Minute
	cleanRetryMax = time.Hour
)

func newCleaner(m *Manager) *cleaner {
	c := &cleaner{m: m, limiter: rate.NewLimiter(rate.Inf, 1), wake: make(chan struct{}, 1), now: make(chan struct{}, 1)}
	c.mu.suspects, c.mu.running = make(map[*Log]bool), make(map[*Log]bool)
	c.mu.failed = make(map[*Log]cleanFailure)
	c.configure(m.cfg.Cleaner)
	return c
}

// configure applies a configuration.
func (c *cleaner) configure(cfg CleanerConfig) {
	limit, burst := rate.Inf, 1
	if cfg.MaxBytesPerSec < math.MaxInt32 {
		burst = int(max(cfg.MaxBytesPerSec, 1))
		limit = rate.Limit(burst)
	}
	c.limiter.SetBurst(burst)
	c.limiter.SetLimit(limit)
	c.mu.Lock()
	c.mu.cfg = cfg
	c.mu.Unlock()
	ring(c.now)
}

// throttle waits until another n bytes may be read or written.
func (c *cleaner) throttle(ctx context.Context, n int) error {
	for n > 0 && c.limiter.Limit() != rate.Inf {
		part := min(n, c.limiter.Burst())
		if err := c.limiter.WaitN(ctx, part); err == nil {
			n -= part
		} else if ctx.Err() != nil {
			return context.Cause(ctx)
		} // otherwise the limit has just changed
	}
	return nil
}

func (c *cleaner) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.stopped || c.mu.cancel != nil || !c.mu.cfg.Enable {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.mu.cancel = cancel
	for _, l := range c.m.Logs() {
		c.mu.suspects[l] = true
	}
	c.wg.Go(func() { c.run(ctx) })
}

// stop ends the cleaner and the compactions in progress, which undo unfinished work.
func (c *cleaner) stop() {
	c.mu.Lock()
	c.mu.stopped = true
	cancel := c.mu.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	c.wg.Wait()
}

// consider schedules an examination of a log that has closed a segment or has new settings. It may be called under any
// lock.
func (c *cleaner) consider(l *Log) {
	if !l.config.Load().Compact {
		return
	}
	c.mu.Lock()
	c.mu.suspects[l] = true
	c.mu.Unlock()
	ring(c.wake)
}

func (c *cleaner) run(ctx context.Context) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	armed := false
	for {
		if !armed {
			c.startDue(ctx)
			if armed = c.waiting(); armed {
				timer.Reset(c.backoff())
			}
		}
		select {
		case <-timer.C:
			armed = false
		case <-c.now:
			armed = false
		case <-c.wake: // examined after the backoff: a log that rolls often is not compacted as often
			if !armed {
				armed = true
				timer.Reset(c.backoff())
			}
		case <-ctx.Done():
			return
		}
	}
}

func (c *cleaner) backoff() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.mu.cfg.Backoff, time.Millisecond)
}

// waiting reports whether a log may become due by the mere passage of time.
func (c *cleaner) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.suspects) > len(c.mu.running)
}

// dirtyLog is a log to be compacted.
type dirtyLog struct {
	*Log
	part dirtyPart
}

// startDue starts compacting the dirtiest logs, as many as may run at a time.
func (c *cleaner) startDue(ctx context.Context) {
	c.mu.Lock()
	cfg := c.mu.cfg
	free := cfg.Threads - len(c.mu.running)
	c.mu.Unlock()
	if free <= 0 || ctx.Err() != nil {
		return // the next one that ends wakes the cleaner
	}
	for _, d := range c.dirtiest(ctx, free) {
		c.mu.Lock()
		c.mu.running[d.Log] = true
		c.mu.Unlock()
		c.wg.Go(func() {
			c.clean(ctx, d, cfg.share(c.throttle))
			c.mu.Lock()
			delete(c.mu.running, d.Log)
			c.mu.Unlock()
			ring(c.now)
		})
	}
}

// dirtiest returns up to n logs to compact, the dirtiest first. Logs with nothing dirty that cannot become due by
// themselves are removed from the suspects.
func (c *cleaner) dirtiest(ctx context.Context, n int) []dirtyLog {
	now := c.m.cfg.Now()
	var due []dirtyLog
	dirtiest, late := 0.0, time.Duration(0)
	defer func() { c.looked(now, dirtiest, late) }()
	for _, l := range c.candidates(now) {
		c.acquit(l) // before it is examined: a segment that is closed meanwhile makes it a suspect again
		part, keep := c.look(ctx, l, now)
		dirtiest, late = max(dirtiest, part.ratio), max(late, part.late)
		c.examined(l, keep)
		if keep && part.due(l.config.Load()) {
			due = append(due, dirtyLog{l, part})
		}
	}
	slices.SortFunc(due, func(a, b dirtyLog) int { return cmp.Or(cmp.Compare(b.part.ratio, a.part.ratio), a.tp.Compare(b.tp)) })
	return due[:min(n, len(due))]
}

// candidates returns the suspects that are not being compacted and have not failed recently.
func (c *cleaner) candidates(now time.Time) []*Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	var logs []*Log
	for l := range c.mu.suspects {
		f, failed := c.mu.failed[l]
		if !c.mu.running[l] && (!failed || now.After(f.retry) || f.cfg != l.config.Load() || f.start != l.start.Load()) {
			logs = append(logs, l)
		}
	}
	return logs
}

func (c *cleaner) acquit(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.suspects, l)
}

// examined makes a log a suspect again if it is to be examined again.
func (c *cleaner) examined(l *Log, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if again {
		c.mu.suspects[l] = true
	} else {
		delete(c.mu.failed, l)
	}
}

// look determines the dirty part of a log; keep is false if there is no need to look again until the log is considered
// again.
func (c *cleaner) look(ctx context.Context, l *Log, now time.Time) (part dirtyPart, keep bool) {
	if l.readable() != nil || !l.config.Load().Compact {
		return part, false
	}
	cleaned, known := c.m.cleanedTo(l)
	part, err := l.dirtyPart(cleaned, known, now)
	if err != nil {
		c.failed(l, c.classifyError(ctx, l, err))
		return dirtyPart{}, true
	}
	if part.reset {
		err := c.m.setCleanedTo(l, part.from)
		_ = l.disk.fail("write checkpoint", err)
	}
	return part, part.more
}

// clean compacts one log.
func (c *cleaner) clean(ctx context.Context, d dirtyLog, use resources) {
	ctx, ok := d.cleaning.begin(ctx)
	if !ok {
		return // it is being truncated or deleted, and will be considered again
	}
	defer d.cleaning.end()
	// Again: since it was chosen the log may have been truncated, and have got records above the high watermark.
	d.part, _ = c.look(ctx, d.Log, c.m.cfg.Now())
	if !d.part.due(d.config.Load()) {
		return
	}
	began := time.Now()
	end, stats, err := d.compact(ctx, d.part, use)
	if err == nil {
		err = d.disk.fail("write checkpoint", c.m.setCleanedTo(d.Log, end))
	}
	if err != nil {
		c.failed(d.Log, c.classifyError(ctx, d.Log, err))
		return
	}
	took := time.Since(began)
	c.cleaned(d.Log, &stats, took)
	c.report(d.Log, end, &stats, took)
}

// logger returns the logger for a log.
func (c *cleaner) logger(l *Log) *logrus.Entry {
	return c.m.cfg.CleanerLogger.WithFields(logFields(l.tp, l.disk.path))
}

func (c *cleaner) report(l *Log, end int64, stats *compactionStats, took time.Duration) {
	logger := c.logger(l).WithFields(map[string]any{logx.Offset: end, logx.OldSizeBytes: stats.oldSize, logx.SizeBytes: stats.newSize,
		logx.OldRecords: stats.Records, logx.Records: stats.Kept, logx.TookMs: took.Milliseconds()})
	logger.Info("compacted log")
	if stats.keyless > 0 {
		logger.WithField(logx.Count, stats.keyless).Warn("records without a key were dropped by compaction")
	}
}

// classifyError interprets the error of a compaction: nil if it was only interrupted. A disk fault takes the directory
// offline; invalid data or a full disk does not: the log is served as it is.
func (c *cleaner) classifyError(ctx context.Context, l *Log, err error) error {
	l.mu.Lock() // waits for a deletion in progress
	gone := l.usableLocked() != nil
	l.mu.Unlock()
	var inFile *fs.PathError
	switch {
	case gone, ctx.Err() != nil, errors.Is(err, errChanged):
		return nil
	case noSpace(err), tooManyFiles(err), !errors.As(err, &inFile):
		return err
	}
	return l.disk.failEvenIfFull("compact "+l.tp.String(), err)
}

// failed prevents a log from being tried again at once. Without an error it does nothing.
func (c *cleaner) failed(l *Log, err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	f := c.mu.failed[l]
	wait := min(cleanRetry<<min(f.count, 10), cleanRetryMax)
	c.mu.failed[l] = cleanFailure{f.count + 1, c.m.cfg.Now().Add(wait), l.config.Load(), l.start.Load()}
	c.mu.Unlock()
	c.logger(l).WithError(err).WithField(logx.Value, wait.String()).Warn("cannot compact log, trying again later")
}

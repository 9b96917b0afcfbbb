package logstore

import "time"

// CleanerCounts are what compaction has done and what it cannot do, for metrics.
type CleanerCounts struct {
	// Uncleanable are the logs that could not be compacted, by directory; all directories of log.dirs are there. They are tried
	// again after a while, or when they have changed.
	Uncleanable map[string]UncleanableLogs
	// LastRun is when the logs were last looked at, zero: never.
	LastRun time.Time
	// MaxDirtyRatio is the part of the dirtiest log that was dirty then, from 0 to 1.
	MaxDirtyRatio float64
	// MaxLate is for how long a log had waited then beyond max.compaction.lag.ms, the longest of all.
	MaxLate time.Duration
	Running int // compactions under way

	Compactions             int64 // that have ended well, since the start
	BytesRead, BytesWritten int64 // by these: the segments before, and those in their place
	// Last is the compaction that ended last.
	Last LastCompaction
	// MaxTime is the longest that a compaction took.
	MaxTime time.Duration
}

// UncleanableLogs are logs that could not be compacted.
type UncleanableLogs struct {
	Count int
	Bytes int64
}

// LastCompaction is what one compaction did.
type LastCompaction struct {
	BytesRead, BytesWritten int64
	Time                    time.Duration
}

// CleanerCounts gives what compaction has done so far.
func (m *Manager) CleanerCounts() CleanerCounts {
	counts := m.clean.snapshot()
	for _, v := range m.disks {
		if _, ok := counts.Uncleanable[v.path]; !ok {
			counts.Uncleanable[v.path] = UncleanableLogs{}
		}
	}
	return counts
}

func (c *cleaner) snapshot() CleanerCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.mu.counts
	counts.Running = len(c.mu.running)
	counts.Uncleanable = make(map[string]UncleanableLogs)
	for l := range c.mu.failed {
		if l.readable() != nil {
			continue // deleted, moved or offline since
		}
		u := counts.Uncleanable[l.Dir()]
		u.Count, u.Bytes = u.Count+1, u.Bytes+l.Size()
		counts.Uncleanable[l.Dir()] = u
	}
	return counts
}

// looked takes note of a look at all logs.
func (c *cleaner) looked(now time.Time, dirtiest float64, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.counts.LastRun, c.mu.counts.MaxDirtyRatio, c.mu.counts.MaxLate = now, dirtiest, late
}

// cleaned takes note of a compaction that has ended well.
func (c *cleaner) cleaned(l *Log, stats *compactionStats, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.failed, l)
	counts := &c.mu.counts
	counts.Compactions++
	counts.Last = LastCompaction{stats.oldSize, stats.newSize, took}
	counts.BytesRead += stats.oldSize
	counts.BytesWritten += stats.newSize
	counts.MaxTime = max(counts.MaxTime, took)
}

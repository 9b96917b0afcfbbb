package logstore

import "time"

// CleanerCounts is what compaction has done and what it could not do, for metrics.
type CleanerCounts struct {
	// Uncleanable are the logs that could not be compacted, by directory; all of log.dirs are included. They are tried
	// again after a while, or when they have changed.
	Uncleanable map[string]UncleanableLogs
	// LastRun is when the logs were last examined; zero: never.
	LastRun time.Time
	// MaxDirtyRatio is the highest dirty ratio of any log at that time, from 0 to 1.
	MaxDirtyRatio float64
	// MaxLate is the longest time by which a log had then exceeded max.compaction.lag.ms.
	MaxLate time.Duration
	Running int // compactions in progress

	Compactions             int64 // completed since the start
	BytesRead, BytesWritten int64 // of these: the old segments, and those that replaced them
	// MaxTime is the duration of the longest compaction.
	MaxTime time.Duration
}

// UncleanableLogs are logs that could not be compacted.
type UncleanableLogs struct {
	Count int
	Bytes int64
}

// CleanerCounts returns what compaction has done so far.
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

// looked records an examination of all logs.
func (c *cleaner) looked(now time.Time, dirtiest float64, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.counts.LastRun, c.mu.counts.MaxDirtyRatio, c.mu.counts.MaxLate = now, dirtiest, late
}

// cleaned records a completed compaction.
func (c *cleaner) cleaned(l *Log, stats *compactionStats, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.failed, l)
	counts := &c.mu.counts
	counts.Compactions++
	counts.BytesRead += stats.oldSize
	counts.BytesWritten += stats.newSize
	counts.MaxTime = max(counts.MaxTime, took)
}

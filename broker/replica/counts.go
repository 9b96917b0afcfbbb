package replica

import (
	"sync/atomic"

	"barnabas/logstore"
)

// counts are what a Manager's partitions have gone through since it started.
type counts struct {
	shrinks, expands, refused atomic.Int64 // of ISRs
	lost                      atomic.Int64 // records
}

// Counts are what a Manager's partitions have gone through since it started.
type Counts struct {
	ISRShrinks, ISRExpands int64
	ISRRefused             int64 // changes that the controller did not take
	// RecordsLost counts the acknowledged records that followers had to cut off, since the leader, elected without being
	// in sync, does not have them.
	RecordsLost int64
}

// Counts gives the counts as they are.
func (m *Manager) Counts() Counts {
	c := &m.counts
	return Counts{c.shrinks.Load(), c.expands.Load(), c.refused.Load(), c.lost.Load()}
}

// isrChanged counts a change of an ISR from before to after replicas.
func (c *counts) isrChanged(before, after int) {
	switch {
	case after < before:
		c.shrinks.Add(1)
	case after > before:
		c.expands.Add(1)
	}
}

// Lags gives for each partition that is followed how many of the records that the leader's high watermark covers are
// not here yet, as the leader's last answer told.
func (m *Manager) Lags(each func(tp logstore.TopicPartition, lag int64)) {
	m.fetchers.mu.Lock()
	defer m.fetchers.mu.Unlock()
	for _, t := range m.fetchers.mu.byKey {
		t.mu.Lock()
		for tp, f := range t.mu.partitions {
			each(tp, f.lag.Load())
		}
		t.mu.Unlock()
	}
}

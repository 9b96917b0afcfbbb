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

// FetcherState is what one of the fetchers has done and what it lacks.
type FetcherState struct {
	Source          BrokerAddress
	Number          int   // among those that fetch from this broker
	Requests, Bytes int64 // Fetch requests that were sent, and records that came
	// Lags are how many of the records that the leader's high watermark covers are not here yet, as the leader's last answer told, of
	// each partition that is followed.
	Lags map[logstore.TopicPartition]int64
	// Failing counts the partitions that cannot be followed, tried again though they are; not those whose leader moves.
	Failing int
}

// Fetchers gives the state of each fetcher.
func (m *Manager) Fetchers() []FetcherState {
	m.fetchers.mu.Lock()
	defer m.fetchers.mu.Unlock()
	var all []FetcherState
	for key, t := range m.fetchers.mu.byKey {
		s := t.state()
		s.Number = key.number
		all = append(all, s)
	}
	return all
}

func (t *fetcher) state() FetcherState {
	s := FetcherState{Source: t.source, Requests: t.requests.Load(), Bytes: t.bytes.Load(), Lags: make(map[logstore.TopicPartition]int64)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for tp, f := range t.mu.partitions {
		s.Lags[tp] = f.lag.Load()
		if f.failing.Load() {
			s.Failing++
		}
	}
	return s
}

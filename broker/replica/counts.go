package replica

import (
	"sync/atomic"

	"barnabas/logstore"
)

// counts holds event counts over a Manager's partitions since its start.
type counts struct {
	shrinks, expands, refused atomic.Int64 // of ISRs
	lost                      atomic.Int64 // records
}

// Counts are event counts over a Manager's partitions since its start.
type Counts struct {
	ISRShrinks, ISRExpands int64
	ISRRefused             int64 // changes that the controller refused
	// RecordsLost counts acknowledged records that followers had to truncate because the leader, elected while out of
	// sync, does not have them.
	RecordsLost int64
}

// Counts returns the current counts.
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

// FetcherState describes the work of one fetcher.
type FetcherState struct {
	Source          BrokerAddress
	Number          int   // among the fetchers from this source broker
	Requests, Bytes int64 // Fetch requests sent, bytes of records received
	// Lags is the number of records below the leader's high watermark, as of its last response, that are not here yet,
	// for each followed partition.
	Lags map[logstore.TopicPartition]int64
	// Failing counts the partitions that cannot be followed at the moment and are being retried, except those whose
	// leader is moving.
	Failing int
}

// Fetchers returns the state of each fetcher.
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

package status

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	interval = 5 * time.Second // between two points of a history
	fresh    = time.Second     // maximum age of a reading that is shown
	points   = 60              // in a history: five minutes

	// Limits on what is shown. The rest is counted.
	topicsShown        = 100
	groupsShown        = 100
	reassignmentsShown = 50

	groupsKept = 500 // groups whose history is kept
)

// Board converts Readings to Snapshots. Safe for concurrent use.
type Board struct {
	read func(context.Context) Reading
	now  func() time.Time

	stale atomic.Bool // the last reading must not be shown

	mu struct {
		sync.Mutex // held during a reading, so that all concurrent requests get the same one
		at         time.Time
		last       []byte
		point      time.Time // time of the last point of the histories
		before     counted
		total      [2]history // bytes in and out per second
		groups     map[string]*history
	}
}

// counted is what rates are computed from.
type counted struct {
	at     time.Time
	all    Traffic
	topics map[string]Traffic
	rates  map[string]Rates
	total  Rates
}

// history has one value over the last minutes, the newest last.
type history []float64

func (h history) with(v float64) history {
	if len(h) >= points {
		h = h[:copy(h, h[len(h)-points+1:])]
	}
	return append(h, v)
}

// NewBoard returns a Board. read, whose context ends with the request, is called by one goroutine at a time.
func NewBoard(read func(context.Context) Reading, now func() time.Time) *Board {
	b := &Board{read: read, now: now}
	b.mu.groups = make(map[string]*history)
	return b
}

// Run takes readings at an interval until ctx is done.
func (b *Board) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		b.JSON(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Snapshot is what the page shows.
type Snapshot struct {
	TimeMs          int64          `json:"time"`
	IntervalMs      int64          `json:"interval"` // between two points of a history
	Broker          Broker         `json:"broker"`
	Loading         []Loading      `json:"loading"`
	Cluster         *Cluster       `json:"cluster"`
	Rates           Rates          `json:"rates"`
	BytesIn         history        `json:"bytesIn"`
	BytesOut        history        `json:"bytesOut"`
	Topics          []Topic        `json:"topics"`
	TopicsLeft      int            `json:"topicsLeft"`
	Groups          []Group        `json:"groups"`
	GroupsLeft      int            `json:"groupsLeft"`
	Dirs            []Dir          `json:"dirs"`
	Listeners       []Listener     `json:"listeners"`
	Moves           []Reassignment `json:"reassignments"`
	MovesLeft       int            `json:"reassignmentsLeft"`
	DirMoves        []DirMove      `json:"dirMoves"`
	DirMovesLeft    int            `json:"dirMovesLeft"`
	CouldNotBeAsked []string       `json:"trouble"`
}

// Rates are per second, on this broker.
type Rates struct {
	BytesIn    float64 `json:"bytesIn"`
	BytesOut   float64 `json:"bytesOut"`
	MessagesIn float64 `json:"messagesIn"`
}

// Topic is a row on the page.
type Topic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
	Under      int    `json:"underReplicated"`
	Leaderless int    `json:"leaderless"`
	Size       int64  `json:"size"`
	Rates      Rates  `json:"rates"`
}

// Group is a row on the page.
type Group struct {
	Name       string  `json:"name"`
	State      string  `json:"state"`
	Lag        int64   `json:"lag"`
	Partitions int     `json:"partitions"`
	Unknown    int     `json:"unknown"`
	History    history `json:"history"`
}

// Refresh makes the next request take a new reading, however recent the last one is.
func (b *Board) Refresh() { b.stale.Store(true) }

// JSON returns the newest Snapshot.
func (b *Board) JSON(ctx context.Context) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if stale := b.stale.Swap(false); !stale && b.mu.last != nil && now.Sub(b.mu.at) < fresh {
		return b.mu.last
	}
	s := b.snapshotLocked(b.read(ctx), now)
	text, err := json.Marshal(s)
	if err != nil { // NaN or infinity: a bug
		text, _ = json.Marshal(Snapshot{Broker: s.Broker, CouldNotBeAsked: []string{err.Error()}})
	}
	b.mu.at, b.mu.last = b.now(), text // not when it began: brokers that hang can make it take longer than it stays fresh
	return text
}

func (b *Board) snapshotLocked(r Reading, now time.Time) Snapshot {
	due := b.mu.point.IsZero() || now.Sub(b.mu.point) >= interval-fresh
	if due {
		b.mu.point = now
	}
	b.countLocked(&r, now)
	s := Snapshot{TimeMs: now.UnixMilli(), IntervalMs: interval.Milliseconds(), Broker: r.Broker, Loading: r.Loading, Cluster: r.Cluster,
		Rates: b.mu.before.total, Dirs: r.Dirs, Listeners: r.Listeners, CouldNotBeAsked: r.Trouble}
	if due {
		b.mu.total[0], b.mu.total[1] = b.mu.total[0].with(s.Rates.BytesIn), b.mu.total[1].with(s.Rates.BytesOut)
	}
	s.BytesIn, s.BytesOut = b.mu.total[0], b.mu.total[1]
	s.Topics, s.TopicsLeft = b.topicsLocked(r.Topics)
	s.Groups, s.GroupsLeft = b.groupsLocked(r.Groups, due)
	s.GroupsLeft += r.GroupsUnread
	s.Moves, s.MovesLeft = first(r.Reassignments, reassignmentsShown)
	s.DirMoves, s.DirMovesLeft = first(r.DirMoves, reassignmentsShown)
	return s
}

// countLocked computes rates from what was counted since a reading some seconds ago. Until that much time has passed,
// the last rates stay.
func (b *Board) countLocked(r *Reading, now time.Time) {
	elapsed := now.Sub(b.mu.before.at)
	if !b.mu.before.at.IsZero() && elapsed < interval-fresh {
		return
	}
	next := counted{at: now, all: r.Traffic, topics: make(map[string]Traffic, len(r.Topics)), rates: make(map[string]Rates, len(r.Topics))}
	for _, t := range r.Topics {
		next.topics[t.Name] = t.Traffic
		if before, ok := b.mu.before.topics[t.Name]; ok {
			next.rates[t.Name] = rates(before, t.Traffic, elapsed)
		}
	}
	if !b.mu.before.at.IsZero() {
		next.total = rates(b.mu.before.all, r.Traffic, elapsed)
	}
	b.mu.before = next
}

func rates(from, to Traffic, elapsed time.Duration) Rates {
	per := func(from, to int64) float64 { return float64(max(0, to-from)) / elapsed.Seconds() } // a recreated topic counts from 0
	return Rates{per(from.BytesIn, to.BytesIn), per(from.BytesOut, to.BytesOut), per(from.MessagesIn, to.MessagesIn)}
}

// topicsLocked returns the topics: those in trouble first, then the busiest, then the largest.
func (b *Board) topicsLocked(counts []TopicCounts) ([]Topic, int) {
	topics := make([]Topic, len(counts))
	for i, c := range counts {
		topics[i] = Topic{Name: c.Name, Partitions: c.Partitions, Under: c.UnderReplicated, Leaderless: c.Leaderless, Size: c.SizeBytes, Rates: b.mu.before.rates[c.Name]}
	}
	slices.SortFunc(topics, func(x, y Topic) int {
		return cmp.Or(cmp.Compare(y.Leaderless, x.Leaderless), cmp.Compare(y.Under, x.Under), cmp.Compare(y.Rates.BytesIn, x.Rates.BytesIn),
			cmp.Compare(y.Size, x.Size), strings.Compare(x.Name, y.Name))
	})
	return first(topics, topicsShown)
}

// groupsLocked returns the groups, those with the largest lag first, and keeps their histories.
func (b *Board) groupsLocked(lags []GroupLag, due bool) ([]Group, int) {
	lags = slices.Clone(lags)
	slices.SortFunc(lags, func(x, y GroupLag) int { return cmp.Or(cmp.Compare(y.Lag, x.Lag), strings.Compare(x.Name, y.Name)) })
	kept, _ := first(lags, groupsKept)
	if due {
		b.rememberLocked(kept)
	}
	shown, left := first(lags, groupsShown)
	groups := make([]Group, len(shown))
	for i, g := range shown {
		groups[i] = Group{Name: g.Name, State: g.State, Lag: g.Lag, Partitions: g.Partitions, Unknown: g.Unknown}
		if h := b.mu.groups[g.Name]; h != nil {
			groups[i].History = *h
		}
	}
	return groups, left
}

func (b *Board) rememberLocked(lags []GroupLag) {
	next := make(map[string]*history, len(lags))
	for _, g := range lags {
		h := b.mu.groups[g.Name]
		if h == nil {
			h = new(history)
		}
		*h = h.with(float64(g.Lag))
		next[g.Name] = h
	}
	b.mu.groups = next
}

func first[T any](list []T, n int) (some []T, left int) {
	if len(list) <= n {
		return list, 0
	}
	return list[:n], len(list) - n
}

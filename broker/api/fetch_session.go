package api

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"barnabas/broker/replica"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionEviction is how long a session is protected from larger ones, and after how long without use any session may
// replace it (FetchSession's evictionMs, 3.9).
const sessionEviction = 2 * time.Minute

// The epochs that begin and end a session (KIP-227).
const (
	firstSessionEpoch = 0
	finalSessionEpoch = -1
)

// fetchSessions holds the incremental fetch sessions of a broker (KIP-227), up to
// max.incremental.fetch.session.cache.slots.
type fetchSessions struct {
	slots int
	mu    struct {
		sync.Mutex
		byID    map[int32]*fetchSession
		evicted int64 // sessions that were replaced by more valuable ones
	}
}

// fetchSession is the state of one client's session. Guarded by fetchSessions.mu.
type fetchSession struct {
	id         int32
	epoch      int32 // expected in the next request
	topicIDs   bool
	privileged bool // belongs to a follower
	created    time.Time
	used       time.Time
	parts      []*sessionPart // in the order in which they are served
	index      map[partKey]*sessionPart
}

// partKey identifies a partition by topic name or, from v13 on, by topic id.
type partKey struct {
	topic  string
	id     [16]byte
	number int32
}

// sessionPart is a partition in a session: what to read, and what the client was last told about it.
type sessionPart struct {
	partKey
	at          replica.Position
	mark, start int64
	gone        bool // removed from the session, to be dropped from the order
	justServed  bool // goes to the end of the order
}

// fetchContext relates one request to its session. Without a session (nil) the request stands alone.
type fetchContext struct {
	asked       []fetchPartition
	sessions    *fetchSessions
	session     *fetchSession
	incremental bool
	create      func(parts []fetchPartition) int32
}

func newFetchSessions(slots int) *fetchSessions {
	s := &fetchSessions{slots: slots}
	s.mu.byID = make(map[int32]*fetchSession)
	return s
}

// FetchSessionCounts counts the incremental fetch sessions of a broker.
type FetchSessionCounts struct {
	Sessions, Partitions int
	Evicted              int64 // since the start
}

// FetchSessions counts the fetch sessions.
func (h *Handlers) FetchSessions() FetchSessionCounts {
	s := h.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	c := FetchSessionCounts{Sessions: len(s.mu.byID), Evicted: s.mu.evicted}
	for _, f := range s.mu.byID {
		c.Partitions += len(f.parts)
	}
	return c
}

// positionOf returns where a partition is read. Any negative epoch means that there is none (FetchRequest, 3.9).
func positionOf(p *kmsg.FetchRequestTopicPartition) replica.Position {
	return replica.Position{
		LeaderEpoch: max(p.CurrentLeaderEpoch, -1), LastFetchedEpoch: max(p.LastFetchedEpoch, -1), Offset: p.FetchOffset,
		LogStart: p.LogStartOffset, MaxBytes: p.PartitionMaxBytes,
	}
}

func (k partKey) asked(at replica.Position) fetchPartition {
	return fetchPartition{topic: k.topic, id: k.id, number: k.number, at: at, preferred: -1}
}

// listed returns the partitions of a request, each once, in order.
func listed(req *kmsg.FetchRequest) []fetchPartition {
	var parts []fetchPartition
	seen := make(map[partKey]int)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := partKey{t.Topic, t.TopicID, p.Partition}
			if at, again := seen[key]; again {
				parts[at].at = positionOf(p)
				continue
			}
			seen[key] = len(parts)
			parts = append(parts, key.asked(positionOf(p)))
		}
	}
	return parts
}

// begin finds or creates the session of a request. Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
// FETCH_SESSION_TOPIC_ID_ERROR.
func (s *fetchSessions) begin(req *kmsg.FetchRequest, now time.Time) (*fetchContext, error) {
	if req.SessionEpoch != firstSessionEpoch && req.SessionEpoch != finalSessionEpoch {
		return s.resume(req, now)
	}
	if req.SessionID != 0 {
		s.remove(req.SessionID)
	}
	c := &fetchContext{asked: listed(req), sessions: s}
	if req.SessionEpoch == firstSessionEpoch && req.Version >= 7 {
		follower := req.ReplicaID >= 0 || req.ReplicaState.ID >= 0
		c.create = func(parts []fetchPartition) int32 {
			return s.open(parts, req.Version >= fetchTopicIDVersion, follower, now)
		}
	}
	return c, nil
}

func (s *fetchSessions) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.byID, id)
}

func (s *fetchSessions) resume(req *kmsg.FetchRequest, now time.Time) (*fetchContext, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.mu.byID[req.SessionID]
	switch {
	case session == nil:
		return nil, fmt.Errorf("fetch session %d: %w", req.SessionID, kerr.FetchSessionIDNotFound)
	case session.epoch != req.SessionEpoch:
		return nil, fmt.Errorf("fetch session %d: epoch %d, want %d: %w", req.SessionID, req.SessionEpoch, session.epoch, kerr.InvalidFetchSessionEpoch)
	case session.topicIDs != (req.Version >= fetchTopicIDVersion):
		return nil, fmt.Errorf("fetch session %d: %w", req.SessionID, kerr.FetchSessionTopicIDError)
	}
	session.update(req)
	if len(session.index) == 0 {
		delete(s.mu.byID, session.id)
		return &fetchContext{asked: listed(req), sessions: s}, nil // what the request adds and forgets at once is still read
	}
	if session.epoch++; session.epoch <= 0 {
		session.epoch = 1
	}
	session.used = now
	c := &fetchContext{sessions: s, session: session, incremental: true}
	c.asked = make([]fetchPartition, 0, len(session.parts))
	for _, p := range session.parts {
		c.asked = append(c.asked, p.partKey.asked(p.at))
	}
	return c, nil
}

// update applies the changes in a request.
func (f *fetchSession) update(req *kmsg.FetchRequest) {
	for _, a := range listed(req) {
		f.add(a)
	}
	dropped := false
	for _, t := range req.ForgottenTopics {
		for _, n := range t.Partitions {
			key := partKey{t.Topic, t.TopicID, n}
			if p := f.index[key]; p != nil {
				p.gone, dropped = true, true
				delete(f.index, key)
			}
		}
	}
	if dropped {
		f.reorder()
	}
}

func (f *fetchSession) add(a fetchPartition) *sessionPart {
	key := partKey{a.topic, a.id, a.number}
	p := f.index[key]
	if p == nil {
		p = &sessionPart{partKey: key, mark: -1, start: -1}
		f.index[key] = p
		f.parts = append(f.parts, p)
	}
	p.at = a.at
	return p
}

// reorder drops removed partitions and moves those just served to the end, so that one busy partition does not starve
// the others.
func (f *fetchSession) reorder() {
	kept := make([]*sessionPart, 0, len(f.parts))
	var served []*sessionPart
	for _, p := range f.parts {
		switch {
		case p.gone:
		case p.justServed:
			p.justServed = false
			served = append(served, p)
		default:
			kept = append(kept, p)
		}
	}
	f.parts = append(kept, served...)
}

// open creates a session with the partitions of a full response, and returns 0 if there is no room.
func (s *fetchSessions) open(parts []fetchPartition, topicIDs, follower bool, now time.Time) int32 {
	f := &fetchSession{
		epoch: 1, topicIDs: topicIDs, privileged: follower, created: now, used: now,
		index: make(map[partKey]*sessionPart, len(parts)),
	}
	for i := range parts {
		a := &parts[i]
		key := *a
		if topicIDs {
			key.topic = ""
		}
		p := f.add(key)
		p.recordSent(a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.byID) >= s.slots {
		if !s.evictLocked(f, now) {
			return 0
		}
		s.mu.evicted++
	}
	for f.id == 0 || s.mu.byID[f.id] != nil {
		f.id = rand.Int32N(1<<31-1) + 1
	}
	s.mu.byID[f.id] = f
	return f.id
}

// evictLocked makes room for a session by evicting one that has not been used for sessionEviction, a consumer's session
// in favour of a follower's, or a smaller one (FetchSessionCache.tryEvict, 3.9).
func (s *fetchSessions) evictLocked(f *fetchSession, now time.Time) bool {
	var stale, victim *fetchSession
	for _, o := range s.mu.byID {
		if stale == nil || o.used.Before(stale.used) {
			stale = o
		}
		evictable := now.Sub(o.created) > sessionEviction || (f.privileged && !o.privileged)
		if evictable && (victim == nil || o.less(victim)) {
			victim = o
		}
	}
	if stale != nil && now.Sub(stale.used) > sessionEviction {
		delete(s.mu.byID, stale.id)
		return true
	}
	if victim == nil || !victim.less(f) {
		return false
	}
	delete(s.mu.byID, victim.id)
	return true
}

// less orders sessions by value: those of followers are worth more, then larger ones, then more recently used ones.
func (f *fetchSession) less(o *fetchSession) bool {
	switch {
	case f.privileged != o.privileged:
		return o.privileged
	case len(f.parts) != len(o.parts):
		return len(f.parts) < len(o.parts)
	}
	return f.used.Before(o.used)
}

// recordSent records what a response says about the partition, and reports whether that is news.
func (p *sessionPart) recordSent(a *fetchPartition) bool {
	if fetchCode(a) != 0 {
		p.mark = -1 // errors are reported every time
		return true
	}
	news := a.size() > 0 || a.view.Diverging != nil || a.preferred >= 0 ||
		p.mark != a.view.HighWatermark || p.start != a.view.LogStart
	p.mark, p.start = a.view.HighWatermark, a.view.LogStart
	p.justServed = a.size() > 0
	return news
}

func (a *fetchPartition) size() int64 {
	if a.bytes != nil {
		return int64(len(a.bytes))
	}
	return a.view.Records.Size
}

// news reports whether a high watermark is higher than the session has announced.
func (c *fetchContext) news(parts []fetchPartition) bool {
	if c.session == nil {
		return false
	}
	c.sessions.mu.Lock()
	defer c.sessions.mu.Unlock()
	for i := range parts {
		a := &parts[i]
		if p := c.find(a); p != nil && a.view.HighWatermark > p.mark && a.missing == nil {
			return true
		}
	}
	return false
}

func (c *fetchContext) find(a *fetchPartition) *sessionPart {
	key := partKey{a.topic, a.id, a.number}
	if c.session.topicIDs {
		key.topic = ""
	}
	return c.session.index[key]
}

// id returns the id of a session that continues, 0 for none.
func (c *fetchContext) id() int32 {
	if !c.incremental {
		return 0
	}
	return c.session.id
}

// end returns the partitions for the response (all of them or, in a session, those with news) and the session's id, 0
// for none.
func (c *fetchContext) end(parts []fetchPartition) ([]fetchPartition, int32) {
	if c.create != nil {
		return parts, c.create(parts)
	}
	if !c.incremental {
		return parts, 0
	}
	c.sessions.mu.Lock()
	defer c.sessions.mu.Unlock()
	kept := parts[:0]
	for i := range parts {
		a := &parts[i]
		p := c.find(a)
		if p == nil || p.recordSent(a) {
			kept = append(kept, *a)
		} else {
			a.view.Records.Close()
		}
	}
	c.session.reorder()
	return kept, c.session.id
}

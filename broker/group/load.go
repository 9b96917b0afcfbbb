package group

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// loadAndTell calls load, and logs a summary after the last of several concurrent loads.
func (s *shard) loadAndTell() {
	began := time.Now()
	groups, ok := s.load()
	if told := s.coordinator.cfg.Loaded; ok && told != nil {
		told(time.Since(began))
	}
	if sum, done := s.coordinator.loading.End(time.Now(), ok, groups); done {
		s.coordinator.log.WithFields(logrus.Fields{logx.Count: sum.Count, logx.TookMs: sum.Took.Milliseconds()}).
			Infof("the groups of %d partitions are loaded", sum.Times)
	}
}

// The pause before a partition is read again that could not be read; it doubles with each attempt.
const (
	loadRetryDelay    = time.Second
	loadRetryDelayMax = time.Minute
)

// load reads the partition from start to end and begins to serve its groups, whose number it returns. If that fails, it
// tries again for as long as this broker leads the partition: there may just be too many open files.
func (s *shard) load() (groups int, ok bool) {
	for delay := loadRetryDelay; ; delay = min(2*delay, loadRetryDelayMax) {
		if groups, ok = s.tryLoad(); ok {
			return groups, true
		}
		if await.Pause(s.ctx, delay) != nil {
			return 0, false
		}
	}
}

func (s *shard) tryLoad() (groups int, ok bool) {
	select {
	case s.coordinator.loaders <- struct{}{}:
		defer func() { <-s.coordinator.loaders }()
	case <-s.ctx.Done():
		return 0, false
	}
	began := time.Now()
	l := newLoaded()
	err := l.read(s.ctx, s.partition, s.coordinator.cfg.LoadBufferBytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.phase == closed:
		return 0, false
	case err != nil:
		s.mu.phase = failed
		s.log.WithError(err).Error("cannot load the groups of a partition, trying again")
		return 0, false
	}
	if l.skipped > 0 {
		s.log.WithField(logx.Count, l.skipped).Warn("records of unknown kinds were skipped")
	}
	s.installLocked(l)
	s.log.WithFields(logrus.Fields{logx.Count: len(s.mu.groups), logx.TookMs: time.Since(began).Milliseconds()}).
		Debug("groups of a partition are loaded")
	return len(s.mu.groups), true
}

// installLocked begins to serve what was loaded. Members have a whole session timeout to show up.
func (s *shard) installLocked(l *loaded) {
	s.mu.phase = serving
	now := s.coordinator.cfg.Now()
	for id, found := range l.groups {
		g := found.group(id, s.coordinator.limits, now)
		if g == nil {
			continue
		}
		s.mu.groups[id] = g
		for producerID := range g.open {
			addTo(s.mu.open, producerID, g)
		}
		s.stepLocked(g, now, func(_ *group, st *step) {
			for _, m := range g.order {
				g.alive(st, m)
			}
			if len(g.members) > g.limits.maxSize {
				g.prepare(st, "it has more members than group.max.size")
			}
		})
	}
	for _, t := range s.mu.ended {
		s.endTxnLocked(t)
	}
	if len(s.mu.deleted) > 0 {
		s.topicsDeletedLocked(s.mu.deleted)
	}
	s.mu.ended, s.mu.deleted = nil, nil
}

// loaded is the state that the records of a partition add up to; later records win.
type loaded struct {
	groups  map[string]*loadedGroup
	open    map[int64]map[*loadedGroup]struct{} // groups with offsets in a producer's open transaction
	skipped int                                 // records of other kinds
}

type loadedGroup struct {
	value   *kmsg.GroupMetadataValue // nil: none, or removed
	offsets map[logstore.TopicPartition]commit
	open    map[int64]*txnOffsets
}

func newLoaded() *loaded {
	return &loaded{groups: make(map[string]*loadedGroup), open: make(map[int64]map[*loadedGroup]struct{})}
}

// logReader gives access to a log that may be moved to another directory meanwhile.
type logReader interface {
	ReadLog(fn func(*logstore.Log) error) error
}

// read reads the whole log. There may be gaps from compaction.
func (l *loaded) read(ctx context.Context, from logReader, bufferBytes int32) error {
	var buffer []byte
	for offset := int64(0); ; {
		end := int64(0)
		err := from.ReadLog(func(log *logstore.Log) error {
			offset, end = max(offset, log.LogStartOffset()), log.LogEndOffset()
			if offset >= end {
				return nil
			}
			records, err := log.Read(offset, bufferBytes, end, true)
			if err != nil {
				return err
			}
			defer records.Close()
			buffer, err = records.Append(buffer[:0])
			return err
		})
		if err != nil || offset >= end {
			return err
		}
		next, err := l.batches(buffer, offset)
		switch {
		case err != nil:
			return err
		case next == offset:
			return nil // compaction has left nothing up to the end
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		offset = next
	}
}

// batches reads a section of the log and returns the offset after it.
func (l *loaded) batches(data []byte, offset int64) (int64, error) {
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		if err := l.batch(b); err != nil {
			return offset, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		offset = b.LastOffset() + 1
	}
	return offset, walk.Err()
}

func (l *loaded) batch(b record.Batch) error {
	return b.Records(func(r *record.Record) error {
		if b.Control() {
			l.endTxn(b.ProducerID(), commitMarker(r.Key))
			return nil
		}
		e, err := decodeEntry(r.Key, r.Value)
		switch {
		case errors.Is(err, errOtherKind):
			l.skipped++
			return nil
		case err != nil:
			return err
		case e.partition == nil:
			l.of(e.groupID).value = e.group
		default:
			l.take(l.of(e.groupID), b, e)
		}
		return nil
	})
}

// commitMarker reports whether a control record commits its transaction. Layout: int16 version, int16 type.
func commitMarker(key []byte) bool { return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 1 }

func (l *loaded) of(groupID string) *loadedGroup {
	g := l.groups[groupID]
	if g == nil {
		g = &loadedGroup{
			offsets: make(map[logstore.TopicPartition]commit),
			open:    make(map[int64]*txnOffsets),
		}
		l.groups[groupID] = g
	}
	return g
}

// take applies an offset, which takes effect at once unless it belongs to a transaction.
func (l *loaded) take(g *loadedGroup, b record.Batch, e entry) {
	into := g.offsets
	if b.Transactional() {
		into = l.openTxn(g, b).offsets
	}
	if e.offset == nil {
		delete(into, *e.partition)
		return
	}
	e.offset.end = b.LastOffset() + 1
	into[*e.partition] = *e.offset
}

// openTxn returns the group's offsets in the transaction of a batch's producer.
func (l *loaded) openTxn(g *loadedGroup, b record.Batch) *txnOffsets {
	producerID := b.ProducerID()
	open := g.open[producerID]
	if open == nil {
		open = &txnOffsets{offsets: make(map[logstore.TopicPartition]commit)}
		g.open[producerID] = open
		addTo(l.open, producerID, g)
	}
	open.epoch = b.ProducerEpoch()
	return open
}

func (l *loaded) endTxn(producerID int64, committed bool) {
	for g := range l.open[producerID] {
		for tp, c := range g.open[producerID].offsets {
			if old, ok := g.offsets[tp]; committed && (!ok || old.end < c.end) {
				g.offsets[tp] = c
			}
		}
		delete(g.open, producerID)
	}
	delete(l.open, producerID)
}

// addTo adds an element to the set at a key.
func addTo[K, E comparable](sets map[K]map[E]struct{}, key K, element E) {
	if sets[key] == nil {
		sets[key] = make(map[E]struct{})
	}
	sets[key][element] = struct{}{}
}

// removeFrom removes an element from the set at a key.
func removeFrom[K, E comparable](sets map[K]map[E]struct{}, key K, element E) {
	if delete(sets[key], element); len(sets[key]) == 0 {
		delete(sets, key)
	}
}

// group creates the group from what was loaded, or returns nil if there is nothing.
func (l *loadedGroup) group(id string, limits *limits, now time.Time) *group {
	g := newGroup(id, limits, now)
	for tp, c := range l.offsets {
		g.commit(tp, c)
		g.offsets[tp].settle(c.end)
	}
	for producerID, open := range l.open {
		for tp, c := range open.offsets {
			g.commitOpen(producerID, open.epoch, tp, c)
		}
	}
	if l.value == nil && !g.hasOffsets() {
		return nil
	}
	if l.value != nil {
		g.restore(l.value)
	}
	return g
}

// restore applies a group's record.
func (g *group) restore(v *kmsg.GroupMetadataValue) {
	g.generation, g.protocolType, g.since = v.Generation, v.ProtocolType, time.Time{}
	if v.CurrentStateTimestamp >= 0 {
		g.since = time.UnixMilli(v.CurrentStateTimestamp)
	}
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	for i := range v.Members {
		in := &v.Members[i]
		m := &member{
			id: in.MemberID, instance: in.InstanceID, clientID: in.ClientID, clientHost: in.ClientHost,
			rebalanceTimeout: milliseconds(in.RebalanceTimeoutMillis), sessionTimeout: milliseconds(in.SessionTimeoutMillis),
			protocols: []protocol{{g.protocol, in.Subscription}}, assignment: in.Assignment,
		}
		if v.Version == oneTimeoutForValue {
			m.rebalanceTimeout = m.sessionTimeout
		}
		if g.members[m.id] == nil && (m.instance == nil || g.static[*m.instance] == nil) {
			g.insert(m, v.ProtocolType)
			g.state = Stable
		}
	}
	if v.Leader != nil && g.members[*v.Leader] != nil {
		g.leader = *v.Leader
	}
	g.subscribed = g.subscriptions()
}

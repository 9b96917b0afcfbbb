package group

import (
	"slices"
	"time"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// none is an absent leader epoch or time.
const none = -1

// commit is a committed offset as in its record.
type commit struct {
	offset      int64
	leaderEpoch int32 // none: not sent
	metadata    string
	committedMs int64
	expiresMs   int64 // none: according to offsets.retention.minutes
	end         int64 // log end offset after the record
}

// committed is what a group has committed for a partition: the last commit that is on all in-sync replicas, and the
// pending ones after it.
type committed struct {
	known   bool // there is a stable one
	stable  commit
	pending []commit
}

// txnOffsets are the offsets that a producer has committed in its open transaction.
type txnOffsets struct {
	epoch   int16 // the producer's
	offsets map[logstore.TopicPartition]commit
}

// settle applies pending commits below the high watermark.
func (c *committed) settle(highWatermark int64) {
	n := 0
	for n < len(c.pending) && c.pending[n].end <= highWatermark {
		n++
	}
	if n == 0 {
		return
	}
	if last := c.pending[n-1]; !c.known || c.stable.end < last.end {
		c.known, c.stable = true, last
	}
	if c.pending = c.pending[n:]; len(c.pending) == 0 {
		c.pending = nil
	}
}

// checkCommit checks whether a committer may commit offsets for a group. Without member id and generation anyone may
// while the group has no members; transactional producers before KIP-447 always may.
func (g *group) checkCommit(by *Committer) error {
	switch {
	case by.Generation < 0 && g.state == Empty:
		return nil
	case by.Generation >= 0 || by.MemberID != "" || by.InstanceID != nil:
		if err := g.check(by.MemberID, by.InstanceID); err != nil {
			return err
		}
		if by.Generation != g.generation {
			return kerr.IllegalGeneration
		}
	case by.Txn == nil && g.state != Empty:
		return kerr.UnknownMemberID
	}
	if by.Txn == nil && g.state == CompletingRebalance {
		return kerr.RebalanceInProgress // the member may know the generation, but not its assignment yet
	}
	return nil
}

// commit applies an offset whose record was appended.
func (g *group) commit(tp logstore.TopicPartition, c commit) {
	if g.offsets == nil {
		g.offsets = make(map[logstore.TopicPartition]*committed)
	}
	of := g.offsets[tp]
	if of == nil {
		of = &committed{}
		g.offsets[tp] = of
	}
	of.pending = append(of.pending, c)
}

// commitOpen applies an offset that takes effect when its transaction is committed.
func (g *group) commitOpen(producerID int64, epoch int16, tp logstore.TopicPartition, c commit) {
	if g.open == nil {
		g.open = make(map[int64]*txnOffsets)
	}
	open := g.open[producerID]
	if open == nil {
		open = &txnOffsets{offsets: make(map[logstore.TopicPartition]commit)}
		g.open[producerID] = open
	}
	open.epoch, open.offsets[tp] = epoch, c
}

// endedOffsets are offsets of a transaction whose marker was appended.
type endedOffsets struct {
	marker  Marker
	offsets map[logstore.TopicPartition]commit
}

// endTxn notes that a transaction ends when its marker is on all in-sync replicas. Offsets after the marker belong to the
// producer's next transaction.
func (g *group) endTxn(m Marker) {
	open := g.open[m.ProducerID]
	ended := endedOffsets{m, make(map[logstore.TopicPartition]commit)}
	for tp, c := range open.offsets {
		if c.end <= m.End {
			ended.offsets[tp] = c
			delete(open.offsets, tp)
		}
	}
	if len(open.offsets) == 0 {
		delete(g.open, m.ProducerID)
	}
	if len(ended.offsets) > 0 {
		g.ended = append(g.ended, ended)
	}
}

// settle makes the offsets of ended transactions effective, or drops them, if their markers are below the high
// watermark.
func (g *group) settle(highWatermark int64) {
	g.ended = slices.DeleteFunc(g.ended, func(e endedOffsets) bool {
		if e.marker.End > highWatermark {
			return false
		}
		for tp, c := range e.offsets {
			if of := g.offsets[tp]; e.marker.Committed && (of == nil || of.newest() <= c.end) { // not superseded by a plain commit
				g.commit(tp, c)
				g.offsets[tp].settle(highWatermark)
			}
		}
		return true
	})
}

// newest returns the log end offset after the last commit.
func (c *committed) newest() int64 {
	if n := len(c.pending); n > 0 {
		return c.pending[n-1].end
	}
	return c.stable.end
}

// offset returns the group's offset for a partition; ok is false if there is none. unstable reports whether a commit is
// pending.
func (g *group) offset(tp logstore.TopicPartition, highWatermark int64) (c commit, ok, unstable bool) {
	if of := g.offsets[tp]; of != nil {
		of.settle(highWatermark)
		c, ok, unstable = of.stable, of.known, of.pending != nil
	}
	return c, ok, unstable || g.inTxn(tp)
}

// inTxn reports whether a transaction has an offset for a partition that may yet take effect.
func (g *group) inTxn(tp logstore.TopicPartition) bool {
	for _, open := range g.open {
		if _, found := open.offsets[tp]; found {
			return true
		}
	}
	return g.hasEnded(tp)
}

// hasEnded reports whether a transaction has an offset for a partition, and its marker is not on all in-sync replicas.
func (g *group) hasEnded(tp logstore.TopicPartition) bool {
	for _, e := range g.ended {
		if _, found := e.offsets[tp]; found {
			return true
		}
	}
	return false
}

// forget drops a partition's offset, except for those in open transactions.
func (g *group) forget(tp logstore.TopicPartition) {
	delete(g.offsets, tp)
	for _, e := range g.ended {
		delete(e.offsets, tp)
	}
}

// hasOffsets reports whether the group has an offset or is about to.
func (g *group) hasOffsets() bool { return len(g.offsets)+len(g.open)+len(g.ended) > 0 }

// expired lists the partitions whose offsets are past their retention (KIP-211), counted from when the group became
// empty or, for a group without members altogether, from the commit. While members subscribe to a topic its offsets are
// kept.
func (g *group) expired(now time.Time, retention time.Duration, highWatermark int64) []logstore.TopicPartition {
	from := func(c commit) int64 { return c.committedMs }
	subscribed := topics(nil)
	switch {
	case g.protocolType == "":
	case g.state == Empty:
		if !g.since.IsZero() {
			from = func(commit) int64 { return g.since.UnixMilli() }
		}
	case g.state == Stable && g.protocolType == consumerProtocol && g.subscribed != nil:
		subscribed = g.subscribed
	default:
		return nil
	}
	var due []logstore.TopicPartition
	for tp, of := range g.offsets {
		of.settle(highWatermark)
		if _, in := subscribed[tp.Topic]; in || !of.known || of.pending != nil || g.inTxn(tp) {
			continue
		}
		expires := of.stable.expiresMs
		if expires == none {
			expires = from(of.stable) + retention.Milliseconds()
		}
		if now.UnixMilli() >= expires {
			due = append(due, tp)
		}
	}
	return due
}

// abandoned reports whether nothing is left of the group that is worth keeping.
func (g *group) abandoned() bool { return g.state == Empty && !g.hasOffsets() }

// partitionSet is a set of partitions.
type partitionSet map[logstore.TopicPartition]struct{}

// partitions returns the partitions that the group has offsets for, also in transactions.
func (g *group) partitions() partitionSet {
	all := make(partitionSet, len(g.offsets))
	for tp := range g.offsets {
		all[tp] = struct{}{}
	}
	for _, open := range g.open {
		for tp := range open.offsets {
			all[tp] = struct{}{}
		}
	}
	for _, e := range g.ended {
		for tp := range e.offsets {
			all[tp] = struct{}{}
		}
	}
	return all
}

// emptyWithout reports whether nothing would be left of the group without some offsets.
func (g *group) emptyWithout(partitions []logstore.TopicPartition) bool {
	if g.state != Empty {
		return false
	}
	left := g.partitions()
	for _, tp := range partitions {
		delete(left, tp)
	}
	return len(left) == 0
}

package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"barnabas/internal/seeds"
	"barnabas/logstore"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestLoadedLikeBefore commits and removes offsets, in transactions and outside of them, in random order. At any time, a
// broker that loads the partition must find what the coordinator has in memory.
func TestLoadedLikeBefore(t *testing.T) {
	if *seedFlag != 0 {
		synctest.Test(t, func(t *testing.T) { runFailovers(t, *seedFlag) })
		return
	}
	for seed := range seeds.Count(t, 100, 20) {
		synctest.Test(t, func(t *testing.T) { runFailovers(t, seed+1) })
		if t.Failed() {
			t.Fatalf("seed %d failed, -seed %d runs it alone", seed+1, seed+1)
		}
	}
}

// failovers is one random history.
type failovers struct {
	*testing.T
	rng *rand.Rand
	h   *hosted
	c   *Coordinator
	// late are markers that are in the log but not noticed yet.
	late []Marker
}

func runFailovers(t *testing.T, seed uint64) {
	h := newHosted(t)
	f := &failovers{T: t, rng: rand.New(rand.NewPCG(seed, 1)), h: h, c: start(t, testConfig(t, h))}
	for range 60 {
		what := f.step()
		f.checkIndex()
		if f.rng.IntN(3) > 0 || f.late != nil {
			continue
		}
		got := f.state()
		f.c.LeadershipChanged(0, 0, false)
		f.c.LeadershipChanged(0, 0, true)
		awaitLoaded(t, f.c)
		if d := cmp.Diff(got, f.state()); d != "" {
			t.Fatalf("another broker loads something else after %q (-before +loaded):\n%s", what, d)
		}
		f.checkIndex()
	}
}

func (f *failovers) partition() logstore.TopicPartition {
	return logstore.TopicPartition{Topic: fmt.Sprint("t", f.rng.IntN(2)), Partition: int32(f.rng.IntN(2))}
}

// step lets one thing happen. What is refused has no effect.
func (f *failovers) step() string {
	groupID, producerID, tp := fmt.Sprint("g", f.rng.IntN(3)), int64(7+f.rng.IntN(2)), f.partition()
	offset := offsetAt(f.rng.Int64N(1000))
	offset[0].Partition = tp
	what := ""
	var err error
	f.h.set(func() { f.h.mu.lags = f.rng.IntN(2) == 0 })
	late := f.late
	f.late = nil
	notice := func() {
		for _, m := range late {
			f.c.TxnMarker(0, m)
		}
	}
	if f.rng.IntN(8) == 0 {
		f.h.set(func() { f.h.mu.refuse = kerr.KafkaStorageError })
		defer f.c.expire() // which writes the tombstones of deleted topics
		defer f.h.set(func() { f.h.mu.refuse = nil })
	}
	n := f.rng.IntN(13)
	if n >= 4 && n < 10 { // a producer is told that its transaction has ended before it begins another one
		notice()
	} else {
		defer notice()
	}
	switch {
	case n < 4:
		what = fmt.Sprint("commit ", groupID, tp)
		_, err = f.c.Commit(Committer{Group: groupID, Generation: -1}, offset)
	case n < 8:
		what = fmt.Sprint("commit of producer ", producerID, groupID, tp)
		_, err = f.c.Commit(Committer{Group: groupID, Generation: -1, Txn: &Txn{ProducerID: producerID}}, offset)
	case n < 10:
		what = fmt.Sprint("end of transaction of producer ", producerID)
		committed := f.rng.IntN(3) > 0
		f.h.set(func() { f.h.mu.refuse = nil })
		f.h.write(f.T, marker(producerID, committed))
		if m := f.h.marker(producerID, committed, f.h.log.LogEndOffset()); f.rng.IntN(2) == 0 {
			f.c.TxnMarker(0, m)
		} else {
			f.late = append(f.late, m)
		}
	case n < 11:
		what = fmt.Sprint("deletion of offset ", groupID, tp)
		_, err = f.c.DeleteOffsets(groupID, []logstore.TopicPartition{tp})
	case n < 12:
		what = fmt.Sprint("deletion of group ", groupID)
		err = f.c.Delete(groupID)
	default:
		what = fmt.Sprint("deletion of topic ", tp)
		f.c.TopicsDeleted([]logstore.TopicPartition{tp})
	}
	f.Log(what, err)
	return what
}

// state describes all offsets.
func (f *failovers) state() map[string]string {
	state := make(map[string]string)
	f.h.catchUp()
	err := f.shard().each(func(g *group) {
		g.settle(f.h.log.HighWatermark())
		for tp, of := range g.offsets {
			of.settle(f.h.log.HighWatermark())
			state[fmt.Sprint(g.id, tp)] = fmt.Sprintf("%+v", of.stable)
		}
		for producerID, open := range g.open {
			for tp, c := range open.offsets {
				state[fmt.Sprint(g.id, tp, " in a transaction of producer ", producerID)] = fmt.Sprintf("%+v", c)
			}
		}
	})
	if err != nil {
		f.Fatal(err)
	}
	return state
}

func (f *failovers) shard() *shard {
	s, err := f.c.shardOf("g0", false)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// checkIndex checks that the groups with open transactions are found by their producers.
func (f *failovers) checkIndex() {
	s := f.shard()
	s.mu.Lock()
	defer s.mu.Unlock()
	want := make(map[int64]map[*group]struct{})
	for _, g := range s.mu.groups {
		for producerID := range g.open {
			addTo(want, producerID, g)
		}
	}
	if d := cmp.Diff(ids(want), ids(s.mu.open)); d != "" {
		f.Fatalf("groups by producer (-want +got):\n%s", d)
	}
}

func ids(open map[int64]map[*group]struct{}) map[int64][]string {
	named := make(map[int64][]string)
	for producerID, groups := range open {
		for g := range maps.Keys(groups) {
			named[producerID] = append(named[producerID], g.id)
		}
		slices.Sort(named[producerID])
	}
	return named
}

package logstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"barnabas/logstore/record"
)

// TestAbortedInReads reads a log with many transactions in small pieces. With the aborted transactions that are
// returned for each piece, a consumer must drop exactly what was aborted, and it must not be sent those of the whole
// log.
func TestAbortedInReads(t *testing.T) {
	l, _ := newTestLog(t, func(c *Config) { c.IndexIntervalBytes, c.SegmentBytes = 300, 4000 })
	r := rand.New(rand.NewPCG(1, 1))
	const producers = 3
	var open, seq [producers]int32
	aborted := make(map[int64]bool)    // by offset
	pending := make(map[int64][]int64) // by producer id: offsets of open transactions
	var data []int64                   // offsets of data records
	end := func(pid int64, commit bool) {
		if _, err := l.AppendLeader(endMarker(pid, 0, commit), LeaderAppend{LeaderEpoch: 1, Origin: Coordinator}); err != nil {
			t.Fatal(err)
		}
		for _, offset := range pending[pid] {
			aborted[offset] = !commit
		}
		delete(pending, pid)
		open[pid] = 0
	}
	for range 600 {
		pid := int64(r.IntN(producers))
		if open[pid] > 0 && r.IntN(3) == 0 {
			end(pid, r.IntN(2) == 0)
			continue
		}
		info, err := l.AppendLeader(inTransaction(pid, 0, seq[pid]), LeaderAppend{LeaderEpoch: 1, ProduceVersion: 9})
		if err != nil {
			t.Fatal(err)
		}
		seq[pid]++
		open[pid]++
		pending[pid] = append(pending[pid], info.FirstOffset)
		data = append(data, info.FirstOffset)
	}
	for pid := range int64(producers) {
		end(pid, true)
	}
	l.SetHighWatermark(l.LogEndOffset())
	limit := l.LastStableOffset()
	all, err := l.AbortedTransactions(0, limit)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for offset := int64(0); offset < limit; offset += 7 {
		got, told := readCommitted(t, l, offset, limit)
		most = max(most, told)
		for _, o := range data {
			if o < offset || o > got.last {
				continue
			}
			if slices.Contains(got.offsets, o) == aborted[o] {
				t.Fatalf("from %d: record %d, aborted %t, is wrong", offset, o, aborted[o])
			}
		}
	}
	if most*3 > len(all) {
		t.Errorf("a read returned %d aborted transactions, the log has %d", most, len(all))
	}
}

type committedRead struct {
	offsets []int64
	last    int64
}

// readCommitted reads a piece as a consumer does that drops aborted records.
func readCommitted(t *testing.T, l *Log, offset, limit int64) (got committedRead, told int) {
	t.Helper()
	r, err := l.Read(offset, 500, limit, true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	bound, err := r.Bound(limit)
	if err != nil {
		t.Fatal(err)
	}
	aborted, err := l.AbortedTransactions(offset, bound)
	if err != nil {
		t.Fatal(err)
	}
	told = len(aborted)
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	data, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	dropping := make(map[int64]bool)
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		if got.last = b.LastOffset(); got.last >= bound {
			t.Fatalf("offset %d is not below the bound %d", got.last, bound)
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			dropping[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case b.Control():
			delete(dropping, b.ProducerID())
		case !dropping[b.ProducerID()]:
			got.offsets = append(got.offsets, b.BaseOffset())
		}
	}
	return got, told
}

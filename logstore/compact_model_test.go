package logstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/seeds"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// keyedRecord is one record in the model of a compacted log.
type keyedRecord struct {
	offset     int64
	key, value string // value empty: a tombstone
	pid        int64  // -1: none
	txn        bool
	marker     bool // then commit says of which kind
	commit     bool
	lastSeq    int32 // of its batch
	batch      int64 // base offset of its batch
}

// keyedModel is a compacted log with a list of everything that was ever appended to it.
type keyedModel struct {
	modelLog

	records []keyedRecord
	start   int64
	deleted int64 // the highest offset of a DeleteRecords: what reappears below it after a power failure was not compacted
	tried   int64 // compaction was attempted below this offset, though it may not have completed
}

func newKeyedModel(t testing.TB, seed uint64) *keyedModel {
	x := &keyedModel{modelLog: newModelLog(t, seed, 2)}
	d := &x.cfg.Default
	d.SegmentBytes = int32(300 + x.rng.IntN(2000))
	d.IndexIntervalBytes = int32(x.rng.IntN(400))
	d.IndexSizeMax = int32(24 * (2 + x.rng.IntN(50)))
	d.Compact, d.Delete = true, false
	d.DeleteRetention = time.Duration(x.rng.IntN(20)) * time.Second
	x.cfg.Cleaner.DedupeBytes = int64(keySlotSize * (3 + x.rng.IntN(60)))
	x.cfg.Cleaner.BufferBytes = 64 + x.rng.IntN(5000)
	x.open()
	return x
}

// state returns what the log knows of a producer: its next sequence number, and whether it has an open transaction.
func (x *keyedModel) state(pid int64) (next int32, open bool) {
	for _, p := range x.l.ActiveProducers() {
		if p.ProducerID == pid {
			return record.AddSequence(p.LastSequence, 1), p.TxnFirstOffset >= 0
		}
	}
	return 0, false
}

func (x *keyedModel) append() {
	w := record.NewBuilder()
	w.Codec = record.Codec(x.rng.IntN(5))
	if x.rng.IntN(3) > 0 {
		w.Codec = record.None
	}
	pid := int64(-1)
	if p := int64(x.rng.IntN(5)); p < 4 {
		var open bool
		pid = p
		w.ProducerID, w.ProducerEpoch = pid, 0
		w.BaseSequence, open = x.state(pid)
		w.Transactional = pid < 3 || open // producer 3 is only idempotent
	}
	first := x.l.LogEndOffset()
	var added []keyedRecord
	for i := range 1 + x.rng.IntN(4) {
		r := keyedRecord{offset: first + int64(i), key: fmt.Sprint("k", x.rng.IntN(12)), value: fmt.Sprint("v", first+int64(i)), pid: pid,
			txn: w.Transactional, batch: first}
		value := []byte(r.value)
		if x.rng.IntN(5) == 0 {
			r.value, value = "", nil
		}
		w.Add(x.c.now.UnixMilli(), []byte(r.key), value)
		added = append(added, r)
	}
	for i := range added {
		added[i].lastSeq = record.AddSequence(w.BaseSequence, int32(len(added)-1))
	}
	b, err := w.Build()
	x.must(err)
	if int32(len(b)) > x.cfg.Default.SegmentBytes {
		return
	}
	_, err = produce(x.l, b)
	x.must(err)
	x.records = append(x.records, added...)
	x.pass()
}

// endTxn ends an open transaction.
func (x *keyedModel) endTxn() {
	pid := int64(x.rng.IntN(3))
	if _, open := x.state(pid); !open {
		return
	}
	r := keyedRecord{offset: x.l.LogEndOffset(), pid: pid, txn: true, marker: true, commit: x.rng.IntN(2) == 0, batch: x.l.LogEndOffset()}
	_, err := x.l.AppendLeader(endMarker(pid, 0, r.commit), LeaderAppend{Origin: Coordinator})
	x.must(err)
	x.records = append(x.records, r)
}

func (x *keyedModel) cutTo(offset int64) {
	i := slices.IndexFunc(x.records, func(r keyedRecord) bool { return r.offset >= offset })
	if i >= 0 {
		x.records = x.records[:i]
	}
}

// truncate truncates above the high watermark, as followers do.
func (x *keyedModel) truncate() {
	hw := x.l.HighWatermark()
	to := hw + x.rng.Int64N(x.l.LogEndOffset()-hw+1)
	x.must(x.l.TruncateTo(to))
	x.cutTo(to)
	for n := len(x.records); n > 0 && x.records[n-1].offset >= x.l.LogEndOffset(); n-- { // together with the rest of its batch
		x.records = x.records[:n-1]
	}
}

func (x *keyedModel) restart() {
	end, before := x.l.LogEndOffset(), x.l.ActiveProducers()
	x.reopen()
	if x.l.LogEndOffset() != end || !slices.Equal(x.l.ActiveProducers(), before) {
		x.t.Fatalf("after a clean stop: end %d, producers %+v; want %d, %+v", x.l.LogEndOffset(), x.l.ActiveProducers(), end, before)
	}
}

func (x *keyedModel) crash(power bool) {
	flushed := x.l.RecoveryPoint()
	x.die(power)
	if end := x.l.LogEndOffset(); end < flushed {
		x.t.Fatalf("end %d after a crash, but everything below %d was flushed", end, flushed)
	}
	x.deleted = max(x.deleted, x.start)
	x.start = x.l.LogStartOffset()
	x.cutTo(x.l.LogEndOffset())
	x.l.SetHighWatermark(x.l.LogEndOffset())
	x.checkProducers()
}

// checkProducers compares the producers' last sequence numbers with those of their last batches.
func (x *keyedModel) checkProducers() {
	x.t.Helper()
	want := make(map[int64]int32)
	for _, r := range x.records {
		if r.pid >= 0 && !r.marker && r.offset >= x.start {
			want[r.pid] = r.lastSeq
		}
	}
	for _, p := range x.l.ActiveProducers() {
		if last, ok := want[p.ProducerID]; ok && last != p.LastSequence {
			x.t.Fatalf("producer %d: last sequence %d, want %d", p.ProducerID, p.LastSequence, last)
		}
		delete(want, p.ProducerID)
	}
	if len(want) > 0 {
		x.t.Fatalf("producers %v are forgotten", slices.Sorted(maps.Keys(want)))
	}
}

func (x *keyedModel) compact() {
	_, err := compactLog(x.t, x.m, x.l)
	x.must(err)
	checkNoLeftovers(x.t, x.fs)
}

func (x *keyedModel) step() {
	p := x.rng.IntN(100)
	switch {
	case p < 50:
		x.append()
	case p < 62:
		x.endTxn()
	case p < 68:
		if n := len(x.records); n > 0 { // to the beginning of a batch: a batch above that offset is not read partially
			x.l.SetHighWatermark(max(x.l.HighWatermark(), x.records[x.rng.IntN(n)].batch))
		}
	case p < 73:
		x.l.SetHighWatermark(x.l.LogEndOffset())
	case p < 78:
		x.must(x.l.Roll())
	case p < 86:
		x.compact()
	case p < 88:
		x.truncate()
	case p < 90:
		x.start += x.rng.Int64N(x.l.HighWatermark()-x.start+1) / 4
		x.must(x.l.AdvanceLogStart(x.start))
	case p < 92:
		x.restart()
	case p < 94:
		x.crash(false)
	case p < 96:
		x.crash(true)
	case p < 97:
		x.c.now = x.c.now.Add(10 * time.Second)
	default:
		x.check()
	}
	for _, l := range x.m.scheduler.takeFlushes() { // as the scheduler does
		x.must(l.flush(l.active().base, false))
	}
}

// committed returns the model's records below the offset up to which a read_committed consumer reads, in order.
func (x *keyedModel) committed(upTo int64) []keyedRecord {
	open := make(map[int64][]int) // by producer: the records of its open transaction
	dropped := make(map[int]bool)
	for i, r := range x.records {
		switch {
		case r.marker:
			if !r.commit {
				for _, j := range open[r.pid] {
					dropped[j] = true
				}
			}
			dropped[i] = true
			delete(open, r.pid)
		case r.txn:
			open[r.pid] = append(open[r.pid], i)
		}
	}
	var seen []keyedRecord
	for i, r := range x.records {
		if !dropped[i] && r.offset >= x.start && r.offset < upTo {
			seen = append(seen, r)
		}
	}
	return seen
}

// check requires that a read_committed consumer sees the right records: the last record of each key, none that was
// replaced before a tombstone that has been removed, everything that was not compacted yet, and nothing else.
func (x *keyedModel) check() {
	x.t.Helper()
	stable := x.l.LastStableOffset()
	cleaned, _ := x.m.cleanedTo(x.l)
	cleaned = max(cleaned, x.tried)
	want := x.committed(stable)
	got := x.readCommitted(stable)
	byOffset := make(map[int64]keyedRecord)
	last := make(map[string]keyedRecord)
	for _, r := range want {
		byOffset[r.offset] = r
		last[r.key] = r
		if _, ok := got[r.offset]; !ok && r.offset >= cleaned {
			x.t.Fatalf("record %+v is lost, though only what is below %d was compacted", r, cleaned)
		}
	}
	for offset, r := range got {
		w, ok := byOffset[offset]
		if !ok || w.key != r.key || w.value != r.value {
			x.t.Fatalf("record %d is %s=%q, want %+v (%v)", offset, r.key, r.value, w, ok)
		}
		if l := last[r.key]; l.value == "" && l.offset > offset && offset >= x.deleted {
			if _, there := got[l.offset]; !there {
				x.t.Fatalf("record %d, %s=%q, has reappeared: its tombstone at %d was removed", offset, r.key, r.value, l.offset)
			}
		}
	}
	for key, r := range last {
		if _, ok := got[r.offset]; !ok && r.value != "" {
			x.t.Fatalf("the last record of %s, %+v, is lost", key, r)
		}
	}
}

// readCommitted returns the records that a read_committed consumer sees, by offset.
func (x *keyedModel) readCommitted(upTo int64) map[int64]keyedRecord {
	x.t.Helper()
	aborted, err := x.l.AbortedTransactions(x.start, upTo)
	x.must(err)
	slices.SortFunc(aborted, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	seen := make(map[int64]keyedRecord)
	dropping := make(map[int64]bool)
	next := int64(0)
	for _, b := range readAll(x.t, x.l, upTo) {
		if !b.Valid() || b.BaseOffset() < next {
			x.t.Fatalf("batch at %d: valid %v, but %d is next", b.BaseOffset(), b.Valid(), next)
		}
		next = b.LastOffset() + 1
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			dropping[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if b.Control() {
			delete(dropping, b.ProducerID())
			continue
		}
		if dropping[b.ProducerID()] {
			continue
		}
		x.must(b.Records(func(r *record.Record) error {
			if r.Offset >= x.start {
				seen[r.Offset] = keyedRecord{offset: r.Offset, key: string(r.Key), value: string(r.Value)}
			}
			return nil
		}))
	}
	return seen
}

// TestCompactModel applies random operations to a compacted log with transactions. Consumers must see the right records
// through compaction, restarts, kills and power failures.
func TestCompactModel(t *testing.T) {
	for seed := range seeds.Count(t, 150, 30) {
		runKeyedModel(t, seed)
	}
	for _, seed := range []uint64{696, 5708, 7921} { // seeds that have failed
		runKeyedModel(t, seed)
	}
}

func runKeyedModel(t *testing.T, seed uint64) {
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		x := newKeyedModel(t, seed)
		for range 200 {
			x.step()
		}
		x.l.SetHighWatermark(x.l.LogEndOffset())
		x.compact()
		x.check()
		x.must(x.m.Close())
	})
}

// TestCompactionCrashAtEachStep fails the disk at each call of a compaction in turn, and then at some call of the
// following load. Whatever a power failure or a kill leaves of that, consumers see the same, and the next compaction
// works.
func TestCompactionCrashAtEachStep(t *testing.T) {
	for end, crash := range map[string]func(x *keyedModel) *vfs.Mem{
		"power":               func(x *keyedModel) *vfs.Mem { return x.fs.Crash(nil) },
		"power, some is left": func(x *keyedModel) *vfs.Mem { return x.fs.Crash(x.rng) },
		"kill":                func(x *keyedModel) *vfs.Mem { return x.fs.Kill() },
	} {
		t.Run(end, func(t *testing.T) {
			for n, done := 1, false; !done; n++ {
				for _, later := range []int{0, 1 + n%9, 10 + n%17} {
					done = compactAndDie(t, n, later, crash)
				}
			}
		})
	}
}

// dieAt fails the disk from the nth call on, where reads count but do not fail.
func (x *keyedModel) dieAt(n int) {
	calls := 0
	x.fs.SetFault(func(op, _ string) error {
		if calls++; calls >= n && op != "read" && op != "readfile" {
			return errDied
		}
		return nil
	})
}

// compactAndDie fails the disk at the nth call of a compaction and, with later, at that call of the following load as
// well. done reports that the compaction makes fewer calls.
func compactAndDie(t *testing.T, n, later int, crash func(*keyedModel) *vfs.Mem) (done bool) {
	t.Helper()
	x := newKeyedModel(t, uint64(n%5))
	for range 60 {
		x.append()
		x.endTxn()
	}
	x.l.SetHighWatermark(x.l.LogEndOffset())
	x.must(x.l.Roll())
	x.must(x.l.Flush())
	x.must(x.m.checkpointOffsets(x.m.disks[0]))
	x.dieAt(n)
	part, err := compactLog(t, x.m, x.l)
	x.tried = part.upTo
	x.fs.SetFault(nil)
	x.fs = crash(x)
	if later > 0 {
		x.dieAt(later)
		x.cfg.FS = x.fs
		if m, err := Open(t.Context(), x.cfg); err == nil {
			m.giveUp()
		}
		x.fs.SetFault(nil)
		x.fs = crash(x)
	}
	x.open()
	x.l.SetHighWatermark(x.l.LogEndOffset())
	if got, want := x.l.LogEndOffset(), x.records[len(x.records)-1].offset+1; got != want {
		t.Fatalf("call %d, then %d: end %d, want %d", n, later, got, want)
	}
	x.check()
	x.checkProducers()
	for range 5 {
		x.append()
	}
	x.compact()
	x.check()
	x.must(x.m.Close())
	return err == nil
}

// TestLoadCompletesASwapAtEachStep cuts the power at each step of a load that replaces segments by the compacted one
// that was made from them. Which of the renames had reached the disk by then is random; consumers see the same in any
// case.
func TestLoadCompletesASwapAtEachStep(t *testing.T) {
	for step, died := 1, true; died; step++ {
		for seed := range uint64(8) {
			died = completeSwapAndDie(t, step, seed)
		}
	}
}

// completeSwapAndDie reports whether the load got as far as the given step.
func completeSwapAndDie(t *testing.T, step int, seed uint64) (died bool) {
	t.Helper()
	x := newKeyedModel(t, 3)
	for range 60 {
		x.append()
		x.endTxn()
	}
	x.l.SetHighWatermark(x.l.LogEndOffset())
	x.must(x.l.Roll())
	x.must(x.l.Flush()) // but no checkpoint says so: the load reads all of it again
	larger := x.l.Config()
	larger.SegmentBytes *= 8 // so that one segment replaces several
	x.l.UpdateConfig(larger)
	x.m.cfg.Cleaner.DedupeBytes = 1 << 20
	x.fs.SetFault(func(op, name string) error {
		if op == "rename" && strings.HasSuffix(name, logSuffix) { // the first of the old segments
			return errDied
		}
		return nil
	})
	if part, err := compactLog(t, x.m, x.l); err == nil {
		t.Fatalf("compacted to %d", part.upTo)
	}
	x.fs.SetFault(nil)
	x.fs = x.fs.Crash(nil)
	swapped, old := 0, 0
	for name := range filesIn(t, x.fs, "/data/"+testTP.String()) {
		swapped += strings.Count(name, logSuffix+swapSuffix)
		old += strings.Count(name, logSuffix)
	}
	if swapped != 1 || old < 4 {
		t.Fatalf("%d swap files among %d segment files", swapped, old)
	}
	x.dieAt(step)
	x.cfg.FS = x.fs
	m, err := Open(t.Context(), x.cfg)
	if err == nil {
		m.giveUp()
	}
	x.fs.SetFault(nil)
	x.fs = x.fs.Crash(rand.New(rand.NewPCG(seed, uint64(step))))
	x.tried = x.l.LogEndOffset()
	x.open()
	x.l.SetHighWatermark(x.l.LogEndOffset())
	if got, want := x.l.LogEndOffset(), x.records[len(x.records)-1].offset+1; got != want {
		t.Errorf("end %d, want %d", got, want)
	}
	segments := *x.l.segments.Load()
	for i, s := range segments[1:] {
		if end, err := segments[i].end(); err != nil || end > s.base {
			t.Errorf("the segment at %d ends at %d, beyond the beginning of the next at %d: %v", segments[i].base, end, s.base, err)
		}
	}
	x.check()
	x.must(x.m.Close())
	if t.Failed() {
		t.Fatalf("step %d, seed %d", step, seed)
	}
	return err != nil
}

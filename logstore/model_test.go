package logstore

import (
	"bytes"
	"fmt"
	"testing"

	"barnabas/internal/seeds"
	"barnabas/logstore/record"
)

// modelled is a log with a plain list of what must be in it.
type modelled struct {
	modelLog

	records []record.Record // by offset: all that were ever appended and not truncated
	start   int64
	// The only idempotent producer, and the sequence number of its next batch.
	producer int64
	seq      int32
	epoch    int32
}

func newModelled(t testing.TB, seed uint64) *modelled {
	x := &modelled{modelLog: newModelLog(t, seed, 1)}
	d := &x.cfg.Default
	d.SegmentBytes = int32(200 + x.rng.IntN(3000))
	d.IndexIntervalBytes = int32(x.rng.IntN(600))
	d.IndexSizeMax = int32(24 * (1 + x.rng.IntN(50)))
	d.MaxMessageBytes = 1 << 20
	x.open()
	return x
}

func (x *modelled) end() int64 {
	if n := len(x.records); n > 0 {
		return x.records[n-1].Offset + 1
	}
	return 0
}

func (x *modelled) append() {
	w := record.NewBuilder()
	w.Codec = record.Codec(x.rng.IntN(5))
	n := 1 + x.rng.IntN(4)
	var added []record.Record
	first := x.l.LogEndOffset()
	for i := range n {
		r := record.Record{Offset: first + int64(i), Timestamp: x.c.now.UnixMilli() + x.rng.Int64N(500) - 250,
			Key: []byte{byte(i)}, Value: []byte(fmt.Sprintf("%0*d", 1+x.rng.IntN(40), x.rng.IntN(1000)))}
		w.Add(r.Timestamp, r.Key, r.Value)
		added = append(added, r)
	}
	if x.rng.IntN(2) == 0 {
		w.ProducerID, w.ProducerEpoch, w.BaseSequence = x.producer, 0, x.seq
	}
	b, err := w.Build()
	x.must(err)
	if int32(len(b)) > x.cfg.Default.SegmentBytes {
		return
	}
	info, err := x.l.AppendLeader(b, LeaderAppend{LeaderEpoch: x.epoch, ProduceVersion: 9})
	x.must(err)
	if info.FirstOffset != first {
		x.t.Fatalf("appended at %d, want %d", info.FirstOffset, first)
	}
	if w.ProducerID >= 0 {
		x.seq += int32(n)
	}
	x.records = append(x.records, added...)
	x.l.SetHighWatermark(x.l.LogEndOffset())
	x.pass()
}

// cutTo drops the list's records from offset on.
func (x *modelled) cutTo(offset int64) {
	for len(x.records) > 0 && x.records[len(x.records)-1].Offset >= offset {
		x.records = x.records[:len(x.records)-1]
	}
}

func (x *modelled) truncate() {
	end := x.l.LogEndOffset()
	to := end - x.rng.Int64N(20)
	if to < x.start {
		return
	}
	x.must(x.l.TruncateTo(to))
	if x.l.LogEndOffset() > to {
		x.t.Fatalf("truncated to %d, but the log ends at %d", to, x.l.LogEndOffset())
	}
	x.start = min(x.start, x.l.LogEndOffset())
	x.cutTo(x.l.LogEndOffset())
	x.resync()
}

// resync reads the producer's next sequence number from the log, since it may be lower after a truncation or a crash. A
// producer that the log has forgotten is replaced by another: none begins at 0 again.
func (x *modelled) resync() {
	for _, p := range x.l.ActiveProducers() {
		if p.ProducerID == x.producer {
			x.seq = record.AddSequence(p.LastSequence, 1)
			return
		}
	}
	x.producer, x.seq = x.producer+1, 0
}

func (x *modelled) deleteRecords() {
	hw := x.l.HighWatermark()
	to := x.start + x.rng.Int64N(hw-x.start+1)
	x.must(x.l.AdvanceLogStart(to))
	x.start = to
	if x.rng.IntN(2) == 0 {
		_, err := x.l.Retain()
		x.must(err)
	}
}

func (x *modelled) restart() {
	end, hw := x.l.LogEndOffset(), x.l.HighWatermark()
	x.reopen()
	if x.l.LogEndOffset() != end || x.l.HighWatermark() != hw || x.l.LogStartOffset() != x.start {
		x.t.Fatalf("after a clean stop: start %d, hw %d, end %d; want %d, %d, %d", x.l.LogStartOffset(), x.l.HighWatermark(),
			x.l.LogEndOffset(), x.start, hw, end)
	}
}

// crash cuts the power, or kills the process, and opens what is left.
func (x *modelled) crash(power bool) {
	flushed, end := x.l.RecoveryPoint(), x.l.LogEndOffset()
	if power {
		end = flushed
	}
	x.die(power)
	if got := x.l.LogEndOffset(); got < end || got > max(x.end(), end) {
		x.t.Fatalf("after a crash (power %v): end %d, want at least %d", power, got, end)
	}
	if x.l.LogStartOffset() > x.start {
		x.t.Fatalf("after a crash: start %d, want at most %d", x.l.LogStartOffset(), x.start)
	}
	x.start = x.l.LogStartOffset()
	x.cutTo(x.l.LogEndOffset())
	x.resync()
	x.l.SetHighWatermark(x.l.LogEndOffset())
}

func (x *modelled) step() {
	switch p := x.rng.IntN(100); {
	case p < 62:
		x.append()
	case p < 66:
		x.must(x.l.Roll())
	case p < 72:
		x.must(x.l.Flush())
	case p < 78:
		x.truncate()
	case p < 84:
		x.deleteRecords()
	case p < 87:
		x.restart()
	case p < 90:
		x.crash(false)
	case p < 94:
		x.crash(true)
	case p < 96:
		x.epoch++
		x.must(x.l.AssignEpochStart(x.epoch, x.l.LogEndOffset()))
	case p < 97:
		for _, v := range x.m.disks {
			x.must(x.m.checkpointOffsets(v))
		}
	default:
		x.check()
	}
}

// check compares the log with the list.
func (x *modelled) check() {
	x.t.Helper()
	var want []record.Record
	for _, r := range x.records {
		if r.Offset >= x.start {
			want = append(want, r)
		}
	}
	i := 0
	for _, b := range readAll(x.t, x.l, x.l.LogEndOffset()) {
		if !b.Valid() {
			x.t.Fatalf("batch at %d has a wrong checksum", b.BaseOffset())
		}
		x.must(b.Records(func(r *record.Record) error {
			if r.Offset < x.start {
				return nil
			}
			if i >= len(want) || r.Offset != want[i].Offset || r.Timestamp != want[i].Timestamp || !bytes.Equal(r.Value, want[i].Value) {
				return fmt.Errorf("record %d is at %d: %+v, want %+v", i, r.Offset, r, want[min(i, len(want)-1)])
			}
			i++
			return nil
		}))
	}
	if i != len(want) {
		x.t.Fatalf("%d records, want %d", i, len(want))
	}
	for range min(5, len(want)) {
		x.checkTime(want, want[x.rng.IntN(len(want))].Timestamp+x.rng.Int64N(3)-1)
	}
}

func (x *modelled) checkTime(want []record.Record, ts int64) {
	x.t.Helper()
	offset, _, _, found, err := x.l.OffsetForTime(ts)
	x.must(err)
	for _, r := range want {
		if r.Timestamp >= ts {
			if !found || offset != r.Offset {
				x.t.Fatalf("time %d is at %d (%v), want %d", ts, offset, found, r.Offset)
			}
			return
		}
	}
	if found {
		x.t.Fatalf("time %d is at %d, want none", ts, offset)
	}
}

// TestModel applies random operations to a log and to a list of records; both must agree, through restarts, kills and
// power failures.
func TestModel(t *testing.T) {
	for seed := range seeds.Count(t, 60, 15) {
		runModel(t, seed)
	}
	for _, seed := range []uint64{187, 452, 3034, 5273} { // seeds that have failed
		runModel(t, seed)
	}
}

func runModel(t *testing.T, seed uint64) {
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		x := newModelled(t, seed)
		for range 120 {
			x.step()
		}
		x.check()
		x.must(x.m.Close())
	})
}

// TestCrashAtEachStep fails the disk at each call in turn, cuts the power, and requires that everything that was
// flushed is there and that the log continues.
func TestCrashAtEachStep(t *testing.T) {
	for n := 1; ; n++ {
		x := newModelled(t, uint64(n%7))
		flushed := int64(0)
		dieAt(x.fs, n)
		died := false
		for i := 0; i < 60 && !died; i++ {
			first := x.l.LogEndOffset()
			values := []string{fmt.Sprint("value ", i), "x"}
			_, err := x.l.AppendLeader(batchOf(1_790_000_000_000+int64(i), values...).MustBuild(), LeaderAppend{LeaderEpoch: int32(i / 20), ProduceVersion: 9})
			died = err != nil
			if err == nil {
				for j, v := range values {
					x.records = append(x.records, record.Record{Offset: first + int64(j), Timestamp: 1_790_000_000_000 + int64(i+j), Value: []byte(v)})
				}
				x.l.SetHighWatermark(x.l.LogEndOffset())
			}
			if i%7 == 0 && x.l.Flush() == nil && !died {
				flushed = x.l.LogEndOffset()
			}
			if i == 40 && !died {
				died = x.l.TruncateTo(30) != nil
				flushed = min(flushed, 30)
				if !died {
					x.cutTo(x.l.LogEndOffset())
				}
			}
		}
		if !died {
			died = x.m.Close() != nil
		}
		x.fs = x.fs.Crash(nil)
		x.open()
		if end := x.l.LogEndOffset(); end < flushed {
			t.Fatalf("call %d: end %d after the crash, but everything below %d was flushed", n, end, flushed)
		}
		for len(x.records) > 0 && x.end() > x.l.LogEndOffset() {
			x.cutTo(x.l.LogEndOffset())
		}
		if x.end() == x.l.LogEndOffset() { // a truncation that failed may have kept more
			x.check()
		}
		x.append()
		x.must(x.m.Close())
		if !died {
			t.Logf("%d calls", n-1)
			return
		}
	}
}

package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/seeds"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// twins are two logs that get the same batches, one by one and in groups.
type twins struct {
	t          *testing.T
	rng        *rand.Rand
	c          *clock
	fs         [2]*vfs.Mem
	m          [2]*Manager
	l          [2]*Log
	sequences  [3]int32 // next, by producer
	epochs     [3]int16
	sent       [][]byte // the last batches, to be repeated
	timestamps int64
	version    int16 // of Produce
}

func newTwins(t *testing.T, seed uint64) *twins {
	x := &twins{t: t, rng: rand.New(rand.NewPCG(seed, 3)), c: newClock(), timestamps: 1_790_000_000_000, version: 9}
	if x.rng.IntN(4) == 0 {
		x.version = 2
	}
	appendTime, compact, age := x.rng.IntN(3) == 0, x.rng.IntN(4) == 0, time.Duration(x.rng.IntN(200))*time.Millisecond
	old := x.version < 3 && x.rng.IntN(2) == 0
	for i := range 2 {
		x.fs[i] = vfs.NewMem(x.c.Now)
		cfg := memConfig(x.fs[i], x.c)
		d := &cfg.Default
		d.SegmentBytes, d.IndexIntervalBytes, d.IndexSizeMax, d.SegmentAge, d.SegmentJitter = 4000, 200, 1<<16, age, 0
		d.Compact, d.MaxMessageBytes = compact, 2000
		if old {
			d.Magic = 1
		}
		if appendTime {
			d.TimestampType = record.LogAppendTime
		}
		x.m[i] = mustOpen(t, cfg)
		t.Cleanup(func() { _ = x.m[i].Close() })
		var err error
		if x.l[i], err = x.m[i].GetOrCreate(testTP, [16]byte{7}, *d, true); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// batch returns a batch that is mostly what a client would send next.
func (x *twins) batch() []byte {
	r := x.rng
	x.timestamps += r.Int64N(40)
	if x.version < 3 {
		return x.messages()
	}
	w := record.NewBuilder()
	for i := range 1 + r.IntN(3) {
		var key []byte
		if r.IntN(30) > 0 {
			key = []byte("k")
		}
		w.Add(x.timestamps+int64(i), key, make([]byte, r.IntN(400)))
	}
	if r.IntN(50) == 0 {
		w.Add(x.timestamps, []byte("k"), make([]byte, 2000)) // too large
	}
	if r.IntN(3) > 0 {
		x.sequence(w)
	}
	data := w.MustBuild()
	switch r.IntN(40) {
	case 0:
		data[len(data)-1] ^= 1
	case 1:
		data = data[:len(data)-2]
	case 2:
		if len(x.sent) > 0 {
			data = bytes.Clone(x.sent[r.IntN(len(x.sent))])
		}
	}
	x.sent = append(x.sent, bytes.Clone(data))
	x.sent = x.sent[max(0, len(x.sent)-8):]
	return data
}

// messages returns what an old client sends: messages, of which the last may be incomplete.
func (x *twins) messages() (data []byte) {
	r := x.rng
	for i := range r.IntN(4) {
		data = record.AppendMessage(data, int8(r.IntN(2)), int64(i), x.timestamps+int64(i), []byte("k"), make([]byte, r.IntN(400)))
	}
	if r.IntN(10) == 0 {
		data = data[:len(data)-min(len(data), r.IntN(100))]
	}
	return data
}

// sequence makes a batch one of an idempotent producer, with a wrong sequence number or epoch now and then.
func (x *twins) sequence(w *record.Builder) {
	r := x.rng
	p := r.IntN(len(x.sequences))
	if r.IntN(40) == 0 {
		x.epochs[p]++
		x.sequences[p] = 0
	}
	w.ProducerID, w.ProducerEpoch, w.BaseSequence = int64(p), x.epochs[p], x.sequences[p]
	switch r.IntN(40) {
	case 0:
		w.BaseSequence += int32(r.IntN(3))
	case 1:
		w.ProducerEpoch = max(0, w.ProducerEpoch-1)
	}
	x.sequences[p] = w.BaseSequence + int32(w.Count())
}

func (x *twins) step() {
	x.c.now = x.c.now.Add(time.Duration(x.rng.IntN(30)) * time.Millisecond)
	o := LeaderAppend{ProduceVersion: x.version, LeaderEpoch: 3}
	var single, group []LeaderBatch
	for range 1 + x.rng.IntN(6) {
		data := x.batch()
		b := LeaderBatch{Data: bytes.Clone(data)}
		b.Info, b.Err = x.l[0].AppendLeader(b.Data, o)
		single, group = append(single, b), append(group, LeaderBatch{Data: data})
	}
	x.l[1].AppendAll(group, o)
	for i := range single {
		want, got := outcome(single[i]), outcome(group[i])
		if got != want {
			x.t.Fatalf("batch %d of %d in a group: %s; alone: %s", i, len(group), got, want)
		}
	}
}

func outcome(b LeaderBatch) string { return fmt.Sprintf("%+v, %v", b.Info, b.Err) }

// files returns the content of the log's files.
func (x *twins) files(i int) map[string]string {
	x.t.Helper()
	dir := filepath.Join("/data", testTP.String())
	entries, err := x.fs[i].ReadDir(dir)
	if err != nil {
		x.t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := x.fs[i].ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			x.t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// AppendAll has the results and leaves the files that appending one batch after the other has.
func TestAppendAll(t *testing.T) {
	for seed := range seeds.Count(t, 200, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			x := newTwins(t, seed)
			for range 60 {
				x.step()
			}
			for _, m := range x.m {
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(x.files(0), x.files(1)); diff != "" {
				t.Fatalf("files differ (-alone +in groups):\n%s", diff)
			}
		})
	}
}

// Several batches are written at once, and if that fails, all of them fail and the log is as before.
func TestAppendAllWritesOnce(t *testing.T) {
	x := newReserving(t)
	x.append(1)
	writes, fault := 0, error(nil)
	x.fs.SetFault(func(op, name string) error {
		if op != "write" || !strings.HasSuffix(name, logSuffix) {
			return nil
		}
		writes++
		return fault
	})
	x.appendAll(5)
	if writes != 1 || x.l.LogEndOffset() != 6 {
		t.Errorf("%d writes, log end %d; want 1, 6", writes, x.l.LogEndOffset())
	}
	fault = syscall.ENOSPC
	for i, b := range x.appendAll(5) {
		if b.Err == nil || b.Info.FirstOffset != -1 {
			t.Errorf("batch %d: %s", i, outcome(b))
		}
	}
	if end := x.l.LogEndOffset(); end != 6 {
		t.Errorf("log end %d after a failed write, want 6", end)
	}
}

func (x *reserving) appendAll(n int) []LeaderBatch {
	batches := make([]LeaderBatch, n)
	for i := range batches {
		batches[i].Data = batchOf(1, "value").MustBuild()
	}
	x.l.AppendAll(batches, LeaderAppend{})
	return batches
}

// Nothing whole from an old client is not affected by a write that fails, since it has nothing to write.
func TestNothingWholeBesideAFailedWrite(t *testing.T) {
	x := newReserving(t)
	x.append(1)
	x.fs.SetFault(func(op, name string) error {
		if op == "write" && strings.HasSuffix(name, logSuffix) {
			return syscall.ENOSPC
		}
		return nil
	})
	message := func() []byte { return record.AppendMessage(nil, 1, 0, 1, nil, []byte("v")) }
	batches := []LeaderBatch{{Data: message()}, {Data: []byte{0}}, {Data: message()}}
	x.l.AppendAll(batches, LeaderAppend{ProduceVersion: 2})
	if batches[0].Err == nil || batches[1].Err != nil || batches[2].Err == nil {
		t.Errorf("errors: %v, %v, %v", batches[0].Err, batches[1].Err, batches[2].Err)
	}
}

// What cannot be written together with the batches before it is not written at all after these have made the disk fail,
// although the disk would take it.
func TestAppendAllAfterTheDiskHasFailed(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second *record.Builder
	}{
		{"in another epoch", sequenced(1, 0, 0, 1), sequenced(1, 1, 0, 1)},
		{"in another segment", batchOf(1, "v"), batchOf((30 * 24 * time.Hour).Milliseconds(), "v")},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newReserving(t)
			x.append(1)
			writes := 0
			x.fs.SetFault(func(op, name string) error {
				if op != "write" || !strings.HasSuffix(name, logSuffix) {
					return nil
				}
				if writes++; writes == 1 {
					return syscall.EIO
				}
				return nil
			})
			batches := []LeaderBatch{{Data: c.first.MustBuild()}, {Data: c.second.MustBuild()}}
			x.l.AppendAll(batches, LeaderAppend{})
			for i, b := range batches {
				if !errors.Is(b.Err, kerr.KafkaStorageError) {
					t.Errorf("batch %d: %s", i, outcome(b))
				}
			}
			if end := x.l.LogEndOffset(); writes != 1 || end != 1 {
				t.Errorf("%d writes, log end %d; want 1, 1", writes, end)
			}
		})
	}
}

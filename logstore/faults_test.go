package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// faultRig is a log directory whose broker has stopped, to be damaged. Its log has closed segments below and above the
// recovery point, an aborted transaction in each of the two parts, and an idempotent producer throughout.
type faultRig struct {
	*testing.T
	fs       *vfs.Mem
	cfg      ManagerConfig
	batches  []record.Batch
	segments []int64 // their base offsets
	out      *logLines
}

const faultDir = "/data/t-0/"

func newFaultRig(t *testing.T, clean bool) *faultRig {
	t.Helper()
	c := newClock()
	r := &faultRig{T: t, fs: vfs.NewMem(c.Now)}
	r.cfg = memConfig(r.fs, c)
	r.cfg.Default.SegmentBytes, r.cfg.Default.IndexIntervalBytes = 500, 100
	m := mustOpen(t, r.cfg)
	l := mustCreate(t, m)
	seq := int32(0)
	for half := range 2 {
		_, err := l.AppendLeader(transactional(5, int32(half*2), 2).MustBuild(), LeaderAppend{ProduceVersion: 9})
		r.must(err)
		for range 8 {
			mustProduce(t, l, sequenced(9, 0, seq, 2))
			seq += 2
		}
		_, err = l.AppendLeader(mark(5, 0, 0, 0).MustBuild(), LeaderAppend{Origin: Coordinator})
		r.must(err)
		l.SetHighWatermark(l.LogEndOffset())
		if half == 0 {
			r.must(l.Flush(), m.checkpointOffsets(m.disks[0]))
		}
	}
	r.batches, r.segments = readAll(t, l, l.LogEndOffset()), bases(l)
	if clean {
		r.must(m.Close())
	} else {
		m.giveUp()
	}
	r.fs = r.fs.Kill()
	r.cfg.FS = r.fs
	return r
}

func (r *faultRig) must(errs ...error) {
	r.Helper()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

// file returns the name of a file of the nth segment, counted from the last when n is negative.
func (r *faultRig) file(n int, suffix string) string {
	if n < 0 {
		n += len(r.segments)
	}
	return faultDir + fileName(r.segments[n], suffix)
}

// snapshot returns the name of the newest snapshot or, counted from there, of an older one.
func (r *faultRig) snapshot(back int) string {
	entries, err := r.fs.ReadDir(faultDir)
	r.must(err)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), snapshotSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return faultDir + names[len(names)-1-back]
}

// edit changes a file's content.
func (r *faultRig) edit(name string, change func([]byte) []byte) {
	r.Helper()
	data, err := r.fs.ReadFile(name)
	r.must(err, vfs.WriteFile(r.fs, name, change(data)))
}

func (r *faultRig) remove(name string) {
	r.Helper()
	r.must(r.fs.Remove(name))
}

// open loads the directory and checks that there are the first n batches and the state that belongs to them.
func (r *faultRig) open(n int) (*Manager, *Log) {
	r.Helper()
	r.cfg.Logger, r.out = newLogLines()
	m := mustOpen(r, r.cfg)
	l, ok := m.Log(testTP)
	if !ok {
		r.Fatalf("the log does not exist:\n%s", r.out)
	}
	var want, got []string
	for _, b := range r.batches[:n] {
		want = append(want, fmt.Sprintf("%x", []byte(b)))
	}
	for _, b := range readAll(r, l, l.LogEndOffset()) {
		got = append(got, fmt.Sprintf("%x", []byte(b)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("batches (-want +got)\n%s", diff)
	}
	return m, l
}

// state checks that there are as many aborted transactions as markers among the first n batches, and that the
// producer's last batch is known.
func (r *faultRig) state(l *Log, n int) {
	r.Helper()
	markers := 0
	last := int32(-1)
	for _, b := range r.batches[:n] {
		if b.Control() {
			markers++
		}
		if b.ProducerID() == 9 {
			last = b.LastSequence()
		}
	}
	aborted, err := l.AbortedTransactions(0, l.LogEndOffset())
	if err != nil || len(aborted) != markers {
		r.Errorf("%d aborted transactions, want %d: %v", len(aborted), markers, err)
	}
	for _, p := range l.ActiveProducers() {
		if p.ProducerID == 9 && p.LastSequence != last {
			r.Errorf("the producer's last sequence is %d, want %d", p.LastSequence, last)
		}
	}
	again := sequenced(9, 0, last-1, 2)
	if info, err := produce(l, again.MustBuild()); err != nil || !info.Duplicate {
		r.Errorf("the producer's last batch is not recognized: %+v, %v", info, err)
	}
}

// fault is damage to what a broker left behind. After the next start nothing that was flushed is lost, what was done is
// logged, the log continues, and the start after that has nothing to report. (Damage below the recovery point is not
// cut: TestDamageIsNotCut.)
type fault struct {
	name   string
	clean  bool // the broker was stopped rather than killed
	damage func(*faultRig)
	lost   int      // batches
	lines  []string // parts that one line of the log must have together
}

func checkFaults(t *testing.T, faults []fault) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.name, f.check)
	}
}

func (f fault) check(t *testing.T) {
	r := newFaultRig(t, f.clean)
	f.damage(r)
	left := len(r.batches) - f.lost
	m, l := r.open(left)
	r.out.want(t, f.lines...)
	r.state(l, left)
	next := mustProduce(t, l, batchOf(1000, "goes on"))
	if next.FirstOffset != r.batches[left-1].LastOffset()+1 {
		t.Errorf("the next record is at %d", next.FirstOffset)
	}
	r.batches = append(r.batches[:left:left], readAll(t, l, l.LogEndOffset())[left])
	r.must(m.Close())
	m, _ = r.open(left + 1)
	if out := r.out.String(); strings.Contains(out, "level=warning") || strings.Contains(out, "level=error") {
		t.Errorf("the next start has warnings:\n%s", out)
	}
	r.must(m.Close())
}

// cut removes the last n bytes of a file.
func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }

func grow(tail []byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(b, tail...) }
}

func spoil(b []byte) []byte {
	for i := range b {
		b[i] ^= 0x5a
	}
	return b
}

func TestNoFault(t *testing.T) {
	checkFaults(t, []fault{
		{"killed", false, func(*faultRig) {}, 0, []string{"recovered segment", "segment="}},
		{"stopped", true, func(*faultRig) {}, 0, nil},
	})
}

func TestBrokenTails(t *testing.T) {
	garbage := bytes.Repeat([]byte{0xa5, 0x13, 0x77}, 13)
	checkFaults(t, []fault{
		{"torn", false, func(r *faultRig) { r.edit(r.file(-1, logSuffix), cut(10)) }, 1,
			[]string{"level=warning", "cutting a broken tail", "topic=t", "partition=0", "dir=/data", "segment=", "offset="}},
		{"garbage", false, func(r *faultRig) { r.edit(r.file(-1, logSuffix), grow(garbage)) }, 0,
			[]string{"level=warning", "cutting a broken tail", "size_bytes=39"}},
		{"garbage after a stop", true, func(r *faultRig) { r.edit(r.file(-1, logSuffix), grow(garbage)) }, 0,
			[]string{"level=warning", "cutting a broken tail"}},
		{"zeros", false, func(r *faultRig) { r.edit(r.file(-1, logSuffix), grow(make([]byte, 4096))) }, 0,
			[]string{"level=warning", "cutting a broken tail", "size_bytes=4096"}},
		{"zeros in place of the last batch", false, func(r *faultRig) {
			last := len(r.batches[len(r.batches)-1])
			r.edit(r.file(-1, logSuffix), func(b []byte) []byte { return append(b[:len(b)-last], make([]byte, last)...) })
		}, 1, []string{"level=warning", "cutting a broken tail"}},
	})
}

// TestFaultyIndexesAfterAKill: the indexes of segments above the recovery point are made anew in any case.
func TestFaultyIndexesAfterAKill(t *testing.T) {
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		checkFaults(t, []fault{
			{"no " + suffix, false, func(r *faultRig) { r.remove(r.file(-1, suffix)) }, 0, []string{"recovered segment"}},
			{"spoilt " + suffix, false, func(r *faultRig) { r.edit(r.file(-1, suffix), spoil) }, 0, []string{"recovered segment"}},
		})
	}
}

// aborted returns the transaction index of a closed segment that has one.
func (r *faultRig) aborted() string {
	return r.file(slices.IndexFunc(r.segments, func(base int64) bool {
		_, err := r.fs.Stat(faultDir + fileName(base, txnIndexSuffix))
		return err == nil
	}), txnIndexSuffix)
}

func TestFaultyIndexesAfterAStop(t *testing.T) {
	const anew = "making the indexes of a segment anew"
	checkFaults(t, []fault{
		{"no offset index", true, func(r *faultRig) { r.remove(r.file(1, indexSuffix)) }, 0,
			[]string{"level=warning", anew, "offset index is missing", "topic=t", "segment="}},
		{"no time index", true, func(r *faultRig) { r.remove(r.file(1, timeIndexSuffix)) }, 0,
			[]string{"level=warning", anew, "time index is missing", "topic=t", "segment="}},
		{"spoilt transaction index", true, func(r *faultRig) { r.edit(r.aborted(), spoil) }, 0,
			[]string{"level=warning", anew, ".txnindex", "segment="}},
		{"torn transaction index", true, func(r *faultRig) { r.edit(r.aborted(), cut(1)) }, 0,
			[]string{"level=warning", anew, "incomplete entry", "segment="}},
	})
}

func TestFaultySnapshots(t *testing.T) {
	checkFaults(t, []fault{
		{"newest spoilt after a stop", true, func(r *faultRig) { r.edit(r.snapshot(0), spoil) }, 0,
			[]string{"level=warning", "producer snapshot", "file=/data/t-0/", "topic=t"}},
		{"two spoilt after a stop", true, func(r *faultRig) { r.edit(r.snapshot(0), spoil); r.edit(r.snapshot(1), cut(3)) }, 0,
			[]string{"level=warning", "producer snapshot"}},
		{"all empty", false, func(r *faultRig) {
			names, err := r.fs.ReadDir(faultDir)
			r.must(err)
			for _, e := range names {
				if strings.HasSuffix(e.Name(), snapshotSuffix) {
					r.edit(faultDir+e.Name(), func([]byte) []byte { return nil })
				}
			}
		}, 0, []string{"level=warning", "producer snapshot"}},
	})
}

func TestFaultyCheckpoints(t *testing.T) {
	recoveryPoint := func(offset int64) func(*faultRig) {
		return func(r *faultRig) {
			r.must(writeCheckpoint(r.fs, "/data/"+recoveryPointFile, map[TopicPartition]int64{testTP: offset}))
		}
	}
	checkFaults(t, []fault{
		{"no recovery points", false, func(r *faultRig) { r.remove("/data/" + recoveryPointFile) }, 0, []string{"recovered segment", "segment=0 "}},
		{"recovery point of long ago", false, recoveryPoint(1), 0, []string{"recovered segment", "segment=0 "}},
		{"recovery point beyond the end", false, recoveryPoint(1000), 0, nil},
		{"no leader epochs", false, func(r *faultRig) { r.remove(filepath.Join(faultDir, epochFile)) }, 0, nil},
	})
}

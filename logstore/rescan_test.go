package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"barnabas/internal/seeds"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// brokenLog is a log of several segments, with producers, transactions and leader epochs, as a crash may have left it.
type brokenLog struct {
	rng   *rand.Rand
	cfg   ManagerConfig
	fs    *vfs.Mem
	files map[string][]byte
}

func newBrokenLog(t testing.TB, seed uint64) *brokenLog {
	c := newClock()
	x := &brokenLog{rng: rand.New(rand.NewPCG(seed, 3)), fs: vfs.NewMem(c.Now)}
	x.cfg = memConfig(x.fs, c)
	x.cfg.Default.SegmentBytes, x.cfg.Default.IndexIntervalBytes = int32(500+x.rng.IntN(2000)), int32(x.rng.IntN(300))
	m := mustOpen(t, x.cfg)
	l := mustCreate(t, m)
	x.fill(t, l)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	x.files = filesIn(t, x.fs, "/data")
	delete(x.files, "/data/"+cleanFile)
	delete(x.files, "/data/"+lockFile)
	for range x.rng.IntN(3) {
		x.breakSomething()
	}
	if x.rng.IntN(3) == 0 {
		delete(x.files, "/data/"+testTP.String()+"/"+epochFile)
	}
	point := x.rng.Int64N(l.LogEndOffset() + 1)
	if x.rng.IntN(2) == 0 {
		point = 0
	}
	x.files["/data/"+recoveryPointFile] = fmt.Appendf(nil, "0\n1\n%s %d %d\n", testTP.Topic, testTP.Partition, point)
	return x
}

func (x *brokenLog) fill(t testing.TB, l *Log) {
	t.Helper()
	epoch, seq := int32(0), make(map[int64]int32)
	for range 20 + x.rng.IntN(60) {
		w := record.NewBuilder()
		o := LeaderAppend{ProduceVersion: 9, Origin: Coordinator}
		pid := int64(x.rng.IntN(4))
		switch x.rng.IntN(5) {
		case 0: // without a producer
		case 1:
			w.ProducerID, w.ProducerEpoch, w.Transactional, w.Control = 10+pid, 0, true, true
			key := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(x.rng.IntN(2)))
			w.Add(1000, key, []byte{0, 0, 0, 0, 0, 0})
		case 2, 3:
			w.ProducerID, w.ProducerEpoch, w.Transactional = 10+pid, 0, true
			w.BaseSequence = seq[10+pid]
		default:
			w.ProducerID, w.ProducerEpoch = pid, 0
			w.BaseSequence = seq[pid]
		}
		if !w.Control {
			n := int32(1 + x.rng.IntN(3))
			for i := range n {
				w.Add(1_790_000_000_000+x.rng.Int64N(5000), []byte{byte(i)}, bytes.Repeat([]byte("v"), x.rng.IntN(80)))
			}
			if w.BaseSequence >= 0 {
				seq[w.ProducerID] += n
			}
		}
		if x.rng.IntN(8) == 0 {
			epoch++
		}
		o.LeaderEpoch = epoch
		if _, err := l.AppendLeader(w.MustBuild(), o); err != nil {
			t.Fatal(err)
		}
		l.SetHighWatermark(l.LogEndOffset())
	}
}

// breakSomething damages one of the log's files as a crash or a disk may.
func (x *brokenLog) breakSomething() {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(x.files)), func(name string) bool {
		return path.Dir(name) != "/data/"+testTP.String() || path.Base(name) == partitionMetadataFile || path.Base(name) == epochFile
	})
	name := names[x.rng.IntN(len(names))]
	data := bytes.Clone(x.files[name])
	at := 0
	if len(data) > 0 {
		at = x.rng.IntN(len(data))
	}
	switch x.rng.IntN(5) {
	case 0:
		data = data[:at]
	case 1:
		data = append(data, make([]byte, x.rng.IntN(200))...)
	case 2:
		clear(data[at:])
	case 3:
		if path.Ext(name) != logSuffix {
			delete(x.files, name)
			return
		}
	default:
		if len(data) > 0 && !(path.Ext(name) == logSuffix && beforeChecksum(data, at)) {
			data[at] ^= 1 << x.rng.IntN(8)
		}
	}
	x.files[name] = data
}

// beforeChecksum reports whether a position in a segment file is not covered by a checksum, so that a change there
// cannot be detected.
func beforeChecksum(data []byte, at int) bool {
	start := 0
	for walk := record.Split(data); walk.Next() && walk.Position() <= at; {
		start = walk.Position()
	}
	const attributes = 21 // the first byte that the checksum covers
	return at-start < attributes
}

// filesIn returns the content of the files below a directory.
func filesIn(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			maps.Copy(files, filesIn(t, fsys, name))
			continue
		}
		if files[name], err = fsys.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// recovered is the result of a recovery.
type recovered struct {
	Damaged   bool
	Offsets   [4]int64
	Unstable  int64
	Producers []ProducerState
	Epochs    [][2]int64
	Aborted   []AbortedTxn
	Files     map[string][]byte
}

// recoverWith recovers the log, with the given number of segments at a time, and stops.
func (x *brokenLog) recoverWith(t testing.TB, threads int) recovered {
	t.Helper()
	fsys := vfs.NewMem(x.cfg.Now)
	for name, data := range x.files {
		if err := errors.Join(fsys.MkdirAll(path.Dir(name)), vfs.WriteFile(fsys, name, data)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := x.cfg
	cfg.FS, cfg.RecoveryThreadsPerDir = fsys, threads
	m := mustOpen(t, cfg)
	l, ok := m.Log(testTP)
	if !ok {
		t.Fatal("no log")
	}
	got := recovered{Damaged: l.Usable() != nil}
	if !got.Damaged {
		got.Offsets, got.Unstable, got.Producers = offsets(l), l.unstable.Load(), l.ActiveProducers()
		for _, e := range l.epochs.mu.entries {
			got.Epochs = append(got.Epochs, [2]int64{int64(e.epoch), e.start})
		}
		var err error
		if got.Aborted, err = l.AbortedTransactions(l.LogStartOffset(), l.LogEndOffset()); err != nil {
			t.Fatal(err)
		}
		got.Files = filesIn(t, fsys, "/data/"+testTP.String())
	}
	m.giveUp()
	return got
}

// inOrder returns the state that results from reading all segment files one batch after the other.
func (x *brokenLog) inOrder(end int64, names []string) (producers *producerTable, aborted []AbortedTxn, epochs [][2]int64) {
	producers = newProducerTable(x.cfg.ProducerExpiry)
	for _, name := range names {
		for walk := record.Split(x.files[name]); walk.Next(); {
			b := walk.Batch()
			if b.BaseOffset() >= end {
				break
			}
			if n := len(epochs); n == 0 || epochs[n-1][0] < int64(b.LeaderEpoch()) {
				epochs = append(epochs, [2]int64{int64(b.LeaderEpoch()), b.BaseOffset()})
			}
			if a, ok, _ := producers.apply(b); ok {
				aborted = append(aborted, a)
			}
		}
	}
	return producers, aborted, epochs
}

// TestRecoverySideBySide recovers random logs with random faults, one segment at a time and several at a time: files,
// offsets, producers, transactions and epochs are the same. If everything was read, they equal those from reading all
// batches in order.
func TestRecoverySideBySide(t *testing.T) {
	count, whole := seeds.Count(t, 100, 30), 0
	for seed := range count {
		x := newBrokenLog(t, seed)
		one, several := x.recoverWith(t, 1), x.recoverWith(t, 4)
		if diff := cmp.Diff(one, several); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if one.Damaged || one.Offsets[2] != 0 {
			continue
		}
		whole++
		var names []string
		for _, name := range slices.Sorted(maps.Keys(x.files)) {
			if path.Ext(name) == logSuffix {
				names = append(names, name)
			}
		}
		producers, aborted, epochs := x.inOrder(one.Offsets[3], names)
		if diff := cmp.Diff(producers.states(), one.Producers); diff != "" {
			t.Errorf("seed %d, producers: %s", seed, diff)
		}
		if diff := cmp.Diff(aborted, one.Aborted); diff != "" {
			t.Errorf("seed %d, aborted transactions: %s", seed, diff)
		}
		if diff := cmp.Diff(epochs, one.Epochs); diff != "" {
			t.Errorf("seed %d, leader epochs: %s", seed, diff)
		}
		if t.Failed() {
			return
		}
	}
	if whole < int(count)/10 {
		t.Errorf("only %d of %d logs were read from their beginning", whole, count)
	}
}

package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"syscall"
	"testing"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// farOffsets are further apart than one segment's indexes can represent.
var farOffsets = []int64{0, 5, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt32 + 5, 3 << 31, 3<<31 + math.MaxInt32, 7 << 31}

// overfullFiles returns a log directory with one segment that holds all of farOffsets, as an old release may have left
// it: its indexes contain wrong offsets.
func overfullFiles(clean bool, behind ...int64) map[string][]byte {
	dir := "/data/" + testTP.String() + "/"
	files := map[string][]byte{
		"/data/" + recoveryPointFile:   fmt.Appendf(nil, "0\n1\n%s 0 %d\n", testTP.Topic, farOffsets[len(farOffsets)-1]+1),
		dir + fileName(0, logSuffix):   farBatches(farOffsets),
		dir + fileName(0, indexSuffix): wrappedIndex(farOffsets), dir + fileName(0, timeIndexSuffix): nil,
	}
	if clean {
		files["/data/"+cleanFile] = []byte(cleanContent)
	} else {
		files["/data/"+recoveryPointFile] = []byte("0\n0\n")
	}
	if len(behind) > 0 {
		files[dir+fileName(behind[0], logSuffix)] = farBatches(behind)
		files[dir+fileName(behind[0], indexSuffix)], files[dir+fileName(behind[0], timeIndexSuffix)] = nil, nil
	}
	return files
}

// wrappedIndex returns an offset index that has only the lower half of each offset.
func wrappedIndex(list []int64) []byte {
	var index []byte
	for i, offset := range list {
		index = binary.BigEndian.AppendUint32(index, uint32(offset))
		index = binary.BigEndian.AppendUint32(index, uint32(len(farBatches(list[:i]))))
	}
	return index
}

func farBatches(list []int64) []byte {
	var data []byte
	for i, offset := range list {
		b := batchOf(1_790_000_000_000+int64(i), fmt.Sprint(offset)).MustBuild()
		b.SetLastOffset(offset)
		b.SetLeaderEpoch(int32(i / 3))
		data = append(data, b...)
	}
	return data
}

func memWith(t testing.TB, files map[string][]byte) (*vfs.Mem, ManagerConfig) {
	t.Helper()
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := errors.Join(fsys.MkdirAll(path.Dir(name)), vfs.WriteFile(fsys, name, files[name]), fsys.SyncDir("/data")); err != nil {
			t.Fatal(err)
		}
	}
	cfg := memConfig(fsys, c)
	cfg.Default.Compact = true // there are gaps
	return fsys, cfg
}

// farContent returns every record by its offset.
func farContent(t testing.TB, l *Log) []string {
	t.Helper()
	var all []string
	for _, b := range readAll(t, l, l.LogEndOffset()) {
		err := b.Records(func(r *record.Record) error {
			all = append(all, fmt.Sprintf("%d=%s", r.Offset, r.Value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func wantFar(list []int64) []string {
	var want []string
	for _, offset := range list {
		want = append(want, fmt.Sprintf("%d=%d", offset, offset))
	}
	return want
}

// TestOverfullSegmentIsSplit expects the segments that Apache Kafka 3.9.2 makes of the same file.
func TestOverfullSegmentIsSplit(t *testing.T) {
	behind := []int64{9 << 31, 9<<31 + 1}
	for _, test := range []struct {
		name   string
		clean  bool
		behind []int64
	}{{"after a kill", false, nil}, {"after a clean stop", true, nil}, {"with a segment behind", false, behind}, {"with a segment behind, after a clean stop", true, behind}} {
		t.Run(test.name, func(t *testing.T) {
			fsys, cfg := memWith(t, overfullFiles(test.clean, test.behind...))
			all := append(slices.Clone(farOffsets), test.behind...)
			for range 2 {
				m := mustOpen(t, cfg)
				l, _ := m.Log(testTP)
				if diff := cmp.Diff(wantFar(all), farContent(t, l)); diff != "" {
					t.Fatal(diff)
				}
				var bases []int64
				for _, s := range *l.segments.Load() {
					bases = append(bases, s.base)
				}
				if want := append([]int64{0, math.MaxInt32 + 1, 3 << 31, 7 << 31}, test.behind[:min(1, len(test.behind))]...); !slices.Equal(bases, want) {
					t.Errorf("segments %v, want %v", bases, want)
				}
				for _, offset := range all { // through the indexes
					r, err := l.Read(offset, 1, l.LogEndOffset(), true)
					if err != nil {
						t.Fatal(err)
					}
					data, err := r.Append(nil)
					r.Close()
					if err != nil || record.Batch(data).BaseOffset() != offset {
						t.Errorf("read at %d: %v %v", offset, record.Batch(data).BaseOffset(), err)
					}
				}
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for name := range filesIn(t, fsys, "/data/"+testTP.String()) {
				if ext := path.Ext(name); ext == cleanedSuffix || ext == swapSuffix || ext == deletedSuffix {
					t.Errorf("%s is left over", name)
				}
			}
		})
	}
}

// TestSplitIsSafeAtEveryStep kills the process, or cuts the power, at each step of the load that splits. Which of the
// renames had reached the disk by then is random.
func TestSplitIsSafeAtEveryStep(t *testing.T) {
	chances := uint64(4)
	if testing.Short() {
		chances = 1
	}
	for _, clean := range []bool{false, true} {
		for step, died := 1, true; died; step++ {
			died = splitAndDie(t, clean, step, (*vfs.Mem).Kill)
			for seed := range chances {
				splitAndDie(t, clean, step, func(fsys *vfs.Mem) *vfs.Mem { return fsys.Crash(rand.New(rand.NewPCG(seed, uint64(step)))) })
			}
			if t.Failed() {
				t.Fatalf("step %d, clean %v", step, clean)
			}
		}
	}
}

// TestSplitIsSafeThroughTwoCrashes ends the process at each step of the load that splits after the first rename, and the
// next load at each of its steps.
func TestSplitIsSafeThroughTwoCrashes(t *testing.T) {
	for step, died := 1, true; died; step++ {
		for later, again := 1, true; again; later++ {
			again = false
			died = splitAndDie(t, true, step, func(fsys *vfs.Mem) *vfs.Mem {
				fsys = fsys.Kill()
				if hasSwapFile(t, fsys) {
					_, cfg := memWith(t, nil)
					cfg.FS = fsys
					again = openAndDie(t, cfg, later)
				}
				return fsys.Kill()
			})
			if t.Failed() {
				t.Fatalf("step %d, then %d", step, later)
			}
		}
	}
}

func hasSwapFile(t *testing.T, fsys vfs.FS) bool {
	t.Helper()
	for name := range filesIn(t, fsys, "/data/"+testTP.String()) {
		if path.Ext(name) == swapSuffix {
			return true
		}
	}
	return false
}

// openAndDie loads until the given step and ends there. It reports whether the load got that far.
func openAndDie(t *testing.T, cfg ManagerConfig, step int) (died bool) {
	t.Helper()
	n := 0
	cfg.FS.(*vfs.Mem).SetFault(func(string, string) error {
		if n++; n >= step {
			died = true
			return syscall.EIO
		}
		return nil
	})
	if m, err := Open(t.Context(), cfg); err == nil {
		m.giveUp()
	}
	cfg.FS.(*vfs.Mem).SetFault(nil)
	return died
}

// splitAndDie loads until the given step, ends there, and loads again. It reports whether the first load got that far.
func splitAndDie(t *testing.T, clean bool, step int, end func(*vfs.Mem) *vfs.Mem) (died bool) {
	t.Helper()
	fsys, cfg := memWith(t, overfullFiles(clean))
	n := 0
	fsys.SetFault(func(string, string) error {
		if n++; n >= step {
			died = true
			return syscall.EIO
		}
		return nil
	})
	if m, err := Open(t.Context(), cfg); err == nil {
		m.giveUp()
	}
	fsys.SetFault(nil)
	cfg.FS = end(fsys)
	m := mustOpen(t, cfg)
	defer m.giveUp()
	l, ok := m.Log(testTP)
	if !ok {
		t.Error("no log")
		return died
	}
	if diff := cmp.Diff(wantFar(farOffsets), farContent(t, l)); diff != "" {
		t.Error(diff)
	}
	segments := *l.segments.Load()
	for i, s := range segments[1:] {
		if end, err := segments[i].end(); end > s.base || err != nil {
			t.Errorf("the segment before %d ends at %d, %v", s.base, end, err)
		}
	}
	return died
}

// TestSplitWithoutRoom: the log stays offline and unchanged until there is space.
func TestSplitWithoutRoom(t *testing.T) {
	files := overfullFiles(false)
	fsys, cfg := memWith(t, files)
	fsys.SetFault(func(op, name string) error {
		if op == "write" && path.Ext(name) == cleanedSuffix {
			return syscall.ENOSPC
		}
		return nil
	})
	m := mustOpen(t, cfg)
	if l, ok := m.Log(testTP); !ok || l.Usable() == nil || len(m.OfflineDirs()) != 0 {
		t.Errorf("offline directories %v", m.OfflineDirs())
	}
	m.giveUp()
	fsys.SetFault(nil)
	name := "/data/" + testTP.String() + "/" + fileName(0, logSuffix)
	if data, err := fsys.ReadFile(name); err != nil || !bytes.Equal(data, files[name]) {
		t.Errorf("%s has changed, %v", name, err)
	}
	m = mustOpen(t, cfg)
	l, _ := m.Log(testTP)
	if diff := cmp.Diff(wantFar(farOffsets), farContent(t, l)); diff != "" {
		t.Error(diff)
	}
	m.giveUp()
}

// TestPieces divides random files: the pieces contain all bytes in order, and each fits.
func TestPieces(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var list []int64
		for offset := rng.Int64N(10); len(list) < 1+rng.IntN(30); offset += 1 + rng.Int64N(1<<uint(1+rng.IntN(33))) {
			list = append(list, offset)
		}
		data := farBatches(list)
		if rng.IntN(3) == 0 {
			data = append(data, make([]byte, rng.IntN(200))...) // a torn tail
		}
		fsys, _ := memWith(t, map[string][]byte{"/data/f": data})
		f, err := fsys.OpenFile("/data/f", vfs.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pieces(f, 0, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		at, base := int64(0), int64(-1)
		for _, p := range found {
			if p.from != at || p.to < p.from || p.base <= base {
				t.Fatalf("seed %d: %+v", seed, found)
			}
			at, base = p.to, p.base
			for walk := record.Split(data[p.from:p.to]); walk.Next(); {
				if b := walk.Batch(); b.BaseOffset() < p.base || b.LastOffset()-p.base > math.MaxInt32 {
					t.Errorf("seed %d: offset %d in the piece at %d", seed, b.BaseOffset(), p.base)
				}
			}
		}
		if at != int64(len(data)) {
			t.Errorf("seed %d: %d of %d bytes", seed, at, len(data))
		}
	}
}

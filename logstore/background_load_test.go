package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// loadingRig is a broker's log directories as left by a kill.
type loadingRig struct {
	*testing.T
	mem   *vfs.Mem
	gates *vfs.Gates
	cfg   ManagerConfig
	m     *Manager

	mu     sync.Mutex // guards loaded
	loaded []TopicPartition
}

// newLoadingRig creates logs of topic t with three records each, of which the first two are flushed and replicated and
// the first one is deleted.
func newLoadingRig(t *testing.T, count int, change func(*ManagerConfig)) *loadingRig {
	t.Helper()
	c := newClock()
	r := &loadingRig{T: t, mem: vfs.NewMem(c.Now)}
	r.cfg = memConfig(r.mem, c)
	if change != nil {
		change(&r.cfg)
	}
	m := mustOpen(t, r.cfg)
	for p := range count {
		l := r.create(m, p)
		for i := range 3 {
			mustProduce(t, l, batchOf(1000, fmt.Sprint(i)))
			if i == 1 {
				l.SetHighWatermark(2)
				r.must(l.AdvanceLogStart(1), l.Flush())
			}
		}
	}
	for _, v := range m.disks {
		r.must(m.checkpointOffsets(v), m.checkpointHighWatermarks(v))
	}
	m.giveUp()
	r.mem = r.mem.Kill()
	return r
}

func (r *loadingRig) must(errs ...error) {
	r.Helper()
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
}

func (r *loadingRig) create(m *Manager, partition int) *Log {
	r.Helper()
	l, err := m.GetOrCreate(tpOf(partition), [16]byte{7}, r.cfg.Default, true)
	r.must(err)
	return l
}

func tpOf(partition int) TopicPartition { return TopicPartition{"t", int32(partition)} }

func dirOf(partition int) string { return "/data/" + tpOf(partition).String() }

// begin begins to load, with the directories of some partitions blocked, and returns when everything else is loaded.
func (r *loadingRig) begin(shut ...int) {
	r.Helper()
	r.gates = vfs.NewGates(r.mem)
	for _, p := range shut {
		r.gates.Shut(dirOf(p))
	}
	r.cfg.FS = r.gates
	r.cfg.OnLoaded = func(tp TopicPartition) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.loaded = append(r.loaded, tp)
	}
	var err error
	r.m, err = Begin(r.Context(), r.cfg)
	r.must(err)
	synctest.Wait()
}

// open unblocks a partition's directory and returns when nothing runs any more.
func (r *loadingRig) open(partition int) {
	r.gates.Open(dirOf(partition))
	synctest.Wait()
}

func (r *loadingRig) hasLoaded() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var partitions []int
	for _, tp := range r.loaded {
		partitions = append(partitions, int(tp.Partition))
	}
	return partitions
}

func (r *loadingRig) log(partition int) *Log {
	r.Helper()
	l, ok := r.m.Log(tpOf(partition))
	if !ok {
		r.Fatalf("%v has no log", tpOf(partition))
	}
	return l
}

// restart simulates a kill, and a start that loads everything.
func (r *loadingRig) restart() {
	r.Helper()
	r.m.giveUp()
	r.mem = r.mem.Kill()
	r.reopen()
}

func (r *loadingRig) reopen() {
	r.Helper()
	r.cfg.FS, r.cfg.OnLoaded = r.mem, nil
	r.m = mustOpen(r.T, r.cfg)
}

// offsets returns the start, high watermark, recovery point and end of a log.
func offsets(l *Log) [4]int64 {
	return [4]int64{l.LogStartOffset(), l.HighWatermark(), l.RecoveryPoint(), l.LogEndOffset()}
}

func TestALogServesWhileAnotherIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 2, nil)
		r.begin(1)
		mustProduce(t, r.log(0), batchOf(1000, "more"))
		if _, ok := r.m.Log(tpOf(1)); ok || !r.m.isLoading(tpOf(1)) || r.m.isLoading(tpOf(0)) {
			t.Error("the second log is not the one being loaded")
		}
		for _, isNew := range []bool{true, false} {
			if _, err := r.m.GetOrCreate(tpOf(1), [16]byte{7}, r.cfg.Default, isNew); !errors.Is(err, ErrLoading) || codeOf(err) != kerr.NotLeaderForPartition.Code {
				t.Errorf("created while it is loading: %v", err)
			}
		}
		if _, err := r.m.MoveTo(tpOf(1), "/data"); !errors.Is(err, kerr.ReplicaNotAvailable) {
			t.Errorf("moved while it is loading: %v", err)
		}
		if got := len(r.m.Dirs()[0].Logs); got != 2 {
			t.Errorf("the directory is reported with %d logs", got)
		}
		if got := r.m.Partitions(); len(got) != 2 || len(r.m.Logs()) != 1 || !slices.Equal(r.hasLoaded(), []int{0}) {
			t.Errorf("partitions %v, loaded %v", got, r.hasLoaded())
		}
		r.open(1)
		r.must(r.m.AwaitLoaded(t.Context()))
		if got := offsets(r.log(1)); got != [4]int64{1, 2, 2, 3} || !slices.Equal(r.hasLoaded(), []int{0, 1}) {
			t.Errorf("offsets %v, loaded %v", got, r.hasLoaded())
		}
		r.must(r.m.Close())
		if _, err := r.mem.Stat("/data/" + cleanFile); err != nil {
			t.Errorf("no clean-shutdown file: %v", err)
		}
	})
}

// TestCheckpointsKeepWhatIsNotLoaded: checkpoints that are written while a log is being loaded keep its entries.
func TestCheckpointsKeepWhatIsNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 2, func(cfg *ManagerConfig) { cfg.Default.Compact = true })
		r.must(writeCheckpoint(r.mem, "/data/"+cleanerFile, map[TopicPartition]int64{tpOf(0): 1, tpOf(1): 1, {"gone", 0}: 9}))
		r.begin(1)
		v := r.m.disks[0]
		mustProduce(t, r.log(0), batchOf(1000, "more"))
		r.log(0).SetHighWatermark(4)
		r.must(r.log(0).AdvanceLogStart(3), r.log(0).Flush(), r.m.setCleanedTo(r.log(0), 2))
		r.must(r.m.checkpointOffsets(v), r.m.checkpointHighWatermarks(v))
		for file, want := range map[string][2]int64{recoveryPointFile: {4, 2}, logStartFile: {3, 1}, highWatermarkFile: {4, 2}, cleanerFile: {2, 1}} {
			got, err := readCheckpoint(r.mem, "/data/"+file)
			if diff := cmp.Diff(map[TopicPartition]int64{tpOf(0): want[0], tpOf(1): want[1]}, got); err != nil || diff != "" {
				t.Errorf("%s: %v %s", file, err, diff)
			}
		}
		r.gates.Open(dirOf(1))
		r.restart()
		if got := offsets(r.log(1)); got != [4]int64{1, 2, 2, 3} {
			t.Errorf("after another kill: %v", got)
		}
		r.must(r.m.Close())
	})
}

func TestCloseWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 12, nil) // more than are loaded at the same time
		r.begin(4, 5, 6, 7, 8, 9, 10, 11)
		closed := make(chan error)
		go func() { closed <- r.m.Close() }()
		synctest.Wait()
		for p := 4; p < 12; p++ {
			r.gates.Open(dirOf(p))
		}
		r.must(<-closed)
		if _, err := r.mem.Stat("/data/" + cleanFile); err == nil {
			t.Error("there is a clean-shutdown file")
		}
		if _, err := r.m.GetOrCreate(tpOf(20), [16]byte{7}, r.cfg.Default, true); codeOf(err) != kerr.KafkaStorageError.Code {
			t.Errorf("created after Close: %v", err)
		}
		r.reopen()
		for p := range 12 {
			if got := offsets(r.log(p)); got[0] != 1 || got[3] != 3 {
				t.Errorf("%v after the next start: %v", tpOf(p), got)
			}
		}
		r.must(r.m.Close())
	})
}

// TestDeleteWhileLoading deletes a partition that is being read, and one that is still queued. Neither reappears, and
// another partition of that name is not affected by the rest of the loading.
func TestDeleteWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 10, nil)
		r.begin(0, 1, 2, 3, 4, 5, 6, 7) // 8 and 9 are queued
		r.must(r.m.Delete(tpOf(9)))
		if stored, err := readCheckpoint(r.mem, "/data/"+recoveryPointFile); err != nil || len(stored) != 9 {
			t.Errorf("recovery points are kept for %v, %v", stored, err)
		}
		deleted := make(chan error)
		go func() { deleted <- r.m.Delete(tpOf(0)) }()
		synctest.Wait()
		r.gates.Open(dirOf(0)) // the step in progress is completed
		r.must(<-deleted)
		for _, p := range []int{0, 9} {
			l := r.create(r.m, p)
			mustProduce(t, l, batchOf(1000, "new"))
		}
		for p := 1; p < 8; p++ {
			r.gates.Open(dirOf(p))
		}
		r.must(r.m.AwaitLoaded(t.Context()))
		if got := r.hasLoaded(); len(got) != 10 {
			t.Errorf("notified of %v", got)
		}
		r.must(r.m.checkpointOffsets(r.m.disks[0]), r.m.checkpointHighWatermarks(r.m.disks[0]))
		r.restart()
		for p := range 10 {
			want := [4]int64{1, 2, 2, 3}
			if p == 0 || p == 9 {
				want = [4]int64{0, 0, 0, 1}
			}
			if got := offsets(r.log(p)); got != want {
				t.Errorf("%v: %v, want %v", tpOf(p), got, want)
			}
		}
		r.must(r.m.Close())
	})
}

func TestSettingsReachWhatIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 2, nil)
		r.begin(1)
		cfg := r.cfg.Default
		cfg.MaxMessageBytes = 4711
		r.m.SetConfig("t", cfg)
		r.m.SetProducerExpiry(47 * time.Minute)
		r.open(1)
		for p := range 2 {
			l := r.log(p)
			if got := l.Config().MaxMessageBytes; got != 4711 || l.mu.producers.keep != 47*time.Minute {
				t.Errorf("%v: max.message.bytes %d, producers expire after %v", tpOf(p), got, l.mu.producers.keep)
			}
		}
		r.must(r.m.Close())
	})
}

// TestDirectoryFailsWhileLoading: one of two directories fails while one of its logs is being loaded.
func TestDirectoryFailsWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 2, func(cfg *ManagerConfig) { cfg.Dirs = []string{"/data", "/other"} })
		failed := make(chan string, 2)
		r.cfg.OnDirFailure = func(dir string, _ error) { failed <- dir }
		r.begin(0)
		if r.log(1).Dir() != "/other" {
			t.Fatalf("the other log is in %s", r.log(1).Dir())
		}
		failUnder(r.mem, "/data")
		r.open(0)
		if dir := <-failed; dir != "/data" || !slices.Equal(r.hasLoaded(), []int{1, 0}) {
			t.Errorf("%s failed, loaded %v", dir, r.hasLoaded())
		}
		r.must(r.m.AwaitLoaded(t.Context()))
		if _, err := r.m.GetOrCreate(tpOf(0), [16]byte{7}, r.cfg.Default, false); codeOf(err) != kerr.KafkaStorageError.Code {
			t.Errorf("the lost partition: %v", err)
		}
		mustProduce(t, r.log(1), batchOf(1000, "more"))
		r.must(r.m.Close())
	})
}

// TestDamageIsKnownAgain restarts with a log that is damaged below its recovery point. What follows the damage must not
// be cut by the second start either, although the first one has written the checkpoints without the log.
func TestDamageIsKnownAgain(t *testing.T) {
	for _, stop := range []string{"clean", "kill"} {
		t.Run(stop, func(t *testing.T) {
			r := newLoadingRig(t, 2, nil)
			name := dirOf(0) + "/" + fileName(0, logSuffix)
			f, err := r.mem.OpenFile(name, vfs.ReadWrite)
			r.must(err)
			_, err = f.WriteAt([]byte{0xff}, 100) // in the second batch
			r.must(err)
			size, err := f.Size()
			r.must(err, f.Close())
			r.reopen()
			for range 2 {
				if err := r.log(0).Usable(); codeOf(err) != kerr.KafkaStorageError.Code {
					t.Errorf("a damaged log: %v", err)
				}
				r.must(r.m.checkpointOffsets(r.m.disks[0]))
				if stop == "kill" {
					r.restart()
					continue
				}
				r.must(r.m.Close())
				r.reopen()
			}
			if st, err := r.mem.Stat(name); err != nil || st.Size() != size {
				t.Errorf("%s had %d bytes, now %v %v", name, size, st.Size(), err)
			}
			r.must(r.m.Close())
		})
	}
}

// TestLostTailLowersTheRecoveryPoint loses records below the recovery point. Before the log is used the lower recovery
// point is written, since what replaces those records is not flushed.
func TestLostTailLowersTheRecoveryPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 2, nil)
		r.must(writeCheckpoint(r.mem, "/data/"+recoveryPointFile, map[TopicPartition]int64{tpOf(0): 100, tpOf(1): 2}))
		r.begin(1)
		if got, err := readCheckpoint(r.mem, "/data/"+recoveryPointFile); err != nil || got[tpOf(0)] != 3 || got[tpOf(1)] != 2 {
			t.Errorf("%v %v", got, err)
		}
		r.open(1)
		r.must(r.m.Close())
	})
}

// TestMoveGoesOnWhileOthersAreLoaded: a log and its copy in another directory become available at the same time.
func TestMoveGoesOnWhileOthersAreLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 1, func(cfg *ManagerConfig) { cfg.Dirs = []string{"/data", "/other"} })
		r.reopen()
		_, err := r.m.MoveTo(tpOf(0), "/other")
		r.must(err)
		r.m.giveUp()
		r.mem = r.mem.Kill()
		var copied string
		entries, err := r.mem.ReadDir("/other")
		r.must(err)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), futureDir) {
				copied = "/other/" + e.Name()
			}
		}
		r.gates = vfs.NewGates(r.mem)
		r.gates.Shut(copied)
		r.cfg.FS = r.gates
		r.m, err = Begin(t.Context(), r.cfg)
		r.must(err)
		synctest.Wait()
		if _, ok := r.m.Log(tpOf(0)); ok {
			t.Error("the log is available without its copy")
		}
		r.gates.Open(copied)
		r.must(r.m.AwaitLoaded(t.Context()))
		if f, ok := r.m.Future(tpOf(0)); !ok || f.Dir() != "/other" || r.log(0).Dir() != "/data" {
			t.Errorf("copy %v", ok)
		}
		r.must(r.m.Close())
	})
}

// TestCleanDirectoriesAreThereAtOnce begins with one directory that was stopped cleanly and one that was not.
func TestCleanDirectoriesAreThereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 4, func(cfg *ManagerConfig) { cfg.Dirs = []string{"/data", "/other"} })
		r.must(vfs.WriteFile(r.mem, "/other/"+cleanFile, []byte(cleanContent)))
		r.gates = vfs.NewGates(r.mem)
		r.gates.Shut(dirOf(0))
		r.gates.Shut(dirOf(2))
		r.cfg.FS = r.gates
		var err error
		r.m, err = Begin(t.Context(), r.cfg)
		r.must(err)
		for p := range 4 {
			if _, ok := r.m.Log(tpOf(p)); ok != (p%2 == 1) {
				t.Errorf("%v is available: %v", tpOf(p), ok)
			}
		}
		r.gates.Open(dirOf(0))
		r.gates.Open(dirOf(2))
		r.must(r.m.AwaitLoaded(t.Context()), r.m.Close())
	})
}

// TestLoadingOrder: small logs are loaded first, and a prioritized one before them.
func TestLoadingOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 12, func(cfg *ManagerConfig) { cfg.padding = &padding{} })
		r.reopen()
		for p := range 12 {
			for range 2 * (12 - p) {
				mustProduce(t, r.log(p), batchOf(1000, "more"))
			}
		}
		r.m.giveUp()
		r.mem = r.mem.Kill()
		r.begin(11, 10, 9, 8, 7, 6, 5, 4)
		r.m.Prioritize(tpOf(0))
		r.open(4) // from here on one is loaded after the other
		if want := []int{4, 0, 3, 2, 1}; !slices.Equal(r.hasLoaded(), want) {
			t.Errorf("loaded %v, want %v", r.hasLoaded(), want)
		}
		for p := 5; p < 12; p++ {
			r.gates.Open(dirOf(p))
		}
		r.must(r.m.AwaitLoaded(t.Context()), r.m.Close())
	})
}

// TestDuplicatePartitionWhileLoading: the start is refused, although neither directory was stopped cleanly.
func TestDuplicatePartitionWhileLoading(t *testing.T) {
	r := newLoadingRig(t, 1, nil)
	other := r.cfg
	other.Dirs, other.FS = []string{"/other"}, r.mem
	m := mustOpen(t, other)
	l, err := m.GetOrCreate(tpOf(0), [16]byte{9}, r.cfg.Default, true)
	r.must(err)
	mustProduce(t, l, batchOf(1000, "v"))
	m.giveUp()
	r.cfg.Dirs, r.cfg.FS = []string{"/data", "/other"}, r.mem
	if _, err := Begin(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), "/data") || !strings.Contains(err.Error(), "/other") {
		t.Errorf("%v", err)
	}
}

// TestEveryFaultWhileLoading fails each operation of a recovery in turn. Nothing hangs, and the next start without a
// fault finds every record.
func TestEveryFaultWhileLoading(t *testing.T) {
	for step := 1; ; step++ {
		r := newLoadingRig(t, 2, nil)
		n, hit := 0, false
		r.mem.SetFault(func(string, string) error {
			if n++; n == step {
				hit = true
				return syscall.EIO
			}
			return nil
		})
		r.cfg.FS = r.mem
		m, err := Open(t.Context(), r.cfg)
		if err == nil {
			_ = m.Close()
		}
		r.mem.SetFault(nil)
		if !hit {
			break
		}
		r.mem = r.mem.Kill()
		r.reopen()
		for p := range 2 {
			if got := offsets(r.log(p)); got[0] != 1 || got[3] != 3 {
				t.Errorf("step %d, %v: %v", step, tpOf(p), got)
			}
		}
		r.must(r.m.Close())
	}
}

// TestLoadingWithTooManyOpenFiles: whichever file of a log cannot be opened for a moment, because the connections of
// clients that are being served have taken the rest, the log is loaded a little later, and its directory stays online.
func TestLoadingWithTooManyOpenFiles(t *testing.T) {
	for step, hit := 1, true; hit; step++ {
		synctest.Test(t, func(t *testing.T) {
			r := newLoadingRig(t, 1, nil)
			n := 0
			hit = false
			r.mem.SetFault(func(op, name string) error {
				if op != "open" && op != "readfile" || filepath.Dir(name) != dirOf(0) {
					return nil
				}
				if n++; n == step {
					hit = true
					return &fs.PathError{Op: op, Path: name, Err: syscall.EMFILE}
				}
				return nil
			})
			r.cfg.FS = r.mem
			m, err := Open(t.Context(), r.cfg)
			r.mem.SetFault(nil)
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			l, ok := m.Log(tpOf(0))
			if !ok || l.Usable() != nil {
				t.Errorf("step %d: there is a log: %v; offline are %v", step, ok, m.OfflineDirs())
			} else if got := offsets(l); got[0] != 1 || got[3] != 3 {
				t.Errorf("step %d: %v", step, got)
			}
			_ = m.Close()
		})
	}
}

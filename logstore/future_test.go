package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// moveRig is a manager with two directories and a log in the first.
type moveRig struct {
	*testing.T
	fs  *vfs.Mem
	now *clock
	cfg ManagerConfig
	m   *Manager
	l   *Log
	n   int // number of records appended
}

func newMoveRig(t *testing.T) *moveRig {
	clock := newClock()
	x := &moveRig{T: t, fs: vfs.NewMem(clock.Now), now: clock}
	x.cfg = memConfig(x.fs, clock)
	x.cfg.Dirs = []string{"/a", "/b"}
	x.cfg.Default.SegmentBytes = 1000
	x.m = mustOpen(t, x.cfg)
	x.l = mustCreate(t, x.m)
	if x.l.Dir() != "/a" {
		t.Fatalf("the log is in %s", x.l.Dir())
	}
	return x
}

func (x *moveRig) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// append appends records in a leader epoch and marks them as replicated.
func (x *moveRig) append(count int, epoch int32) {
	x.Helper()
	for range count {
		b := batchOf(1_790_000_000_000+int64(x.n), fmt.Sprintf("value %d %s", x.n, strings.Repeat("x", 100))).MustBuild()
		_, err := x.l.AppendLeader(b, LeaderAppend{LeaderEpoch: epoch, ProduceVersion: 9})
		x.must(err)
		x.l.SetHighWatermark(x.l.LogEndOffset())
		x.n++
	}
}

// dirs returns the directories of partitions.
func (x *moveRig) dirs() []string {
	x.Helper()
	var dirs []string
	for _, dir := range x.cfg.Dirs {
		entries, err := x.fs.ReadDir(dir)
		x.must(err)
		for _, e := range entries {
			if e.IsDir() {
				dirs = append(dirs, filepath.Join(dir, e.Name()))
			}
		}
	}
	return dirs
}

// fill copies until the copy has caught up.
func fill(f, of *Log) error {
	buf := make([]byte, 0, 700)
	for {
		n, grown, err := f.CatchUp(of, buf)
		if n == 0 || err != nil {
			return err
		}
		buf = grown
	}
}

// values returns the values of all records of a log.
func values(t testing.TB, l *Log) []string {
	t.Helper()
	var got []string
	for _, b := range readAll(t, l, l.LogEndOffset()) {
		err := b.Records(func(r *record.Record) error {
			got = append(got, fmt.Sprintf("%d %s", r.Offset, r.Value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// move does a whole move.
func (x *moveRig) move(dir string) error {
	f, err := x.m.MoveTo(testTP, dir)
	if err != nil || f == nil {
		return err
	}
	if err := fill(f, x.l); err != nil {
		return err
	}
	l, err := x.m.Replace(testTP)
	if err == nil {
		x.l = l
	}
	return err
}

func TestMoveToAnotherDirectory(t *testing.T) {
	x := newMoveRig(t)
	x.append(30, 3)
	x.must(x.l.AdvanceLogStart(5))
	f, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	x.must(fill(f, x.l))
	x.append(10, 4)
	x.must(x.l.TruncateTo(37)) // both records that the copy has not got yet and some that it has
	x.must(fill(f, x.l))
	x.must(x.l.TruncateTo(35))
	x.append(3, 6)
	x.must(x.l.AdvanceLogStart(12))
	x.must(x.l.AssignEpochStart(8, x.l.LogEndOffset()))
	if again, err := x.m.MoveTo(testTP, "/b"); again != f || err != nil {
		t.Errorf("asked again, the copy is %p, %v; want %p", again, err, f)
	}
	dirs := x.m.Dirs()
	if b := dirs[1].Logs; len(b) != 1 || !b[0].Future || b[0].OffsetLag != 1 {
		t.Errorf("the other directory has %+v", b)
	}
	x.must(fill(f, x.l))
	want := values(t, x.l)
	old := x.l
	x.l, err = x.m.Replace(testTP)
	x.must(err)
	if got, _ := x.m.Log(testTP); got != x.l || x.l != f || x.l.Dir() != "/b" {
		t.Error("the copy has not taken the log's place")
	}
	if _, err := produce(old, batchOf(1, "v").MustBuild()); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("the replaced log accepts records: %v", err)
	}
	if epoch, _ := x.l.LatestEpoch(); epoch != 8 || x.l.TopicID() != [16]byte{7} {
		t.Errorf("latest epoch %d, topic id %x", epoch, x.l.TopicID())
	}
	for range 2 { // and after a restart
		if got := values(t, x.l); !slices.Equal(got, want) || x.l.LogStartOffset() != 12 || x.l.HighWatermark() != 38 {
			t.Errorf("start %d, high watermark %d, records %q; want %q", x.l.LogStartOffset(), x.l.HighWatermark(), got, want)
		}
		x.must(x.m.Close())
		x.m = mustOpen(t, x.cfg)
		x.l, _ = x.m.Log(testTP)
	}
	if dirs := x.dirs(); slices.Contains(dirs, "/a/t-0") || !slices.Contains(dirs, "/b/t-0") {
		t.Errorf("directories %v", dirs)
	}
}

// TestMoveOfALogThatStartsInsideABatch: records are deleted up to the middle of a batch, which is copied whole.
func TestMoveOfALogThatStartsInsideABatch(t *testing.T) {
	x := newMoveRig(t)
	b := batchOf(1_790_000_000_000, "a", "b", "c").MustBuild()
	_, err := x.l.AppendLeader(b, LeaderAppend{ProduceVersion: 9})
	x.must(err)
	x.l.SetHighWatermark(3)
	x.must(x.l.AdvanceLogStart(2))
	want := values(t, x.l)
	x.must(x.move("/b"))
	if got := values(t, x.l); !slices.Equal(got, want) || x.l.LogStartOffset() != 2 || x.l.Dir() != "/b" {
		t.Errorf("the log in %s starts at %d with %q, want %q", x.l.Dir(), x.l.LogStartOffset(), got, want)
	}
}

func TestMoveRefused(t *testing.T) {
	x := newMoveRig(t)
	long := TopicPartition{strings.Repeat("x", 220), 0}
	for _, c := range []struct {
		tp   TopicPartition
		dir  string
		want error
	}{
		{testTP, "/nowhere", kerr.LogDirNotFound},
		{testTP, "b", kerr.LogDirNotFound},
		{TopicPartition{"u", 0}, "/b", kerr.ReplicaNotAvailable},
		{long, "/b", kerr.InvalidTopicException},
		{testTP, "/a", nil},
	} {
		if f, err := x.m.MoveTo(c.tp, c.dir); f != nil || !errors.Is(err, c.want) {
			t.Errorf("%v to %s: %v, want %v", c.tp, c.dir, err, c.want)
		}
	}
	l, err := x.m.GetOrCreate(TopicPartition{"u", 0}, [16]byte{8}, x.cfg.Default, true)
	x.must(err)
	if l.Dir() != "/b" {
		t.Errorf("the log is in %s, but /b was requested", l.Dir())
	}
	failUnder(x.fs, "/b")
	x.m.Dirs()
	if _, err := x.m.MoveTo(testTP, "/b"); !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("to a failed directory: %v", err)
	}
}

// TestMoveGivenUp requests a move to the directory where the log already is, and deletes partitions that are being
// moved.
func TestMoveGivenUp(t *testing.T) {
	x := newMoveRig(t)
	x.append(30, 3)
	_, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	if f, err := x.m.MoveTo(testTP, "/a"); f != nil || err != nil {
		t.Errorf("to the directory where it is: %v, %v", f, err)
	}
	if _, ok := x.m.Future(testTP); ok {
		t.Error("there is still a copy")
	}
	f, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	x.must(fill(f, x.l))
	x.must(x.m.Delete(testTP))
	if _, ok := x.m.Future(testTP); ok {
		t.Error("the copy of a deleted partition exists")
	}
	for _, dir := range x.dirs() {
		if strings.Contains(dir, "t-0") && !strings.HasSuffix(dir, deletedDir) {
			t.Errorf("%s is left over", dir)
		}
	}
	x.must(x.m.Close())
}

// TestMoveGoesOnAfterAStart: a start finds a copy, complete or ahead of a log that has lost its tail.
func TestMoveGoesOnAfterAStart(t *testing.T) {
	for name, stop := range map[string]func(*moveRig){
		"clean stop": func(x *moveRig) { x.must(x.m.Close()) },
		"kill":       func(x *moveRig) { x.fs = x.fs.Kill() },
		"power cut":  func(x *moveRig) { x.fs = x.fs.Crash(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			x := newMoveRig(t)
			x.append(30, 3)
			x.must(x.l.Flush())
			f, err := x.m.MoveTo(testTP, "/b")
			x.must(err)
			x.append(5, 4)
			x.must(fill(f, x.l))
			x.must(f.Flush())
			stop(x)
			x.cfg.FS = x.fs
			x.m = mustOpen(t, x.cfg)
			x.l, _ = x.m.Log(testTP)
			f, ok := x.m.Future(testTP)
			if !ok || x.l.Dir() != "/a" || f.Dir() != "/b" || x.l.LogEndOffset() < 30 {
				t.Fatalf("log %v, copy %v", x.l, f)
			}
			x.must(fill(f, x.l))
			want := values(t, x.l)
			x.l, err = x.m.Replace(testTP)
			x.must(err)
			if got := values(t, x.l); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			x.must(x.m.Close())
		})
	}
}

// TestMoveKilledBetweenTheRenames: a start finds two directories for one partition, and completes the move.
func TestMoveKilledBetweenTheRenames(t *testing.T) {
	x := newMoveRig(t)
	x.append(12, 3)
	want := values(t, x.l)
	x.now.now = x.now.now.Add(time.Second)
	x.fs.SetFault(func(op, name string) error {
		if op == "rename" && name == "/a/t-0" {
			return errors.New("killed")
		}
		return nil
	})
	x.must(x.move("/b"))
	x.fs = x.fs.Kill()
	x.cfg.FS = x.fs
	if dirs := x.dirs(); !slices.Equal(dirs, []string{"/a/t-0", "/b/t-0"}) {
		t.Fatalf("after the kill there are %v", dirs)
	}
	x.m = mustOpen(t, x.cfg)
	x.l, _ = x.m.Log(testTP)
	if got := values(t, x.l); !slices.Equal(got, want) || x.l.Dir() != "/b" {
		t.Errorf("in %s is %q, want %q", x.l.Dir(), got, want)
	}
	x.must(x.m.Close())
	if dirs := x.dirs(); slices.Contains(dirs, "/a/t-0") {
		t.Errorf("left over: %v", dirs)
	}
}

// TestRenamesOfAMoveFollowEachOther: between the two renames there is only what makes the first one durable. Apache
// Kafka does not start on what a kill in between leaves.
func TestRenamesOfAMoveFollowEachOther(t *testing.T) {
	x := newMoveRig(t)
	x.append(12, 3)
	x.must(x.m.setCleanedTo(x.l, 5))
	var calls []string
	x.fs.SetFault(func(op, name string) error {
		calls = append(calls, op+" "+name)
		return nil
	})
	x.must(x.move("/b"))
	from := slices.IndexFunc(calls, func(c string) bool { return strings.HasPrefix(c, "rename /b/t-0.") && strings.HasSuffix(c, futureDir) })
	to := slices.Index(calls, "rename /a/t-0")
	if from < 0 || to < 0 || !slices.Equal(calls[from+1:to], []string{"syncdir /b"}) {
		t.Errorf("%d to %d: %q", from, to, calls)
	}
	if cleaned, ok := x.m.cleanedTo(x.l); cleaned != 5 || !ok || x.l.Dir() != "/b" {
		t.Errorf("in %s it is compacted up to %d, %v", x.l.Dir(), cleaned, ok)
	}
	x.must(x.m.Close())
}

// TestCopyThatIsDroppedLeavesNothing: a dropped copy leaves nothing behind that a log created later would find.
func TestCopyThatIsDroppedLeavesNothing(t *testing.T) {
	x := newMoveRig(t)
	x.append(12, 3)
	x.must(x.m.setCleanedTo(x.l, 5))
	f, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	x.must(fill(f, x.l))
	fail := errors.New("no")
	x.fs.SetFault(func(op, name string) error {
		if op == "rename" && strings.HasSuffix(name, futureDir) {
			return fail
		}
		return nil
	})
	if _, err := x.m.Replace(testTP); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	x.fs.SetFault(nil)
	x.m.volumeOf(f).failed.Store(false)
	x.must(x.m.DropFuture(testTP))
	if _, ok := x.m.volumeOf(f).checkpoints.mu.cleaned[testTP]; ok {
		t.Error("the copy's entry remains in the cleaner's checkpoint")
	}
	x.must(x.m.Close())
}

// TestMoveCrashAtEachStep fails the disk at each call of a move in turn, while records are appended. Whatever a power
// failure or a kill leaves, a start finds the log with all that was flushed, or after a kill all that was written, and
// the move can be repeated.
func TestMoveCrashAtEachStep(t *testing.T) {
	for _, end := range []struct {
		name string
		of   func(*vfs.Mem) *vfs.Mem
		kept func(flushed, written []string) []string // what must be kept at least
	}{
		{"kill", (*vfs.Mem).Kill, func(_, written []string) []string { return written }},
		{"power cut", func(fsys *vfs.Mem) *vfs.Mem { return fsys.Crash(nil) }, func(flushed, _ []string) []string { return flushed }},
	} {
		t.Run(end.name, func(t *testing.T) {
			for n, more := 1, true; more; n++ {
				more = moveAndDie(t, n, end.of, end.kept)
			}
		})
	}
}

// moveAndDie fails the disk at the nth call of a move, and checks what a start finds. It returns false if there are
// fewer calls.
func moveAndDie(t *testing.T, n int, end func(*vfs.Mem) *vfs.Mem, kept func(flushed, written []string) []string) bool {
	t.Helper()
	x := newMoveRig(t)
	x.append(12, 3)
	x.must(x.l.Flush())
	flushed := values(t, x.l)
	calls := dieAt(x.fs, n)
	written, err := x.moveUnderWrites("/b", flushed)
	done := *calls < n
	if done && err != nil {
		t.Fatal(err)
	}
	x.m.giveUp()
	x.fs = end(x.fs)
	x.cfg.FS = x.fs
	x.m = mustOpen(t, x.cfg)
	var ok bool
	if x.l, ok = x.m.Log(testTP); !ok {
		t.Fatalf("call %d: the log is missing: %v", n, x.dirs())
	}
	got, least := values(t, x.l), kept(flushed, written)
	if len(got) < len(least) || !slices.Equal(got[:len(least)], least) || len(got) > len(written) || !slices.Equal(got, written[:len(got)]) {
		t.Fatalf("call %d: %q, want at least %q and at most %q", n, got, least, written)
	}
	x.n = len(got)
	x.append(3, 4)
	want := values(t, x.l)
	x.must(x.move("/b"))
	if got := values(t, x.l); !slices.Equal(got, want) || x.l.Dir() != "/b" {
		t.Fatalf("call %d, moved again: %q in %s, want %q", n, got, x.l.Dir(), want)
	}
	x.must(x.m.Close())
	if done {
		t.Logf("%d calls", n-1)
	}
	return !done
}

// moveUnderWrites moves the log while a record is written after each copied part. It returns what is in the log,
// including the last record only if its write succeeded.
func (x *moveRig) moveUnderWrites(dir string, before []string) (written []string, err error) {
	written = before
	f, err := x.m.MoveTo(testTP, dir)
	if err != nil {
		return written, err
	}
	buf := make([]byte, 0, 300)
	for range 20 {
		copied := 0
		if copied, buf, err = f.CatchUp(x.l, buf); err != nil {
			return written, err
		}
		if x.n < 18 {
			value := fmt.Sprintf("value %d %s", x.n, strings.Repeat("x", 100))
			_, err := x.l.AppendLeader(batchOf(1_790_000_000_000+int64(x.n), value).MustBuild(), LeaderAppend{LeaderEpoch: 3, ProduceVersion: 9})
			if err != nil {
				return written, err
			}
			written = append(slices.Clone(written), fmt.Sprintf("%d %s", x.n, value))
			x.l.SetHighWatermark(x.l.LogEndOffset())
			x.n++
		} else if copied == 0 {
			break
		}
	}
	l, err := x.m.Replace(testTP)
	if err == nil {
		x.l = l
	}
	return written, err
}

// TestProducerExpiryReachesTheCopy: a changed expiration also applies to a copy that is being made, which will replace
// the log.
func TestProducerExpiryReachesTheCopy(t *testing.T) {
	x := newMoveRig(t)
	x.append(3, 1)
	f, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	x.m.SetProducerExpiry(47 * time.Minute)
	for _, l := range []*Log{x.l, f} {
		if keep := l.mu.producers.keep; keep != 47*time.Minute {
			t.Errorf("the log in %s expires producers after %v", l.Dir(), keep)
		}
	}
	x.must(x.move("/b"))
	if keep := x.l.mu.producers.keep; keep != 47*time.Minute {
		t.Errorf("the moved log expires producers after %v", keep)
	}
	x.must(x.m.Close())
}

// TestSettingsThatChangeWhileALogIsCreated: settings that change while a log, or a copy of one, is being created apply
// to it too.
func TestSettingsThatChangeWhileALogIsCreated(t *testing.T) {
	x := newMoveRig(t)
	changed, once := x.cfg.Default, false
	changed.RetentionTime = 47 * time.Minute
	change := func(in string) {
		once = false
		x.fs.SetFault(func(op, name string) error {
			if op == "open" && strings.HasPrefix(name, in) && strings.HasSuffix(name, logSuffix) && !once {
				once = true
				x.m.SetConfig(testTP.Topic, changed)
				x.m.SetProducerExpiry(changed.RetentionTime)
			}
			return nil
		})
	}
	change("/b/t-0.")
	f, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	if !once || f.Config() != changed || f.mu.producers.keep != changed.RetentionTime {
		t.Errorf("the copy keeps records for %v and producers for %v", f.Config().RetentionTime, f.mu.producers.keep)
	}
	changed.RetentionTime++
	change("/a/t-1")
	l, err := x.m.GetOrCreate(TopicPartition{testTP.Topic, 1}, [16]byte{7}, x.cfg.Default, true)
	x.must(err)
	if !once || l.mu.producers.keep != changed.RetentionTime {
		t.Errorf("a new log keeps producers for %v", l.mu.producers.keep)
	}
	x.must(x.m.Close())
}

// TestDroppedWhileMoved: dropped segments of a log and of its copy are removed wherever their directories have been
// moved since.
func TestDroppedWhileMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newMoveRig(t)
		x.must(x.m.Close())
		var lines *logLines
		x.cfg.Logger, lines = newLogLines()
		x.m = mustOpen(t, x.cfg)
		x.m.Start()
		defer func() { x.must(x.m.Close()) }()
		x.l, _ = x.m.Log(testTP)
		seq := int32(0)
		produce := func(batches int) {
			t.Helper()
			for range batches {
				mustProduce(t, x.l, sequenced(7, 0, seq, 20))
				seq += 20
			}
			x.l.SetHighWatermark(x.l.LogEndOffset())
		}
		produce(30)
		x.must(x.l.AdvanceLogStart(200))
		f, err := x.m.MoveTo(testTP, "/b")
		x.must(err)
		x.must(fill(f, x.l))
		x.must(x.l.AdvanceLogStart(400))
		_, err = x.l.Retain()
		x.must(err)
		x.must(fill(f, x.l))
		_, err = f.Retain()
		x.must(err)
		if n := len(*f.segments.Load()); n < 2 {
			t.Fatalf("%d segments", n)
		}
		x.l, err = x.m.Replace(testTP)
		x.must(err)
		left := func() (names []string) {
			for _, dir := range x.dirs() {
				entries, err := x.fs.ReadDir(dir)
				x.must(err)
				for _, e := range entries {
					if strings.HasSuffix(e.Name(), snapshotSuffix+deletedSuffix) || strings.HasSuffix(e.Name(), logSuffix+deletedSuffix) {
						names = append(names, filepath.Join(dir, e.Name()))
					}
				}
			}
			return names
		}
		if names := strings.Join(left(), " "); !strings.Contains(names, "/b/t-0/") || !strings.Contains(names, snapshotSuffix) {
			t.Fatalf("dropped, but still there: %s", names)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if names := left(); len(names) > 0 {
			t.Errorf("never removed: %v", names)
		}
		if text := lines.String(); strings.Contains(text, "level=warning") {
			t.Error(text)
		}
	})
}

// TestMoveWithoutCheckpoints: if the copy's checkpoints cannot be written, the log stays where it is.
func TestMoveWithoutCheckpoints(t *testing.T) {
	x := newMoveRig(t)
	x.append(12, 3)
	x.must(x.l.Flush())
	want := values(t, x.l)
	f, err := x.m.MoveTo(testTP, "/b")
	x.must(err)
	x.must(fill(f, x.l))
	x.fs.SetFault(func(_, name string) error {
		if filepath.Dir(name) == "/b" && strings.HasSuffix(name, ".tmp") {
			return errDied
		}
		return nil
	})
	if _, err = x.m.Replace(testTP); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatal(err)
	}
	if l, ok := x.m.Log(testTP); !ok || l != x.l || l.Dir() != "/a" {
		t.Fatalf("the log is %v", l)
	}
	x.m.giveUp()
	x.fs = x.fs.Crash(nil)
	x.cfg.FS = x.fs
	x.m = mustOpen(t, x.cfg)
	l, ok := x.m.Log(testTP)
	if !ok || l.Dir() != "/a" {
		t.Fatalf("the log is missing: %v", x.dirs())
	}
	if got := values(t, l); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	x.must(x.m.Close())
}

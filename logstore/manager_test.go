package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestParseDir(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for name, want := range map[string]struct {
		tp   TopicPartition
		kind dirKind
	}{
		"topic-0":                       {TopicPartition{"topic", 0}, replicaDir},
		"a-b.c_d-17":                    {TopicPartition{"a-b.c_d", 17}, replicaDir},
		"t-0." + id + "-delete":         {TopicPartition{"t", 0}, goneDir},
		"a.b-3." + id + "-delete":       {TopicPartition{"a.b", 3}, goneDir},
		"t-0." + id + "-future":         {TopicPartition{"t", 0}, futureOne},
		"t-0." + id + "-stray":          {TopicPartition{"t", 0}, otherDir},
		"__cluster_metadata-0":          {TopicPartition{}, otherDir},
		"remote-log-index-cache":        {TopicPartition{}, otherDir},
		"lost+found":                    {TopicPartition{}, otherDir},
		"foo":                           {TopicPartition{}, unknownDir},
		"foo-":                          {TopicPartition{}, unknownDir},
		"foo-x":                         {TopicPartition{}, unknownDir},
		"foo--1":                        {TopicPartition{"foo-", 1}, replicaDir},
		"-0":                            {TopicPartition{}, unknownDir},
		"t-0.short-delete":              {TopicPartition{}, unknownDir},
		"t-99999999999":                 {TopicPartition{}, unknownDir},
		"t-delete":                      {TopicPartition{}, unknownDir},
		"some-topic-0." + id + "-other": {TopicPartition{}, unknownDir},
	} {
		if tp, kind := parseDir(name); kind != want.kind || kind != unknownDir && kind != otherDir && tp != want.tp {
			t.Errorf("%s: %v, %d; want %v, %d", name, tp, kind, want.tp, want.kind)
		}
	}
	long := deletedDirName(TopicPartition{strings.Repeat("x", 249), 12})
	if tp, kind := parseDir(long); len(long) > 255 || kind != goneDir || tp.Partition != 12 {
		t.Errorf("%s (%d characters): %v, %d", long, len(long), tp, kind)
	}
}

func TestCheckpointFormat(t *testing.T) {
	fsys := vfs.NewMem(time.Now)
	if err := fsys.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	want := map[TopicPartition]int64{{"b", 1}: 7, {"a", 10}: 0}
	if err := writeCheckpoint(fsys, "/d/c", want); err != nil {
		t.Fatal(err)
	}
	if text, _ := fsys.ReadFile("/d/c"); string(text) != "0\n2\na 10 0\nb 1 7\n" {
		t.Errorf("%q", text)
	}
	if got, err := readCheckpoint(fsys, "/d/c"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := readCheckpoint(fsys, "/d/none"); err != nil || len(got) != 0 {
		t.Errorf("missing file: %v, %v", got, err)
	}
	for text, ok := range map[string]bool{"": true, "0\n0\n": true, "1\n0\n": false, "0\n2\na 1 2\n": false, "0\n1\na 1\n": false,
		"0\n1\na x 1\n": false, "0\n1\na 1 x\n": false, "0": false, "0\nx\n": false} {
		if err := vfs.WriteFile(fsys, "/d/c", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := readCheckpoint(fsys, "/d/c"); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMetaProperties(t *testing.T) {
	c := newClock()
	for _, tt := range []struct {
		name    string
		text    string
		problem []string // parts of the error
	}{
		{"none", "", nil},
		{"ours", "#\n#Sun Nov 29 12:00:00 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=test\n", nil},
		{"other order, without an id", "cluster.id=test\nversion=0\n", nil},
		{"other cluster", "version=0\nbroker.id=1\ncluster.id=elsewhere\n", []string{"/data/meta.properties", "elsewhere", "test", "/cluster/id", "log.dirs"}},
		{"other broker", "version=0\nbroker.id=7\ncluster.id=test\n", []string{"/data/meta.properties", "broker.id 7", "broker.id is 1", "set broker.id to 7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := vfs.NewMem(c.Now)
			if err := fsys.MkdirAll("/data"); err != nil {
				t.Fatal(err)
			}
			if tt.text != "" {
				if err := vfs.WriteFile(fsys, "/data/meta.properties", []byte(tt.text)); err != nil {
					t.Fatal(err)
				}
			}
			m, err := Open(t.Context(), memConfig(fsys, c))
			if err == nil {
				defer m.Close()
			}
			if errors.Is(err, ErrWrongMeta) != (tt.problem != nil) {
				t.Fatalf("%v", err)
			}
			for _, part := range tt.problem {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
			got, ok, readErr := ReadMeta(fsys, "/data")
			if tt.problem == nil && (!ok || readErr != nil || got != (Meta{1, "test"})) {
				t.Errorf("stored: %+v, %v, %v", got, ok, readErr)
			}
			if text, _ := fsys.ReadFile("/data/meta.properties"); tt.problem != nil && string(text) != tt.text {
				t.Errorf("rewritten: %s", text)
			}
		})
	}
}

func TestStoredBrokerID(t *testing.T) {
	fsys := vfs.NewMem(time.Now)
	for dir, id := range map[string]int32{"/a": 3, "/b": 3, "/c": 4} {
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := writeMeta(fsys, dir, Meta{id, "x"}, time.UnixMilli(0)); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := StoredBrokerID(fsys, []string{"/none"}); id != -1 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
	if id, err := StoredBrokerID(fsys, []string{"/none", "/a", "/b"}); id != 3 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
	if _, err := StoredBrokerID(fsys, []string{"/a", "/c"}); err == nil || !strings.Contains(err.Error(), "/a belongs to broker 3 and /c to broker 4") {
		t.Errorf("%v", err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	cfg := DefaultManagerConfig()
	cfg.Dirs, cfg.ClusterID, cfg.Logger = []string{t.TempDir()}, "test", testlog.Quiet()
	m := mustOpen(t, cfg)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), cfg.Dirs[0]) {
		t.Errorf("opened twice: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = mustOpen(t, cfg)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dirs[0], lockFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock file is left over: %v", err)
	}
}

// TestFreshDirectory: a new directory gets the files that Apache Kafka creates there. The recovery points say from the
// beginning that nothing was flushed.
func TestFreshDirectory(t *testing.T) {
	cfg := DefaultManagerConfig()
	dir := t.TempDir()
	cfg.Dirs, cfg.ClusterID, cfg.BrokerID, cfg.Logger = []string{dir}, "test", 1, testlog.Quiet()
	m := mustOpen(t, cfg)
	l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	sizes := func() map[string]int64 {
		sizes := make(map[string]int64)
		for name, data := range listing(t, dir) {
			sizes[name] = int64(len(data))
		}
		delete(sizes, metaFile)
		return sizes
	}
	want := map[string]int64{lockFile: 0, recoveryPointFile: 4, logStartFile: 0, cleanerFile: 0,
		"t-0/00000000000000000000.log": 0, "t-0/00000000000000000000.index": 10485760, "t-0/00000000000000000000.timeindex": 10485756,
		"t-0/leader-epoch-checkpoint": 0, "t-0/partition.metadata": 43}
	if diff := cmp.Diff(want, sizes()); diff != "" {
		t.Error(diff)
	}
	mustProduce(t, l, batchOf(1000, "v"))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	delete(want, lockFile)
	for name, size := range map[string]int64{"t-0/00000000000000000000.log": 70, "t-0/00000000000000000000.index": 0,
		"t-0/00000000000000000000.timeindex": 12, "t-0/leader-epoch-checkpoint": 8, "t-0/00000000000000000001.snapshot": 10,
		recoveryPointFile: 10, highWatermarkFile: 10, logStartFile: 4, cleanFile: 30} {
		want[name] = size
	}
	if diff := cmp.Diff(want, sizes()); diff != "" {
		t.Error(diff)
	}
}

func TestForeignDirectoryStopsTheStart(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	if err := fsys.MkdirAll("/data/foo"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), memConfig(fsys, c)); err == nil || !strings.Contains(err.Error(), "/data/foo") {
		t.Errorf("%v", err)
	}
}

// TestLinkedPartition: a partition's directory may be a symbolic link to a directory elsewhere, as in Apache Kafka.
func TestLinkedPartition(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, "t-0")); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.Logger = []string{dir}, 1, testlog.To(t)
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	if found := m.Partitions(); len(found) != 1 || found[0] != (TopicPartition{"t", 0}) {
		t.Errorf("there are %v", found)
	}
	if r, err := InspectDir(dir); r.Partitions != 1 || err != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSamePartitionTwice(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	for _, dir := range []string{"/a", "/b"} {
		cfg.Dirs = []string{dir}
		m := mustOpen(t, cfg)
		if _, err := m.GetOrCreate(testTP, [16]byte{dir[1]}, cfg.Default, true); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Dirs = []string{"/a", "/b"}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/a") || !strings.Contains(err.Error(), "/b") {
		t.Errorf("%v", err)
	}
}

// failUnder makes every operation below a directory fail from now on.
func failUnder(fsys *vfs.Mem, dir string) {
	fsys.SetFault(func(_, name string) error {
		if strings.HasPrefix(name, dir) {
			return syscall.EIO
		}
		return nil
	})
}

func TestOneDirectoryFails(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Dirs = []string{"/a", "/b"}
	var lines *logLines
	cfg.Logger, lines = newLogLines()
	var mu sync.Mutex
	var failed []string
	cfg.OnDirFailure = func(dir string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, dir)
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("reported as %v", err)
		}
	}
	m := mustOpen(t, cfg)
	logs := map[string]*Log{}
	for p := range int32(4) {
		l, err := m.GetOrCreate(TopicPartition{"t", p}, [16]byte{1}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		mustProduce(t, l, batchOf(1000, "v"))
		logs[l.Dir()] = l
	}
	for _, info := range m.Dirs() {
		if !info.Online || len(info.Logs) != 2 || info.Logs[0].Size != 70 {
			t.Errorf("%+v", info)
		}
	}
	failUnder(fsys, "/a")
	for range 2 {
		info, err := produce(logs["/a"], batchOf(1000, "v").MustBuild())
		if codeOf(err) != 56 || info.LogStartOffset != -1 {
			t.Errorf("append in the failed directory: %v, %+v", err, info)
		}
	}
	if _, err := logs["/a"].Read(0, 100, 1, true); codeOf(err) != 56 {
		t.Errorf("read in the failed directory: %v", err)
	}
	if _, _, _, _, err := logs["/a"].OffsetForTime(0); codeOf(err) != 56 {
		t.Errorf("look up a time in the failed directory: %v", err)
	}
	mustProduce(t, logs["/b"], batchOf(1000, "v"))
	if got := m.OfflineDirs(); !cmp.Equal(got, []string{"/a"}) || len(m.Logs()) != 2 {
		t.Errorf("offline: %v, logs online: %d", got, len(m.Logs()))
	}
	if info := m.Dirs()[0]; info.Online || info.Usable != -1 {
		t.Errorf("%+v", info)
	}
	if l, err := m.GetOrCreate(TopicPartition{"new", 0}, [16]byte{2}, cfg.Default, true); err != nil || l.Dir() != "/b" {
		t.Errorf("new log: %v", err)
	}
	if _, err := m.GetOrCreate(TopicPartition{"old", 0}, [16]byte{2}, cfg.Default, false); codeOf(err) != 56 {
		t.Errorf("a log that may be in the failed directory: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if !cmp.Equal(failed, []string{"/a"}) {
		t.Errorf("reported: %v", failed)
	}
	lines.want(t, "level=error", "log directory failed and is offline", "dir=/a", "append in /a", "input/output error")
	fsys.SetFault(nil)
	for dir, want := range map[string]bool{"/a": false, "/b": true} {
		if _, err := fsys.Stat(dir + "/" + cleanFile); (err == nil) != want {
			t.Errorf("%s: clean-shutdown file: %v", dir, err)
		}
	}
}

// TestDirectoryFailsAtStart: a directory that cannot be used at the start is offline, and the others are used; without
// any the start fails.
func TestDirectoryFailsAtStart(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Dirs = []string{"/a", "/b"}
	failUnder(fsys, "/a")
	m := mustOpen(t, cfg)
	if l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true); err != nil || l.Dir() != "/b" {
		t.Errorf("%v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	failUnder(fsys, "/")
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrNoDirs) {
		t.Errorf("%v", err)
	}
}

// TestDiskFull: a full disk takes the directory offline, and what was acknowledged is there when there is space again.
func TestDiskFull(t *testing.T) {
	x := newModelled(t, 1)
	for range 20 {
		x.append()
	}
	x.fs.SetFault(func(op, _ string) error {
		if op == "write" || op == "truncate" {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := produce(x.l, batchOf(1000, "v").MustBuild()); codeOf(err) != 56 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	_ = x.m.Close()
	x.fs = x.fs.Kill()
	x.open()
	x.check()
	x.append()
	x.must(x.m.Close())
}

func TestDamageIsNotCut(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	m := mustOpen(t, cfg)
	l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustProduce(t, l, batchOf(1000, "v"))
	}
	if err := errors.Join(l.Flush(), m.checkpointOffsets(m.disks[0])); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.OpenFile("/data/t-0/00000000000000000000.log", vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 100); err != nil { // in the second batch
		t.Fatal(err)
	}
	cfg.FS = fsys.Kill()
	var lines *logLines
	cfg.Logger, lines = newLogLines()
	m = mustOpen(t, cfg)
	defer m.Close()
	l, ok := m.Log(testTP)
	if !ok {
		t.Fatal("the log is unknown")
	}
	lines.want(t, "level=error", "log is damaged and stays offline", "topic=t", "partition=0", "/data/t-0/00000000000000000000.log at position 70, offset 1")
	if _, err := produce(l, batchOf(1000, "v").MustBuild()); codeOf(err) != 56 {
		t.Errorf("append: %v", err)
	}
	if _, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, false); codeOf(err) != 56 {
		t.Errorf("get: %v", err)
	}
	if st, err := cfg.FS.Stat("/data/t-0/00000000000000000000.log"); err != nil || st.Size() != 210 {
		t.Errorf("the file was rewritten: %v, %v", st, err)
	}
	if other, err := m.GetOrCreate(TopicPartition{"u", 0}, [16]byte{2}, cfg.Default, true); err != nil {
		t.Errorf("another log: %v", err)
	} else {
		mustProduce(t, other, batchOf(1000, "v"))
	}
}

func TestTopicID(t *testing.T) {
	l, _ := newTestLog(t, nil)
	if err := l.SetTopicID([16]byte{7}); err != nil {
		t.Errorf("the same id: %v", err)
	}
	if err := l.SetTopicID([16]byte{8}); !errors.Is(err, kerr.InconsistentTopicID) {
		t.Errorf("another id: %v", err)
	}
	if l.TopicID() != [16]byte{7} {
		t.Errorf("topic id %x", l.TopicID())
	}
}

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		fsys := vfs.NewMem(c.Now)
		cfg := memConfig(fsys, c)
		cfg.SegmentDeleteDelay = time.Minute
		m := mustOpen(t, cfg)
		m.Start()
		l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		mustProduce(t, l, batchOf(1000, "v"))
		l.SetHighWatermark(1)
		held, err := l.Read(0, 1000, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(m.Delete(testTP), m.Delete(testTP)); err != nil {
			t.Fatal(err)
		}
		if data, err := held.Append(nil); err != nil || len(data) != 70 {
			t.Errorf("what was read has changed: %d, %v", len(data), err)
		}
		held.Close()
		if _, ok := m.Log(testTP); ok {
			t.Error("the log is still there")
		}
		if _, err := l.Read(0, 1000, 1, true); codeOf(err) != 56 {
			t.Errorf("read of a deleted log: %v", err)
		}
		if _, err := produce(l, batchOf(1000, "v").MustBuild()); codeOf(err) != 56 {
			t.Errorf("append to a deleted log: %v", err)
		}
		if got := dirsOf(t, fsys); len(got) != 1 || !strings.HasSuffix(got[0], "-delete") {
			t.Errorf("directories: %v", got)
		}
		again, err := m.GetOrCreate(testTP, [16]byte{2}, cfg.Default, true)
		if err != nil || again.LogEndOffset() != 0 {
			t.Errorf("created again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := dirsOf(t, fsys); !cmp.Equal(got, []string{"t-0"}) {
			t.Errorf("directories: %v", got)
		}
		if err := m.Delete(testTP); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.FS = fsys.Kill()
		m = mustOpen(t, cfg) // it finds the directory of the deleted partition
		m.Start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := dirsOf(t, cfg.FS); len(got) != 0 {
			t.Errorf("directories: %v", got)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func dirsOf(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir("/data")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}

// TestBackground: the background work is done at its intervals, and none of it runs after Close.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem(time.Now)
		cfg := memConfig(fsys, newClock())
		cfg.Now = time.Now
		cfg.Default.SegmentBytes, cfg.Default.RetentionTime, cfg.Default.FileDeleteDelay = 100, time.Hour, time.Minute
		m := mustOpen(t, cfg)
		m.Start()
		l, err := m.GetOrCreate(testTP, [16]byte{1}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			mustProduce(t, l, batchOf(time.Now().UnixMilli(), "v"))
		}
		l.SetHighWatermark(2)
		synctest.Wait()
		if got := l.RecoveryPoint(); got != 2 {
			t.Errorf("recovery point %d: the closed segments are not flushed", got)
		}
		file := func(name string) string {
			data, err := fsys.ReadFile("/data/" + name)
			if err != nil {
				return err.Error()
			}
			return string(data)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := file(highWatermarkFile); got != "0\n1\nt 0 2\n" {
			t.Errorf("high watermarks: %q", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := file(recoveryPointFile); got != "0\n1\nt 0 2\n" {
			t.Errorf("recovery points: %q", got)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := l.LogStartOffset(); got != 2 {
			t.Errorf("log start %d: only records below the high watermark may be deleted", got)
		}
		entries, err := fsys.ReadDir("/data/t-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), deletedSuffix) {
				t.Errorf("%s is left over", e.Name())
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestManyLogs(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Dirs, cfg.RecoveryThreadsPerDir = []string{"/a", "/b", "/c"}, 4
	m := mustOpen(t, cfg)
	for p := range int32(60) {
		l, err := m.GetOrCreate(TopicPartition{"t", p}, [16]byte{1}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		mustProduce(t, l, batchOf(1000, fmt.Sprint(p)))
		l.SetHighWatermark(1)
	}
	for range 2 { // after a clean stop, then after an unclean one
		for _, info := range m.Dirs() {
			if len(info.Logs) != 20 {
				t.Errorf("%s has %d logs", info.Path, len(info.Logs))
			}
		}
		for p := range int32(60) {
			l, ok := m.Log(TopicPartition{"t", p})
			if !ok || l.LogEndOffset() != 1 {
				t.Fatalf("t-%d is missing", p)
			}
			_ = readAll(t, l, 1)[0].Records(func(r *record.Record) error {
				if string(r.Value) != fmt.Sprint(p) {
					t.Errorf("t-%d has %q", p, r.Value)
				}
				return nil
			})
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.FS = cfg.FS.(*vfs.Mem).Kill()
		mustOpen(t, cfg) // and is killed at once
		cfg.FS = cfg.FS.(*vfs.Mem).Kill()
		m = mustOpen(t, cfg)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDeletionWritesTheCleanersCheckpoint deletes a partition where nothing was ever compacted: the file is written
// with its header, as Apache Kafka does, and is kept.
func TestDeletionWritesTheCleanersCheckpoint(t *testing.T) {
	clock := newClock()
	fsys := vfs.NewMem(clock.Now)
	cfg := memConfig(fsys, clock)
	m := mustOpen(t, cfg)
	if _, err := m.GetOrCreate(testTP, [16]byte{}, DefaultConfig(), true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "0\n0\n"} {
		if got, err := fsys.ReadFile("/data/" + cleanerFile); err != nil || string(got) != want {
			t.Errorf("the cleaner's checkpoint is %q, %v; want %q", got, err, want)
		}
		if err := m.Delete(testTP); err != nil {
			t.Fatal(err)
		}
	}
}

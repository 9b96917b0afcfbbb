package logstore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/logstore/record"
)

// listing returns the files below a directory with their content.
func listing(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func compareFiles(t *testing.T, got, want map[string][]byte) {
	t.Helper()
	for name, data := range want {
		if g, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if !bytes.Equal(g, data) {
			t.Errorf("%s: %d bytes, want %d\n% x\n% x", name, len(g), len(data), g[:min(len(g), 300)], data[:min(len(data), 300)])
		}
	}
	for name, data := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s exists, %d bytes", name, len(data))
		}
	}
}

// TestOpenAndCloseChangesNothing: opening and cleanly closing a directory changes nothing in it.
func TestOpenAndCloseChangesNothing(t *testing.T) {
	for _, from := range []string{"testdata/logdir", "testdata/logdir-legacy"} {
		meta, _, err := ReadMeta(vfsOS, from)
		if err != nil {
			t.Fatal(err)
		}
		m, dir := openSamples(t, from, meta)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		want := listing(t, from)
		got := listing(t, dir)
		for _, files := range []map[string][]byte{got, want} {
			for name, data := range files {
				if strings.HasSuffix(name, "-checkpoint") && !strings.Contains(name, "/") {
					lines := strings.Split(string(data), "\n")
					slices.Sort(lines)
					files[name] = []byte(strings.Join(lines, "\n"))
				}
			}
		}
		delete(want, recoveryPointFile) // the sample's lists partitions that do not exist
		delete(got, recoveryPointFile)
		for _, dir := range []string{"__consumer_offsets-1", "empty-0", "empty-1"} {
			if _, ok := want[filepath.Join(dir, epochFile)]; ok { // an epoch without records is dropped by a load
				want[filepath.Join(dir, epochFile)] = []byte("0\n0\n")
			}
		}
		compareFiles(t, got, want)
	}
}

// rewrite appends the sample's batches one by one to a new log and returns the files after a clean stop.
func rewrite(t *testing.T, name string, change func(*Config)) map[string][]byte {
	t.Helper()
	src, _ := openSamples(t, "testdata/logdir", sampleMeta)
	tp, kind := parseDir(name)
	if kind != replicaDir {
		t.Fatal("not a partition")
	}
	from, _ := src.Log(tp)
	cfg := DefaultManagerConfig()
	dir := t.TempDir()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{dir}, 1, sampleMeta.ClusterID, testlog.Quiet()
	cfg.Now = func() time.Time { return sampleTime }
	change(&cfg.Default)
	m := mustOpen(t, cfg)
	l, err := m.GetOrCreate(tp, from.TopicID(), cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range readAll(t, from, from.LogEndOffset()) {
		if _, err := l.AppendFollower(b); err != nil {
			t.Fatal(err)
		}
		l.SetHighWatermark(l.LogEndOffset())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return listing(t, filepath.Join(dir, name))
}

// TestFilesAreThoseOfApacheKafka: the same appends with the same configuration give the same files as Apache Kafka's,
// byte for byte.
func TestFilesAreThoseOfApacheKafka(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"segmented-0":          func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 6000, 400 },
		"idempotent-0":         func(c *Config) { c.SegmentBytes = 4000 },
		"txn-0":                func(*Config) {},
		"txn-1":                func(*Config) {},
		"codec-none-0":         func(*Config) {},
		"codec-zstd-0":         func(*Config) {},
		"appendtime-0":         func(*Config) {},
		"__consumer_offsets-0": func(*Config) {},
		"empty-0":              func(*Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			got := rewrite(t, name, change)
			want := listing(t, filepath.Join("testdata/logdir", name))
			if name == "empty-0" {
				want[epochFile] = nil // no leader was elected in this test
			}
			compareFiles(t, got, want)
		})
	}
}

// TestRecoveryMakesTheSameFiles: recovery creates the same indexes and snapshots as appending.
func TestRecoveryMakesTheSameFiles(t *testing.T) {
	for _, name := range []string{"segmented-0", "idempotent-0", "txn-0", "txn-1", "compacted-0", "codec-lz4-0"} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, "testdata/logdir")
			for _, pattern := range []string{"*.index", "*.timeindex", "*.txnindex"} {
				files, err := filepath.Glob(filepath.Join(dir, name, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					if err := os.Remove(f); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, f := range []string{cleanFile, recoveryPointFile} {
				if err := os.Remove(filepath.Join(dir, f)); err != nil {
					t.Fatal(err)
				}
			}
			cfg := DefaultManagerConfig()
			cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{dir}, 1, sampleMeta.ClusterID, testlog.Quiet()
			cfg.Now = func() time.Time { return sampleTime }
			cfg.Default.IndexIntervalBytes = 400
			cfg.Default.Compact = name == "compacted-0"
			m := mustOpen(t, cfg)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			got, want := listing(t, filepath.Join(dir, name)), listing(t, filepath.Join("testdata/logdir", name))
			if name != "segmented-0" { // that log was written with another interval
				for _, files := range []map[string][]byte{got, want} {
					for f := range files {
						if strings.HasSuffix(f, indexSuffix) || strings.HasSuffix(f, timeIndexSuffix) {
							delete(files, f)
						}
					}
				}
			}
			compareFiles(t, got, want)
		})
	}
}

// TestLookUpsAgreeWithScans: index lookups agree with a scan of the whole log, for each offset and time.
func TestLookUpsAgreeWithScans(t *testing.T) {
	m, _ := openSamples(t, "testdata/logdir", sampleMeta)
	for _, l := range m.Logs() {
		batches := readAll(t, l, l.LogEndOffset())
		var all []record.Record
		for _, b := range batches {
			_ = b.Records(func(r *record.Record) error {
				if r.Offset >= l.LogStartOffset() {
					all = append(all, *r)
				}
				return nil
			})
		}
		for offset := l.LogStartOffset(); offset < l.LogEndOffset(); offset++ {
			r, err := l.Read(offset, 1, l.LogEndOffset(), true)
			if err != nil {
				t.Fatal(err)
			}
			data, err := r.Append(nil)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(batches, func(b record.Batch) bool { return b.LastOffset() >= offset })
			if i >= 0 && !bytes.Equal(data, batches[i]) || i < 0 && len(data) > 0 {
				t.Errorf("%v: read at %d returns %d bytes", l.tp, offset, len(data))
			}
		}
		for _, want := range all {
			i := slices.IndexFunc(all, func(r record.Record) bool { return r.Timestamp >= want.Timestamp })
			offset, ts, _, found, err := l.OffsetForTime(want.Timestamp)
			if err != nil || !found || offset != all[i].Offset || ts != all[i].Timestamp {
				t.Errorf("%v: time %d is at %d (%v, %v), want %d", l.tp, want.Timestamp, offset, found, err, all[i].Offset)
			}
		}
	}
}

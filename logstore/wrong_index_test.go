package logstore

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"barnabas/internal/vfs"
)

// TestWrongIndex: after a clean stop, an index that is well formed but wrong costs time, but neither records
// nor the end of the log.
func TestWrongIndex(t *testing.T) {
	fsys, cfg, batches := indexedLog(t)
	content := filesIn(t, fsys, "/data")
	end := batches[len(batches)-1].LastOffset() + 1
	entry := func(offset, position uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, offset), position)
	}
	second := uint32(len(batches[0])) // where the second batch of a segment begins
	for name, index := range map[string][]byte{
		"to a later batch":         append(entry(1, second), entry(2, 3*second)...),
		"into a batch":             entry(1, second+7),
		"behind the file":          entry(1, 1<<20),
		"behind the file, at last": append(entry(1, 0), entry(3, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.FS = damagedDisk(t, cfg, content, indexSuffix, func([]byte) []byte { return index })
			m := mustOpen(t, cfg)
			defer func() { _ = m.Close() }()
			l, _ := m.Log(testTP)
			if l == nil || l.LogEndOffset() != end {
				t.Fatalf("the log does not end at %d", end)
			}
			for _, want := range batches {
				for offset := want.BaseOffset(); offset <= want.LastOffset(); offset++ {
					r, err := l.Read(offset, 1, end, true)
					if err != nil {
						t.Fatalf("offset %d: %v", offset, err)
					}
					data, err := r.Append(nil)
					r.Close()
					if err != nil || string(data) != string(want) {
						t.Fatalf("offset %d: %d bytes from a wrong position, %v", offset, len(data), err)
					}
				}
			}
		})
	}
}

// TestDamagedIndexesAfterAStop: whatever has happened to the offset and time indexes of a broker that was stopped, all
// records are found by offset and by time, and none seems to be older than it is.
func TestDamagedIndexesAfterAStop(t *testing.T) {
	c := newClock()
	fsys := vfs.NewMem(c.Now)
	cfg := memConfig(fsys, c)
	cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes, cfg.Default.RetentionTime = 1000, 100, Unlimited
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	for i := range int64(25) {
		mustProduce(t, l, batchOf(1000+i, "a"))
	}
	batches := readAll(t, l, 25)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	fsys = fsys.Kill()
	content := filesIn(t, fsys, "/data")
	for name, damage := range map[string]func([]byte) []byte{
		"missing":   func([]byte) []byte { return nil },
		"empty":     func([]byte) []byte { return []byte{} },
		"torn":      func(b []byte) []byte { return append(b, 1, 2, 3) },
		"zeroed":    func(b []byte) []byte { return make([]byte, max(len(b), 24)) },
		"untrimmed": func(b []byte) []byte { return append(b, make([]byte, 240)...) },
		"reversed": func(b []byte) []byte {
			slices.Reverse(b)
			return b
		},
	} {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
			t.Run(name+suffix, func(t *testing.T) {
				cfg := cfg
				cfg.FS = damagedDisk(t, cfg, content, suffix, damage)
				for range 2 { // a start must not make it worse for the next one
					m := mustOpen(t, cfg)
					l, _ := m.Log(testTP)
					if l == nil {
						t.Fatal("there is no log")
					}
					for i, want := range readAll(t, l, l.LogEndOffset()) {
						if !bytes.Equal(want, batches[i]) {
							t.Errorf("batch %d is another one", i)
						}
					}
					for i := range int64(25) {
						if got, _, _, _, err := l.OffsetForTime(1000 + i); got != i || err != nil {
							t.Errorf("time %d is found at offset %d: %v", 1000+i, got, err)
						}
					}
					if _, at, _, _, err := l.OffsetOfMaxTimestamp(); at != 1024 || err != nil {
						t.Errorf("the largest time is %d: %v", at, err)
					}
					for _, s := range *l.segments.Load() {
						if at, err := s.largestTime(); at < 1000+s.base || at > 1024 || err != nil {
							t.Errorf("segment %d is as old as %d: %v", s.base, at, err)
						}
					}
					if err := m.Close(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// damagedDisk returns the disk of a stopped broker with the files of content, those with the suffix as damage makes them;
// nil: without the file.
func damagedDisk(t *testing.T, cfg ManagerConfig, content map[string][]byte, suffix string, damage func([]byte) []byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem(cfg.Now)
	if err := mem.MkdirAll("/data/" + testTP.String() + "/"); err != nil {
		t.Fatal(err)
	}
	for file, data := range content {
		if file == "/data/"+lockFile {
			continue
		}
		if strings.HasSuffix(file, suffix) {
			if data = damage(bytes.Clone(data)); data == nil {
				continue
			}
		}
		if err := vfs.WriteFile(mem, file, data); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

package logstore

import (
	"encoding/binary"
	"strings"
	"testing"

	"barnabas/internal/vfs"
)

// TestWrongIndex: after a clean stop, an index that is well formed but wrong costs time, but neither records
// nor the end of the log.
func TestWrongIndex(t *testing.T) {
	fsys, cfg, batches := indexedLog(t)
	dir := "/data/" + testTP.String() + "/"
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
			mem := vfs.NewMem(cfg.Now)
			if err := mem.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			for file, data := range content {
				if file == "/data/"+lockFile {
					continue
				}
				if strings.HasSuffix(file, indexSuffix) {
					data = index
				}
				if err := vfs.WriteFile(mem, file, data); err != nil {
					t.Fatal(err)
				}
			}
			cfg := cfg
			cfg.FS = mem
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

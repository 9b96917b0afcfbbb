package logstore

import (
	"errors"
	"slices"
	"sort"
	"testing"

	"barnabas/internal/vfs"
)

// TestEpochsForgottenAtALoadDoNotComeBack: leader epochs whose records a power failure has taken are dropped when the
// log is loaded, and do not come back with the next load, although the log has grown past their beginning since.
func TestEpochsForgottenAtALoadDoNotComeBack(t *testing.T) {
	for what, cut := range map[string]func(*epochCache) error{
		"end":  func(c *epochCache) error { return c.truncateEnd(50) },
		"all":  (*epochCache).clear,
		"next": func(c *epochCache) error { return c.assign(3, 50) },
	} {
		mem := vfs.NewMem(newClock().Now)
		c := newEpochs(mem, "/d")
		if err := errors.Join(mem.MkdirAll("/d"), c.assign(3, 0), c.assign(4, 60)); err != nil {
			t.Fatal(err)
		}
		c = newEpochs(mem, "/d")
		if err := c.load(); err != nil {
			t.Fatal(err)
		}
		c.forgetEnd(50)
		if err := cut(c); err != nil {
			t.Fatal(err)
		}
		again := newEpochs(mem, "/d")
		if err := again.load(); err != nil || !slices.Equal(again.mu.entries, c.mu.entries) {
			t.Errorf("%s: %v in the file, %v in memory, %v", what, again.mu.entries, c.mu.entries, err)
		}
	}
}

// at returns the epoch of the record at offset, or -1 if it is unknown.
func (c *epochCache) at(offset int64) int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i := sort.Search(len(c.mu.entries), func(i int) bool { return c.mu.entries[i].start > offset })
	if i == 0 {
		return -1
	}
	return c.mu.entries[i-1].epoch
}

func FuzzLeaderEpochs(f *testing.F) {
	f.Add("0\n2\n0 0\n3 100\n")
	f.Add("0\n1\n3 0 7\n")
	f.Add("0\n2\n5 10\n4 20\n")
	f.Fuzz(func(t *testing.T, content string) {
		fsys := vfs.NewMem(newClock().Now)
		if err := errors.Join(fsys.MkdirAll("/d"), vfs.WriteFile(fsys, "/d/"+epochFile, []byte(content))); err != nil {
			t.Fatal(err)
		}
		c := newEpochs(fsys, "/d")
		if err := c.load(); err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatal(err)
			}
			return
		}
		again := newEpochs(fsys, "/d")
		if err := errors.Join(c.rewrite(), again.load()); err != nil || !slices.Equal(c.mu.entries, again.mu.entries) {
			t.Errorf("%q: %v, then %v %v", content, c.mu.entries, again.mu.entries, err)
		}
	})
}

package logstore

import (
	"errors"
	"slices"
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

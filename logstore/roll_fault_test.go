package logstore

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/vfs"
)

// TestRollThatFailsBeforeASmallerBatch: whichever step of beginning another segment fails, because the disk is full or
// too many files are open, a smaller batch that still fits into the old segment is kept, and found after a restart of
// any kind.
func TestRollThatFailsBeforeASmallerBatch(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EMFILE} {
		for _, clean := range []bool{true, false} {
			for n, reached := 1, true; reached; n++ {
				reached = rollAmidFault(t, fmt.Sprintf("%v at step %d, clean stop %v", errno, n, clean), n, errno, clean)
			}
		}
	}
}

// rollAmidFault reports whether there was an nth step.
func rollAmidFault(t *testing.T, name string, n int, errno error, clean bool) bool {
	c := newClock()
	mem := vfs.NewMem(c.Now)
	cfg := memConfig(mem, c)
	cfg.Default.SegmentBytes, cfg.Default.Preallocate, cfg.Default.IndexIntervalBytes = 600, true, 50
	m := mustOpen(t, cfg)
	l := mustCreate(t, m)
	var want []string
	add := func(value string) error {
		w := sequenced(9, 0, int32(len(want)), 0)
		w.Add(1_790_000_000_000, nil, []byte(value))
		_, err := produce(l, w.MustBuild())
		if err == nil {
			want = append(want, fmt.Sprintf("%d %s", len(want), value))
		}
		return err
	}
	for range 3 {
		if err := add(strings.Repeat("x", 50)); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	mem.SetFault(func(op, name string) error {
		if calls++; calls == n {
			return &fs.PathError{Op: op, Path: name, Err: errno}
		}
		return nil
	})
	_ = add(strings.Repeat("y", 350)) // does not fit
	reached := calls >= n
	mem.SetFault(nil)
	c.now = c.now.Add(5 * time.Second) // it is noticed that there is room again
	for range 6 {
		if err := add("small"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if clean {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		mem = mem.Kill()
	}
	cfg.FS = mem
	m = mustOpen(t, cfg)
	defer m.Close()
	if l, _ = m.Log(testTP); l.LogEndOffset() != int64(len(want)) {
		t.Errorf("%s: the log ends at %d, not at %d", name, l.LogEndOffset(), len(want))
	} else if got := values(t, l); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
	return reached
}

package logstore

import (
	"testing"

	"barnabas/internal/vfs"

	"github.com/google/go-cmp/cmp"
)

// TestLoading asks after Open how far it came: after a clean stop, and after one that was none.
func TestLoading(t *testing.T) {
	clock := newClock()
	fsys := vfs.NewMem(clock.Now)
	cfg := memConfig(fsys, clock)
	m := mustOpen(t, cfg)
	for partition := range int32(3) {
		if _, err := m.GetOrCreate(TopicPartition{"t", partition}, [16]byte{}, DefaultConfig(), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for _, recovering := range []bool{false, true} {
		cfg.Loading = new(Loading)
		m = mustOpen(t, cfg)
		want := []DirLoading{{Dir: cfg.Dirs[0], Loaded: 3, Total: 3, Recovering: recovering, Done: true}}
		if diff := cmp.Diff(want, cfg.Loading.Dirs()); diff != "" {
			t.Errorf("recovering %v: %s", recovering, diff)
		}
		m.unlock() // as if it were killed: no mark of a clean stop
	}
	if dirs := (*Loading)(nil).Dirs(); dirs != nil {
		t.Errorf("nobody asked, and there is %v", dirs)
	}
}

package logstore

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"

	"github.com/google/go-cmp/cmp"
)

// TestLoading checks the progress reported after Open, following a clean stop and an unclean one.
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
		m.unlock() // as if it were killed: without the clean-shutdown file
	}
	if dirs := (*Loading)(nil).Dirs(); dirs != nil {
		t.Errorf("without any loading there is %v", dirs)
	}
}

// TestLoadingTellsOfBytes blocks one of two logs and checks the reported progress.
func TestLoadingTellsOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLoadingRig(t, 2, nil)
		r.cfg.Loading = new(Loading)
		elapsed := time.Duration(0)
		r.cfg.Now = func() time.Time { return time.UnixMilli(1_790_000_000_000).Add(elapsed) }
		r.begin(1)
		elapsed = 3 * time.Second
		want := []DirLoading{{Dir: "/data", Loaded: 1, Total: 2, Read: 210, ToRead: 420, Recovering: true, Remaining: 3 * time.Second}}
		if diff := cmp.Diff(want, r.cfg.Loading.Dirs()); diff != "" {
			t.Error(diff)
		}
		r.open(1)
		want = []DirLoading{{Dir: "/data", Loaded: 2, Total: 2, Read: 420, ToRead: 420, Recovering: true, Done: true}}
		if diff := cmp.Diff(want, r.cfg.Loading.Dirs()); diff != "" {
			t.Error(diff)
		}
		r.must(r.m.Close())
	})
}

func TestMeasure(t *testing.T) {
	fsys := vfs.NewMem(time.Now)
	for base, size := range map[int64]int{0: 100, 10: 20, 30: 3} {
		if err := errors.Join(fsys.MkdirAll("/t-0"), vfs.WriteFile(fsys, "/t-0/"+fileName(base, logSuffix), make([]byte, size))); err != nil {
			t.Fatal(err)
		}
	}
	for point, toRead := range map[int64]int64{0: 123, 9: 123, 10: 23, 29: 23, 30: 3, 1000: 3} {
		o := loadOptions{dir: "/t-0", recoveryPoint: point}
		if o.measure(fsys); o.size != 123 || o.toRead != toRead {
			t.Errorf("recovery point %d: %d of %d, want %d of 123", point, o.toRead, o.size, toRead)
		}
	}
}

func TestRemaining(t *testing.T) {
	for _, test := range []struct {
		read, toRead  int64
		elapsed, want time.Duration
	}{
		{0, 100, time.Second, 0}, {50, 100, 0, 0}, {50, 100, time.Second, time.Second}, {100, 100, time.Second, 0}, {110, 100, time.Second, 0},
		{25, 100, 2 * time.Second, 6 * time.Second},
	} {
		if got := remaining(test.read, test.toRead, test.elapsed); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

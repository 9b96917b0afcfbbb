package logstore

import (
	"errors"
	"testing"

	"barnabas/internal/vfs"
)

// TestBatchesSentAgainAfterARestart: a producer with five requests in flight sends all of them again when the broker is
// back. All batches that were written must be recognized as duplicates, also if the broker went down once more before
// it appended anything new.
func TestBatchesSentAgainAfterARestart(t *testing.T) {
	for _, stop := range []string{"kill", "clean stop"} {
		t.Run(stop, func(t *testing.T) {
			c := newClock()
			disk := vfs.NewMem(c.Now)
			m := mustOpen(t, memConfig(disk, c))
			l, err := m.GetOrCreate(testTP, [16]byte{7}, m.cfg.Default, true)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int32(9) { // two producers alternate
				mustProduce(t, l, sequenced(5, 0, i*10, 10))
				mustProduce(t, l, sequenced(6, 3, i*4, 4))
			}
			for range 2 {
				if stop == "kill" {
					disk = disk.Kill()
				} else if err := m.Close(); err != nil {
					t.Fatal(err)
				}
				m = mustOpen(t, memConfig(disk, c))
				l, _ = m.Log(testTP)
				for i := range int32(5) {
					info := mustProduce(t, l, sequenced(5, 0, 40+i*10, 10))
					if want := int64(14 * (4 + i)); !info.Duplicate || info.FirstOffset != want {
						t.Fatalf("batch %d was appended again at %d, the original is at %d", i, info.FirstOffset, want)
					}
					info = mustProduce(t, l, sequenced(6, 3, 16+i*4, 4))
					if want := int64(14*(4+i) + 10); !info.Duplicate || info.FirstOffset != want {
						t.Fatalf("the other producer's batch %d was appended again at %d, the original is at %d", i, info.FirstOffset, want)
					}
				}
			}
			_ = m.Close()
		})
	}
}

// TestBatchesSentAgainAreInSeveralSegments: a producer's last batches are recognized although each is in a segment of
// its own, whether the broker was killed, was stopped or, as a follower, truncated the log.
func TestBatchesSentAgainAreInSeveralSegments(t *testing.T) {
	for _, stop := range []string{"kill", "clean stop", "truncation", "kill after a roll"} {
		t.Run(stop, func(t *testing.T) {
			c := newClock()
			disk := vfs.NewMem(c.Now)
			cfg := memConfig(disk, c)
			cfg.Default.SegmentBytes = 1000
			m := mustOpen(t, cfg)
			l := mustCreate(t, m)
			for i := range int32(9) {
				mustProduce(t, l, sequenced(5, 0, i*60, 60))
			}
			if n := len(*l.segments.Load()); n != 9 {
				t.Fatalf("%d segments", n)
			}
			var err error
			switch stop {
			case "truncation":
				mustProduce(t, l, batchOf(1000, "of a leader that nobody follows"))
				err = l.TruncateTo(9 * 60)
			case "clean stop":
				err = m.Close()
			case "kill after a roll":
				err = l.Roll()
			}
			if err == nil && stop != "clean stop" {
				err = errors.Join(l.Flush(), m.checkpointOffsets(m.disks[0]))
			}
			if err != nil {
				t.Fatal(err)
			}
			if stop != "truncation" {
				if stop != "clean stop" {
					disk = disk.Kill()
				}
				cfg.FS = disk
				m = mustOpen(t, cfg)
				l, _ = m.Log(testTP)
			}
			for i := range int32(5) {
				info := mustProduce(t, l, sequenced(5, 0, 240+i*60, 60))
				if want := int64(240 + i*60); !info.Duplicate || info.FirstOffset != want {
					t.Errorf("batch %d was appended again at %d, the original is at %d", i, info.FirstOffset, want)
				}
			}
			if info := mustProduce(t, l, sequenced(5, 0, 540, 60)); info.Duplicate || info.FirstOffset != 540 {
				t.Errorf("the next one is at %d, a duplicate: %v", info.FirstOffset, info.Duplicate)
			}
			_ = m.Close()
		})
	}
}

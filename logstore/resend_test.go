package logstore

import (
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

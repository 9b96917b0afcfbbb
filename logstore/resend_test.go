package logstore

import (
	"testing"

	"barnabas/internal/vfs"
)

// TestBatchesSentAgainAfterAKill: a producer with five requests in flight sends them all again when the broker comes back.
// All that were written must be recognised, also when it was killed once more before it took anything new.
func TestBatchesSentAgainAfterAKill(t *testing.T) {
	c := newClock()
	disk := vfs.NewMem(c.Now)
	m := mustOpen(t, memConfig(disk, c))
	l, err := m.GetOrCreate(testTP, [16]byte{7}, m.cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(6) {
		mustProduce(t, l, sequenced(5, 0, i*10, 10))
	}
	for range 2 {
		disk = disk.Kill()
		m = mustOpen(t, memConfig(disk, c))
		l, _ = m.Log(testTP)
		for i := range int32(5) {
			info := mustProduce(t, l, sequenced(5, 0, 10+i*10, 10))
			if !info.Duplicate || info.FirstOffset != int64(10+i*10) {
				t.Fatalf("batch %d was appended again at %d", i+1, info.FirstOffset)
			}
		}
	}
	_ = m.Close()
}

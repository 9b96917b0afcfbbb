package logstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
)

// modelLog is the log that a model is compared with. Its files are in memory.
type modelLog struct {
	t   testing.TB
	rng *rand.Rand
	c   *clock
	fs  *vfs.Mem
	cfg ManagerConfig
	m   *Manager
	l   *Log
}

// newModelLog returns one that has yet to be opened. Models have different streams, so that a seed means something else
// to each.
func newModelLog(t testing.TB, seed, stream uint64) modelLog {
	c := newClock()
	x := modelLog{t: t, rng: rand.New(rand.NewPCG(seed, stream)), c: c, fs: vfs.NewMem(c.Now)}
	x.cfg = memConfig(x.fs, c)
	x.cfg.Logger = testlog.To(t)
	x.cfg.Default.FileDeleteDelay, x.cfg.Default.RetentionTime = 0, Unlimited
	return x
}

func (x *modelLog) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *modelLog) open() {
	x.t.Helper()
	x.cfg.FS = x.fs
	x.m = mustOpen(x.t, x.cfg)
	x.l = mustCreate(x.t, x.m)
}

// reopen closes the log properly and opens it again.
func (x *modelLog) reopen() {
	x.t.Helper()
	x.must(x.m.Close())
	x.fs = x.fs.Kill()
	x.open()
}

// die cuts the power, after which some of what was not flushed may be there, or kills the process; then it opens what
// is left.
func (x *modelLog) die(power bool) {
	x.t.Helper()
	switch {
	case !power:
		x.fs = x.fs.Kill()
	case x.rng.IntN(3) == 0:
		x.fs = x.fs.Crash(nil)
	default:
		x.fs = x.fs.Crash(x.rng)
	}
	x.open()
}

// pass lets up to a second pass.
func (x *modelLog) pass() {
	x.c.now = x.c.now.Add(time.Duration(x.rng.IntN(1000)) * time.Millisecond)
}

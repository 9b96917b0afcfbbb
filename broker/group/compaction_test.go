package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// watchedFS is a file system that reports the calls of a compaction before they happen, as far as none of the log's
// locks is held: what a reader finds does not change while one is.
type watchedFS struct {
	*vfs.Mem
	before func(call string)
}

func (w *watchedFS) tell(op, name string) {
	if op == "syncdir" || strings.HasSuffix(name, ".log.cleaned") {
		w.before(op + " " + name)
	}
}

func (w *watchedFS) OpenFile(name string, flag int) (vfs.File, error) {
	w.tell("open", name)
	f, err := w.Mem.OpenFile(name, flag)
	return &watchedFile{f, w}, err
}

func (w *watchedFS) Rename(from, to string) error {
	w.tell("rename", from)
	return w.Mem.Rename(from, to)
}

func (w *watchedFS) SyncDir(name string) error {
	w.tell("syncdir", name)
	return w.Mem.SyncDir(name)
}

type watchedFile struct {
	vfs.File
	fs *watchedFS
}

func (f *watchedFile) WriteAt(b []byte, at int64) (int, error) {
	f.fs.tell("write", f.Name())
	return f.File.WriteAt(b, at)
}

func (f *watchedFile) Sync() error {
	f.fs.tell("sync", f.Name())
	return f.File.Sync()
}

// compactedLog is a partition of __consumer_offsets that is compacted while it is loaded.
type compactedLog struct {
	*testing.T
	fs    *watchedFS
	m     *logstore.Manager
	log   *logstore.Log
	until chan struct{} // set when its next read may not begin yet
	read  chan struct{} // signalled after each read
}

func newCompactedLog(t *testing.T) *compactedLog {
	c := &compactedLog{T: t, fs: &watchedFS{vfs.NewMem(time.Now), func(string) {}}}
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{"/data"}, 1, "test", testlog.To(t)
	cfg.FS, cfg.Now = c.fs, time.Now
	d := &cfg.Default
	d.Compact, d.Delete, d.MinCleanableRatio, d.SegmentBytes, d.IndexSizeMax = true, false, 0, 900, 1200
	var err error
	c.m, err = logstore.Open(t.Context(), cfg)
	c.must(err)
	c.log, err = c.m.GetOrCreate(logstore.TopicPartition{Topic: Topic}, [16]byte{1}, *d, true)
	c.must(err)
	c.fill()
	return c
}

func (c *compactedLog) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// fill writes commits that replace each other, some of them in transactions, and groups that are created and removed.
func (c *compactedLog) fill() {
	write := func(b *record.Builder) {
		b.BaseOffset = c.log.LogEndOffset()
		_, err := c.log.AppendFollower(b.MustBuild())
		c.must(err)
	}
	sequences := make(map[int64]int32)
	for i := range 60 {
		group := fmt.Sprint("g", i%4)
		value := NewestVersions.offsetValue(commit{offset: int64(i), leaderEpoch: none, metadata: strings.Repeat("m", 40), expiresMs: none})
		b := record.NewBuilder()
		switch pid := int64(i % 3); {
		case i%10 == 9:
			b.Add(1, offsetKey(group, tp), nil)
			b.Add(1, groupIDKey(group), nil)
		case i%5 == 0 && i < 55: // a transaction that ends; the last ones stay open
			b.ProducerID, b.BaseSequence, b.Transactional = pid, sequences[pid], true
			b.Add(1, offsetKey(group, tp), value)
			sequences[pid]++
			write(b)
			b = record.NewBuilder()
			b.ProducerID, b.BaseSequence, b.Transactional, b.Control = pid, -1, true, true
			b.Add(1, []byte{0, 0, 0, byte(i / 5 % 2)}, []byte{0, 0, 0, 0, 0, 1})
		case i >= 55:
			pid += 10
			b.ProducerID, b.BaseSequence, b.Transactional = pid, sequences[pid], true
			b.Add(1, offsetKey(group, tp), value)
			sequences[pid]++
		default:
			b.Add(1, offsetKey(group, tp), value)
		}
		write(b)
	}
	c.log.SetHighWatermark(c.log.LogEndOffset())
	c.must(c.log.Roll())
	c.must(c.log.Flush())
}

// ReadLog implements logReader.
func (c *compactedLog) ReadLog(fn func(*logstore.Log) error) error {
	if c.until != nil {
		<-c.until
		defer func() { c.read <- struct{}{} }()
	}
	return fn(c.log)
}

// loadedState loads the log and returns what was found.
func (c *compactedLog) loadedState() map[string]string {
	l := newLoaded()
	const buffer = 300 // bytes: one or two batches
	c.must(l.read(c.Context(), c, buffer))
	return describe(l)
}

func describe(l *loaded) map[string]string {
	state := make(map[string]string)
	for id, g := range l.groups {
		for tp, o := range g.offsets {
			state[fmt.Sprint(id, " ", tp)] = fmt.Sprintf("%+v", o)
		}
		for pid, open := range g.open {
			for tp, o := range open.offsets {
				state[fmt.Sprint(id, " ", tp, " open by ", pid)] = fmt.Sprintf("%+v", o)
			}
		}
	}
	return state
}

// compact runs the cleaner; at is called before each of its calls.
func (c *compactedLog) compact(at func(n int)) (calls []string) {
	c.fs.before = func(call string) {
		if strings.Contains(call, Topic) {
			calls = append(calls, call)
			at(len(calls))
		}
	}
	c.m.Start()
	time.Sleep(30 * time.Second) // longer than log.cleaner.backoff.ms, less than file.delete.delay.ms
	synctest.Wait()
	c.fs.before = func(string) {}
	return calls
}

// TestLoadAmidACompaction: a coordinator that takes over a partition while it is being compacted finds the same state
// as before, whether it reads everything between two calls of the cleaner, or continues with each of them.
func TestLoadAmidACompaction(t *testing.T) {
	for n, more := 1, true; more && !t.Failed(); n++ {
		synctest.Test(t, func(t *testing.T) {
			c := newCompactedLog(t)
			want := c.loadedState()
			calls := c.compact(func(call int) {
				if call == n {
					if diff := cmp.Diff(want, c.loadedState()); diff != "" {
						t.Errorf("at call %d: %s", n, diff)
					}
				}
			})
			more = n < len(calls)
			if n == 1 && !slices.ContainsFunc(calls, func(c string) bool { return strings.Contains(c, ".cleaned") }) {
				t.Errorf("nothing was compacted, calls: %q", calls)
			}
			if diff := cmp.Diff(want, c.loadedState()); diff != "" {
				t.Errorf("afterwards: %s", diff)
			}
			c.must(c.m.Close())
		})
	}
}

// TestLoadAlongACompaction continues reading with each call of the cleaner, beginning at each of them.
func TestLoadAlongACompaction(t *testing.T) {
	for n, more := 1, true; more && !t.Failed(); n++ {
		synctest.Test(t, func(t *testing.T) {
			c := newCompactedLog(t)
			want := c.loadedState()
			c.until, c.read = make(chan struct{}), make(chan struct{})
			ended := make(chan error, 1)
			l, over := newLoaded(), errors.New("not yet")
			go func() { ended <- l.read(t.Context(), c, 300) }()
			goOn := func() {
				select {
				case c.until <- struct{}{}:
					<-c.read
				case over = <-ended:
				}
			}
			calls := c.compact(func(call int) {
				if call >= n && over != nil {
					goOn()
				}
			})
			for over != nil {
				goOn()
			}
			more = n < len(calls)
			if diff := cmp.Diff(want, describe(l)); diff != "" {
				t.Errorf("from call %d on: %s", n, diff)
			}
			c.must(c.m.Close())
		})
	}
}

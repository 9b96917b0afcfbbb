package logstore

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/sirupsen/logrus"
)

var vfsOS = vfs.OS{}

// clock is a clock that tests advance.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.UnixMilli(1_790_000_000_000)} }

func (c *clock) Now() time.Time { return c.now }

// clockSet returns the same moment by a wall clock that was set since the process began. Package time has no such value:
// this one is made from its layout, and checked.
func clockSet(t *testing.T, moment time.Time, by time.Duration) time.Time {
	t.Helper()
	later := moment
	wall := (*uint64)(unsafe.Pointer(&later)) //nolint:gosec // seconds above 30 bits of nanoseconds
	*wall += uint64(by/time.Second) << 30
	*wall |= 1 << 63 // it has a monotonic reading
	if later.Sub(moment) != 0 || later.Unix() != moment.Add(by).Unix() {
		t.Fatalf("%v is not %v, set by %v", later, moment, by)
	}
	return later
}

// memConfig returns the configuration of a manager on a file system in memory, with small files.
func memConfig(fsys vfs.FS, c *clock) ManagerConfig {
	cfg := DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{"/data"}, 1, "test", testlog.Quiet()
	cfg.FS, cfg.Now = fsys, c.Now
	cfg.Default.IndexSizeMax = 2400
	cfg.padding = &padding{from: 300, block: 512}
	return cfg
}

func mustOpen(t testing.TB, cfg ManagerConfig) *Manager {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var errDied = errors.New("disk died")

// dieAt fails the disk from its nth call on. Reads neither count nor fail. It returns the number of calls so far.
func dieAt(fsys *vfs.Mem, n int) (calls *int) {
	calls = new(int)
	fsys.SetFault(func(op, _ string) error {
		if op == "read" || op == "readfile" {
			return nil
		}
		if *calls++; *calls >= n {
			return errDied
		}
		return nil
	})
	return calls
}

var testTP = TopicPartition{"t", 0}

// mustCreate creates the log of testTP with the default settings.
func mustCreate(t testing.TB, m *Manager) *Log {
	t.Helper()
	l, err := m.GetOrCreate(testTP, [16]byte{7}, m.cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newTestLog returns an empty log on a file system in memory.
func newTestLog(t testing.TB, change func(*Config)) (*Log, *clock) {
	t.Helper()
	c := newClock()
	cfg := memConfig(vfs.NewMem(c.Now), c)
	if change != nil {
		change(&cfg.Default)
	}
	m := mustOpen(t, cfg)
	t.Cleanup(func() { _ = m.Close() })
	return mustCreate(t, m), c
}

// batchOf returns a batch with the values as records, one ms apart, the first at ts.
func batchOf(ts int64, values ...string) *record.Builder {
	w := record.NewBuilder()
	for i, v := range values {
		w.Add(ts+int64(i), []byte("k"), []byte(v))
	}
	return w
}

// sequenced returns a batch of n records of an idempotent producer.
func sequenced(pid int64, epoch int16, seq int32, n int) *record.Builder {
	w := record.NewBuilder()
	w.ProducerID, w.ProducerEpoch, w.BaseSequence = pid, epoch, seq
	for i := range n {
		w.Add(1_790_000_000_000, []byte("k"), []byte{byte(i)})
	}
	return w
}

func produce(l *Log, b []byte) (AppendInfo, error) {
	return l.AppendLeader(b, LeaderAppend{ProduceVersion: 9})
}

func mustProduce(t testing.TB, l *Log, w *record.Builder) AppendInfo {
	t.Helper()
	info, err := produce(l, w.MustBuild())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// logLines collects what is logged.
type logLines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// newLogLines returns a logger and the lines that it writes.
func newLogLines() (*logrus.Entry, *logLines) {
	lines, logger := new(logLines), logrus.New()
	logger.SetOutput(lines)
	logger.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
	return logrus.NewEntry(logger), lines
}

// Write implements io.Writer.
func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// want fails the test unless one line has all the parts.
func (l *logLines) want(t testing.TB, parts ...string) {
	t.Helper()
	for line := range strings.Lines(l.String() + "\n") {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return
		}
	}
	t.Errorf("no log line contains %q:\n%s", parts, l)
}

package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestMoveUnderLoad moves the leader's and the follower's replica to another directory and back while records are
// appended and read, older records are deleted and the leadership changes.
func TestMoveUnderLoad(t *testing.T) {
	n := &network{brokers: make(map[int32]*broker)}
	one, two := newBrokerIn(t, 1, n, "/a", "/b"), newBrokerIn(t, 2, n, "/a", "/b")
	leader, follower := one.must(t, 1, 0, both, both), two.must(t, 1, 0, both, both)
	var want []string
	appendSome := func(count int) {
		for range count {
			v := fmt.Sprintf("value %d %s", len(want), strings.Repeat("x", 200))
			appendTo(t, leader, v)
			want = append(want, fmt.Sprintf("%d=%s", len(want), v))
		}
	}
	appendSome(100)
	dirs := []string{"/b", "/a"}
	for round := range 6 {
		dir := dirs[round%2]
		for _, b := range []*broker{one, two} {
			if err := b.MoveTo(tp0, dir); err != nil {
				t.Fatal(err)
			}
		}
		if round == 3 {
			one.must(t, 1, 1, both, both)
			two.must(t, 1, 1, both, both)
		}
		appendSome(50)
		for name, p := range map[string]*Partition{"leader": leader, "follower": follower} {
			testwait.Until(t, "the "+name+" in "+dir, func() bool { return p.Log().Dir() == dir })
		}
		if round == 4 {
			if _, err := leader.DeleteRecordsBefore(120); err != nil {
				t.Fatal(err)
			}
		}
	}
	sameLogs(t, leader, follower)
	if got := content(t, leader.Log()); !slices.Equal(got, want[120:]) {
		t.Errorf("%d records, want %d", len(got), len(want)-120)
	}
	testwait.Until(t, "the high watermark", func() bool { return leader.Log().HighWatermark() == int64(len(want)) })
	if one.moving.bytes.Load() == 0 {
		t.Error("moved bytes are not counted by the throttle")
	}
}

// TestMoveWaitsForReaders: a move does not complete while a reader uses the log.
func TestMoveWaitsForReaders(t *testing.T) {
	b := newBrokerIn(t, 1, &network{brokers: make(map[int32]*broker)}, "/a", "/b")
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "v")
	err := p.ReadLog(func(log *logstore.Log) error {
		if err := b.MoveTo(tp0, "/b"); err != nil {
			return err
		}
		testwait.Until(t, "the copy", func() bool {
			copied, ok := b.cfg.Logs.Future(tp0)
			return ok && copied.LogEndOffset() == 1 && copied.RecoveryPoint() == 1
		})
		r, err := log.Read(0, 1000, 1, true)
		r.Close()
		return err
	})
	if err != nil {
		t.Error(err)
	}
	testwait.Until(t, "the replica in the other directory", func() bool { return p.Log().Dir() == "/b" })
}

// TestMoveWhileATransactionIsVerified: a verification that began before the replica was moved lets the producer append
// to the copy; one that a marker has invalidated does not, whatever was verified on the copy since.
func TestMoveWhileATransactionIsVerified(t *testing.T) {
	b := newBrokerIn(t, 1, &network{brokers: make(map[int32]*broker)}, "/a", "/b")
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "v")
	to := map[string]string{"/a": "/b", "/b": "/a"}[p.Log().Dir()]
	const good, late = 42, 43
	void, _ := p.Log().StartVerification(late, 0, 0)
	answered, _ := p.Log().StartVerification(good, 0, 0)
	if err := b.MoveTo(tp0, to); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the replica in the other directory", func() bool { return p.Log().Dir() == to })
	add := func(producer int64, control bool, guard logstore.Guard) error {
		w := record.NewBuilder()
		w.ProducerID, w.BaseSequence, w.Transactional, w.Control = producer, 0, true, control
		key, origin := []byte("k"), logstore.Client
		if control {
			key, origin, w.BaseSequence = []byte{0, 0, 0, 0}, logstore.Coordinator, -1
		}
		w.Add(1_790_000_000_000, key, []byte{0, 0, 0, 0, 0, 1})
		_, err := p.Log().AppendLeader(w.MustBuild(), logstore.LeaderAppend{LeaderEpoch: 1, ProduceVersion: 9, Origin: origin, Verify: true, Guard: guard})
		return err
	}
	if err := add(good, false, answered); err != nil {
		t.Errorf("the verified transaction is refused: %v", err)
	}
	if err := add(late, true, 0); err != nil {
		t.Fatal(err)
	}
	p.Log().StartVerification(late, 0, 0)
	if err := add(late, false, void); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("a verification that a marker has invalidated opens a transaction: %v", err)
	}
}

// renames is a file system that calls a function before each rename.
type renames struct {
	vfs.FS
	before func(name string)
}

func (r *renames) Rename(from, to string) error {
	r.before(from)
	return r.FS.Rename(from, to)
}

// TestMoveIntoAFailingDirectory: the directory fails just when the replica is being put in place there. The search for
// the replicas of a failed directory may have run before.
func TestMoveIntoAFailingDirectory(t *testing.T) {
	mem := vfs.NewMem(time.Now)
	fsys := &renames{mem, func(string) {}}
	cfg := logsConfig(1, fsys, "/a", "/b")
	logs, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := newBrokerOver(t, 1, &network{brokers: make(map[int32]*broker)}, logs, cfg)
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "v")
	from := p.Log().Dir()
	other, err := logs.GetOrCreate(logstore.TopicPartition{Topic: "other", Partition: 0}, [16]byte{1}, cfg.Default, true)
	if err != nil || other.Dir() == from {
		t.Fatalf("%v in %s", err, other.Dir())
	}
	if _, err := other.AppendLeader(batchOf("v"), logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Fatal(err)
	}
	fsys.before = func(name string) {
		if name == from+"/"+tp0.String() {
			mem.SetFault(func(_, name string) error {
				if strings.HasPrefix(name, other.Dir()+"/") {
					return errors.New("input/output error")
				}
				return nil
			})
			_ = other.Flush()
		}
	}
	if err := b.MoveTo(tp0, other.Dir()); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the replica offline", func() bool {
		p.mu.RLock()
		defer p.mu.RUnlock()
		return p.mu.role == Offline
	})
	testwait.Until(t, "the controller to be told", func() bool { return b.asked.Load() > 0 })
}

// TestMoveWithoutCheckpoints: a replica stays where it is when the checkpoints of the other directory cannot be
// written.
func TestMoveWithoutCheckpoints(t *testing.T) {
	b := newBrokerIn(t, 1, &network{brokers: make(map[int32]*broker)}, "/a", "/b")
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "v")
	from := p.Log().Dir()
	to := map[string]string{"/a": "/b", "/b": "/a"}[from]
	failed := make(chan struct{})
	fail := sync.OnceFunc(func() { close(failed) })
	b.fs.SetFault(func(_, name string) error {
		if strings.HasPrefix(name, to+"/replication-offset-checkpoint") {
			fail()
			return errors.New("input/output error")
		}
		return nil
	})
	if err := b.MoveTo(tp0, to); err != nil {
		t.Fatal(err)
	}
	<-failed
	b.DirectoryFailed(to)
	if _, moving := b.cfg.Logs.Future(tp0); moving {
		t.Error("the move continues")
	}
	appendTo(t, p, "w")
	if got := content(t, p.Log()); p.Log().Dir() != from || len(got) != 2 {
		t.Errorf("the log in %s has %v", p.Log().Dir(), got)
	}
}

// TestMoveWaitsForResources: disk space or open files run out at any step of a move; the move continues afterwards.
func TestMoveWaitsForResources(t *testing.T) {
	for _, row := range []struct {
		short    syscall.Errno
		op, part string // part of the file's name
	}{
		{syscall.ENOSPC, "write", "00000000000000000000.log"},
		{syscall.ENOSPC, "write", "recovery-point-offset-checkpoint"},
		{syscall.ENOSPC, "write", "replication-offset-checkpoint"},
		{syscall.EMFILE, "open", "recovery-point-offset-checkpoint"},
		{syscall.EMFILE, "open", "replication-offset-checkpoint"},
	} {
		t.Run(row.short.Error()+" for "+row.part, func(t *testing.T) {
			b := newBrokerIn(t, 1, &network{brokers: make(map[int32]*broker)}, "/a", "/b")
			p := b.must(t, 1, 0, []int32{1}, []int32{1})
			appendTo(t, p, "v")
			from := p.Log().Dir()
			to := map[string]string{"/a": "/b", "/b": "/a"}[from]
			met := make(chan struct{})
			meet := sync.OnceFunc(func() { close(met) })
			b.fs.SetFault(func(op, name string) error {
				if op == row.op && strings.HasPrefix(name, to+"/") && strings.Contains(name, row.part) {
					meet()
					return row.short
				}
				return nil
			})
			if err := b.MoveTo(tp0, to); err != nil {
				t.Fatal(err)
			}
			<-met
			if p.Log().Dir() != from {
				t.Error("the log was moved in spite of the fault")
			}
			b.fs.SetFault(nil)
			testwait.Until(t, "the move", func() bool { return p.Log().Dir() == to })
			if got := content(t, p.Log()); !slices.Equal(got, []string{"0=v"}) {
				t.Errorf("the log has %v", got)
			}
		})
	}
}

// TestMoveFollowsTruncation truncates a follower whose replica is being moved, slowed down by the throttle.
func TestMoveFollowsTruncation(t *testing.T) {
	n := &network{brokers: make(map[int32]*broker)}
	one, two := newBrokerIn(t, 1, n, "/a", "/b"), newBrokerIn(t, 2, n, "/a", "/b")
	first, second := one.must(t, 1, 0, both, both), two.must(t, 1, 0, both, both)
	appendTo(t, first, "a")
	sameLogs(t, first, second)
	two.must(t, 2, 1, both, []int32{2}) // broker 2 leads, while broker 1 does not know yet and appends more
	appendTo(t, first, "lost", "lost too")
	if err := one.MoveTo(tp0, "/b"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the move", func() bool { return first.Log().Dir() == "/b" })
	one.moving.exceeded.Store(true)
	if err := one.MoveTo(tp0, "/a"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, second, "kept")
	one.must(t, 2, 1, both, []int32{2})
	sameLogs(t, second, first)
	if first.Log().Dir() != "/b" {
		t.Error("the throttle does not delay the move")
	}
	one.moving.exceeded.Store(false)
	testwait.Until(t, "the move back", func() bool { return first.Log().Dir() == "/a" })
	sameLogs(t, second, first)
	if got := content(t, first.Log()); !slices.Equal(got, []string{"0=a", "1=kept"}) {
		t.Errorf("the log has %v", got)
	}
}

// TestMoveOfUnhostedPartition: for a partition that is not hosted yet the directory is remembered; a cancelled move
// leaves nothing behind, nor does a deletion.
func TestMoveOfUnhostedPartition(t *testing.T) {
	one := newBrokerIn(t, 1, nil, "/a", "/b")
	if err := one.MoveTo(tp0, "/b"); !errors.Is(err, kerr.ReplicaNotAvailable) {
		t.Errorf("%v", err)
	}
	if err := one.MoveTo(tp0, "/c"); !errors.Is(err, kerr.LogDirNotFound) {
		t.Errorf("%v", err)
	}
	p := one.must(t, 1, 0, []int32{1}, []int32{1})
	if p.Log().Dir() != "/b" {
		t.Errorf("the replica is in %s", p.Log().Dir())
	}
	one.moving.exceeded.Store(true)
	futures := func() (n int) {
		for _, d := range one.cfg.Logs.Dirs() {
			for _, l := range d.Logs {
				if l.Future {
					n++
				}
			}
		}
		return n
	}
	move := func(dir string, want int) {
		t.Helper()
		if err := one.MoveTo(tp0, dir); err != nil {
			t.Fatal(err)
		}
		if n := futures(); n != want {
			t.Errorf("%d copies, want %d", n, want)
		}
	}
	move("/a", 1)
	move("/b", 0)
	move("/a", 1)
	errs, err := one.StopReplicas(1, []Stop{{TP: tp0, LeaderEpoch: -2, Delete: true}})
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	if n := futures(); n != 0 {
		t.Errorf("%d copies of a deleted partition remain", n)
	}
	if _, ok := one.cfg.Logs.Log(tp0); ok {
		t.Error("the partition still exists")
	}
}

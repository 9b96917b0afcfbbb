package replica

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/internal/vfs"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// slowDisk delays reads of segment files once it is slow: each read signals that it has begun, and waits.
type slowDisk struct {
	vfs.FS
	slow  atomic.Bool
	begun chan struct{}
	goOn  chan struct{}
}

func (d *slowDisk) OpenFile(name string, flag int) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return slowFile{f, d}, nil
}

type slowFile struct {
	vfs.File
	disk *slowDisk
}

func (f slowFile) ReadAt(p []byte, off int64) (int, error) {
	if f.disk.slow.CompareAndSwap(true, false) {
		f.disk.begun <- struct{}{}
		<-f.disk.goOn
	}
	return f.File.ReadAt(p, off)
}

// newSlowBroker returns a leader of one partition with records of one epoch, on a disk that can be made slow.
func newSlowBroker(t *testing.T, dirs ...string) (*broker, *Partition, *slowDisk) {
	t.Helper()
	disk := &slowDisk{FS: vfs.NewMem(time.Now), begun: make(chan struct{}), goOn: make(chan struct{})}
	cfg := logsConfig(1, disk, dirs...)
	logs, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := newBrokerOver(t, 1, &network{brokers: make(map[int32]*broker)}, logs, cfg)
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "a")
	appendTo(t, p, "b")
	if err := p.Log().Roll(); err != nil { // the positions of batches in the last segment are cached, and would be found without the disk
		t.Fatal(err)
	}
	disk.slow.Store(true)
	return b, p, disk
}

// reading is a Read in progress.
type reading struct {
	view View
	err  error
}

func startReading(t *testing.T, p *Partition, disk *slowDisk, at Position) chan reading {
	t.Helper()
	done := make(chan reading, 1)
	go func() {
		v, err := p.Read(Reader{Replica: -1, LeaderOnly: true}, at)
		done <- reading{v, err}
	}()
	select {
	case <-disk.begun:
	case got := <-done:
		t.Fatalf("the disk was not read: %+v", got)
	}
	return done
}

var fromOne = Position{LeaderEpoch: noEpoch, LastFetchedEpoch: noEpoch, Offset: 1, LogStart: -1, MaxBytes: 1000, AtLeastOne: true}

// TestSlowReadsHoldUpNothing: while the disk is read for a fetch, the role can change and records are appended. The
// fetch returns what is there at its end.
func TestSlowReadsHoldUpNothing(t *testing.T) {
	b, p, disk := newSlowBroker(t, "/a")
	done := startReading(t, p, disk, fromOne)
	appendTo(t, p, "c")
	b.must(t, 1, 1, []int32{1}, []int32{1})
	appendTo(t, p, "d")
	close(disk.goOn)
	got := <-done
	if got.err != nil || got.view.HighWatermark != 4 {
		t.Fatalf("%+v", got)
	}
	got.view.Records.Close()
}

// TestSlowMovesHoldUpNothing: while the disk is read for a move to another directory, the role can change and records
// are appended.
func TestSlowMovesHoldUpNothing(t *testing.T) {
	b, p, disk := newSlowBroker(t, "/a", "/b")
	to := map[string]string{"/a": "/b", "/b": "/a"}[p.Log().Dir()]
	if err := b.MoveTo(tp0, to); err != nil {
		t.Fatal(err)
	}
	<-disk.begun
	appendTo(t, p, "c")
	b.must(t, 1, 1, []int32{1}, []int32{1})
	appendTo(t, p, "d")
	close(disk.goOn)
	testwait.Until(t, "the replica in the other directory", func() bool { return p.Log().Dir() == to })
	if got := content(t, p.Log()); len(got) != 4 {
		t.Errorf("records %v", got)
	}
}

// TestSlowReadsAreFenced: records that were read as the leader of one epoch are not returned in the next one.
func TestSlowReadsAreFenced(t *testing.T) {
	b, p, disk := newSlowBroker(t, "/a")
	at := fromOne
	at.LeaderEpoch = 0
	done := startReading(t, p, disk, at)
	b.must(t, 2, 1, []int32{1, 2}, []int32{1, 2})
	close(disk.goOn)
	if got := <-done; !errors.Is(got.err, kerr.FencedLeaderEpoch) || got.view.Records.Size != 0 {
		t.Errorf("%+v", got)
	}
}

// TestSlowReadsAreOfTheLogInPlace: if a log is moved to another directory meanwhile, it is read there.
func TestSlowReadsAreOfTheLogInPlace(t *testing.T) {
	b, p, disk := newSlowBroker(t, "/a", "/b")
	to := map[string]string{"/a": "/b", "/b": "/a"}[p.Log().Dir()]
	done := startReading(t, p, disk, fromOne)
	if err := b.MoveTo(tp0, to); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the replica in the other directory", func() bool { return p.Log().Dir() == to })
	close(disk.goOn)
	got := <-done
	if got.err != nil || got.view.Records.Size == 0 {
		t.Fatalf("%+v", got)
	}
	first := make([]byte, got.view.Records.Size)
	if _, err := got.view.Records.ReadAt(first, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	got.view.Records.Close()
}

// TestReadsOfARecreatedTopic: a fetch with the id of a deleted topic does not get the records of the next topic with its
// name (ReplicaManager.readFromLog, 3.9). Readers and topics without an id are not checked.
func TestReadsOfARecreatedTopic(t *testing.T) {
	b := newBroker(t, 1, nil)
	p := b.must(t, 1, 0, []int32{1}, []int32{1})
	appendTo(t, p, "a")
	for _, test := range []struct {
		log, asked [16]byte
		want       error
	}{
		{[16]byte{}, [16]byte{7}, nil},
		{[16]byte{8}, [16]byte{7}, kerr.InconsistentTopicID},
		{[16]byte{7}, [16]byte{7}, nil},
		{[16]byte{7}, [16]byte{}, nil},
	} {
		p.mu.topicID = test.log
		at := fromOne
		at.Offset, at.TopicID = 0, test.asked
		v, err := p.Read(Reader{Replica: -1, LeaderOnly: true}, at)
		if !errors.Is(err, test.want) {
			t.Errorf("topic id %x for a log with %x: %v", test.asked[0], test.log[0], err)
		}
		v.Records.Close()
	}
}

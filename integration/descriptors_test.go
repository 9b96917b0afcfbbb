package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"
)

// descriptors returns how many files and sockets the broker has open.
func (p *process) descriptors() int {
	p.t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(names)
}

// limitDescriptors sets how many files and sockets the broker may have open.
func (p *process) limitDescriptors(n uint64) (before uint64) {
	p.t.Helper()
	var limit unix.Rlimit
	if err := unix.Prlimit(p.pid(), unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		p.t.Fatal(err)
	}
	next := unix.Rlimit{Cur: n, Max: limit.Max}
	if err := unix.Prlimit(p.pid(), unix.RLIMIT_NOFILE, &next, nil); err != nil {
		p.t.Fatal(err)
	}
	return limit.Cur
}

// TestDescriptorsRunOut: clients take all of a broker's file descriptors while segments are rolled, topics are created
// and deleted and the connection to ZooKeeper breaks. Nothing that was acknowledged is lost, there are few log lines, and
// the broker does what it was asked for when there are descriptors again.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	way := newProxy(t, zookeeper(t))
	p := newProcess(t, 0, way.addr(), "log.segment.bytes=100000", "log.retention.check.interval.ms=300", "log.segment.delete.delay.ms=100",
		"replica.high.watermark.checkpoint.interval.ms=200", "log.flush.offset.checkpoint.interval.ms=200")
	p.start()
	cl, adm := diskClient(t, p.addr())
	for _, topic := range []string{"t", "going"} {
		if _, err := adm.CreateTopic(t.Context(), chaosPartitions, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	acked := produceDuring(t, cl, func() {
		until(t, "segments are rolled", func(context.Context) bool {
			rolled, _ := filepath.Glob(filepath.Join(p.logDir(), "t-*", "*.log"))
			return len(rolled) > 2*chaosPartitions
		})
		before := p.limitDescriptors(uint64(p.descriptors() + 2))
		var crowd []net.Conn
		for range 50 {
			if c, err := net.DialTimeout("tcp", p.addr(), time.Second); err == nil {
				crowd = append(crowd, c)
			}
		}
		until(t, "no connection can be accepted", func(context.Context) bool { return strings.Contains(p.log(), "cannot accept a connection") })
		_, _ = adm.CreateTopic(t.Context(), 5, 1, nil, "coming") // the partitions have no leaders yet
		_, _ = adm.DeleteTopics(t.Context(), "going")
		until(t, "a log cannot be created", func(context.Context) bool { return strings.Contains(p.log(), "too many open files: operations fail") })
		way.turn(way.leadsTo())
		until(t, "the connection to ZooKeeper is lost", func(context.Context) bool { return strings.Contains(p.log(), "zookeeper connection lost") })
		time.Sleep(3 * time.Second)
		p.limitDescriptors(before)
		for _, c := range crowd {
			_ = c.Close()
		}
	})
	for partition, want := range acked {
		checkPartition(t, []string{p.addr()}, int32(partition), want, nil)
	}
	until(t, "the new topic is served, and the deleted one has gone", func(ctx context.Context) bool {
		topics, err := adm.ListTopics(ctx)
		return err == nil && !topics.Has("going") && len(topics["coming"].Partitions) == 5 &&
			!slices.ContainsFunc(topics["coming"].Partitions.Sorted(), func(p kadm.PartitionDetail) bool { return p.Leader != 0 })
	})
	if n := strings.Count(p.log(), "level=warning") + strings.Count(p.log(), "level=error"); n > 60 {
		t.Errorf("%d warnings and errors:\n%s", n, p.log())
	}
	if strings.Contains(p.log(), "offline") {
		t.Errorf("something went offline:\n%s", p.log())
	}
}

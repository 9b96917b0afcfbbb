package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	benchGroups  = 100
	groupMembers = 10
)

// BenchmarkThousandMembers lets 1,000 members, each on its own connection, join 100 groups at once, and reports the
// time until every group is stable with all its members, and the broker's CPU usage until then. It runs with our broker
// and with Apache Kafka, under two names.
func BenchmarkThousandMembers(b *testing.B) {
	b.Run("barnabas", func(b *testing.B) {
		p := newProcess(b, 1, zookeeper(b))
		p.start()
		benchmarkMembers(b, p.addr(), p.cmd.Process.Pid)
	})
	b.Run("apache-kafka", func(b *testing.B) {
		addr, logs, _ := startPeer(b, 1, zookeeper(b), "group.initial.rebalance.delay.ms=0", "offsets.topic.replication.factor=1")
		pid, err := os.ReadFile(filepath.Join(filepath.Dir(logs), "pid"))
		if err != nil {
			b.Fatal(err)
		}
		number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
		if err != nil {
			b.Fatal(err)
		}
		benchmarkMembers(b, addr, number)
	})
}

func benchmarkMembers(b *testing.B, addr string, pid int) {
	awaitCoordinator(b, addr)
	for round := range 5 { // to warm up a JVM
		members := connectMembers(b, addr, fmt.Sprint("warm-", round))
		joinAll(b, members)
		leaveAll(members)
	}
	var stable time.Duration
	var cpu float64
	for round := range b.N {
		members := connectMembers(b, addr, fmt.Sprint("round-", round))
		began, used := time.Now(), processSeconds(b, pid)
		joinAll(b, members)
		stable += time.Since(began)
		cpu += processSeconds(b, pid) - used
		leaveAll(members)
	}
	b.ReportMetric(0, "ns/op") // it would include connecting and leaving
	b.ReportMetric(stable.Seconds()*1000/float64(b.N), "ms-to-stable")
	b.ReportMetric(cpu*1000/float64(b.N), "cpu-ms")
}

func awaitCoordinator(b *testing.B, addr string) {
	b.Helper()
	cl := newClient(b, kgo.SeedBrokers(addr))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.Context(), groupPatience)
	defer cancel()
	for {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = "anything"
		if resp, err := req.RequestWith(ctx, cl); err == nil && resp.ErrorCode == 0 {
			return
		} else if ctx.Err() != nil {
			b.Fatalf("no coordinator: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// stability determines when all members of a group are in one generation.
type stability struct {
	mu     sync.Mutex // guards synced
	synced map[int32]int
	done   chan struct{}
}

func (s *stability) member(generation int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced[generation]++; s.synced[generation] == groupMembers {
		close(s.done)
	}
}

type benchMember struct {
	*memberWire
	stable *stability
}

func connectMembers(b *testing.B, addr, prefix string) []benchMember {
	b.Helper()
	members := make([]benchMember, 0, benchGroups*groupMembers)
	for group := range benchGroups {
		s := &stability{synced: make(map[int32]int), done: make(chan struct{})}
		for range groupMembers {
			members = append(members, benchMember{&memberWire{wire: dialWire(b, addr), group: fmt.Sprint(prefix, "-", group)}, s})
		}
	}
	return members
}

func joinAll(b *testing.B, members []benchMember) {
	b.Helper()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(m.untilStable)
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// untilStable joins, and rejoins whenever the group rebalances, until the group is complete.
func (m benchMember) untilStable() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	err := m.join("t")
	for {
		switch err {
		case nil:
			m.stable.member(m.generation)
		case kerr.RebalanceInProgress:
		default:
			m.t.Errorf("joining %s: %v", m.group, err)
			return
		}
		for err == nil {
			select {
			case <-m.stable.done:
				return
			case <-tick.C:
				err = m.heartbeat()
			}
		}
		if err == kerr.RebalanceInProgress {
			err = m.join("t")
		}
	}
}

func leaveAll(members []benchMember) {
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() {
			m.leave()
			_ = m.conn.Close()
		})
	}
	all.Wait()
}

// processSeconds returns the CPU time that a process has used, from /proc, which has a resolution of 10 ms.
func processSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const utime, stime = 11, 12 // fields 14 and 15, counted from after the name
	ticks := 0
	for _, f := range []string{fields[utime], fields[stime]} {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return float64(ticks) / 100
}

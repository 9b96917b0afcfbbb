package group

import (
	"fmt"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func benchmarked(b *testing.B) *Coordinator {
	cfg := testConfig(b, newHosted(b))
	cfg.Logger = testlog.Quiet()
	cfg.MaxSize, cfg.InitialRebalanceDelay = 1<<20, time.Second
	return start(b, cfg)
}

// BenchmarkCommit commits offsets to a log in memory, with no replicas to wait for.
func BenchmarkCommit(b *testing.B) {
	for _, partitions := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			c := benchmarked(b)
			offsets := make([]Offset, partitions)
			for i := range offsets {
				offsets[i] = Offset{Partition: tp, Offset: 7, LeaderEpoch: 1, CommittedMs: -1, RetentionMs: -1}
				offsets[i].Partition.Partition = int32(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Commit(Committer{Group: "g", Generation: -1}, offsets); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	c := benchmarked(b)
	req := heartbeatOf("g", enter(b, c, "g"))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Heartbeat(req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRebalance takes a group through one generation: all members join and sync.
func BenchmarkRebalance(b *testing.B) {
	for _, size := range []int{10, 200, 1000} {
		b.Run(fmt.Sprintf("members=%d", size), func(b *testing.B) {
			c := benchmarked(b)
			ids := make([]string, size)
			for i := range ids {
				resp, _ := c.Join(joinRequestOf("g", ""), Client{ID: "c"}).Now()
				ids[i] = resp.MemberID
			}
			generation(b, c, ids) // the first one waits for more members
			b.ReportAllocs()
			for b.Loop() {
				generation(b, c, ids)
			}
		})
	}
}

func generation(b *testing.B, c *Coordinator, ids []string) {
	answers := make([]Answer[*kmsg.JoinGroupResponse], len(ids))
	for i, id := range ids {
		answers[i] = c.Join(joinRequestOf("g", id), Client{ID: "c"})
	}
	var sync []*kmsg.SyncGroupRequest
	for _, a := range answers {
		joined, err := a.Wait(b.Context())
		if err != nil || joined.ErrorCode != 0 {
			b.Fatalf("join: %v, code %d", err, joined.ErrorCode)
		}
		req := syncRequestOf("g", joined)
		req.GroupAssignment = nil
		for _, m := range joined.Members {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("part")})
		}
		sync = append(sync, req)
	}
	var waiting []Answer[*kmsg.SyncGroupResponse]
	for _, req := range sync {
		waiting = append(waiting, c.Sync(req))
	}
	for _, a := range waiting {
		if synced, err := a.Wait(b.Context()); err != nil || synced.ErrorCode != 0 {
			b.Fatalf("sync: %v, code %d", err, synced.ErrorCode)
		}
	}
}

// BenchmarkLoad loads a partition with many groups that commit in transactions of many producers.
func BenchmarkLoad(b *testing.B) {
	for _, groups := range []int{1000, 4000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			h := newHosted(b)
			for i := range groups {
				value := NewestVersions.offsetValue(commit{offset: int64(i), leaderEpoch: none, expiresMs: none})
				records := record.NewBuilder()
				records.ProducerID, records.BaseSequence, records.Transactional = int64(i), 0, true
				records.Add(1, offsetKey(fmt.Sprint("g", i), tp), value)
				h.write(b, records)
				h.write(b, marker(int64(i), true))
			}
			for b.Loop() {
				if err := newLoaded().read(b.Context(), h, 5<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

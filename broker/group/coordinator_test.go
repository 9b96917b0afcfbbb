package group

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/errcode"
	"barnabas/internal/testwait"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWhoCoordinates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := New(testConfig(t, h))
		c.Start()
		elsewhere := strings.Repeat("x", 200)
		check := func(when, groupID, want string) {
			t.Helper()
			if got := fetched(t, c, groupID, false); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		check("no partition is led", "g", "NOT_COORDINATOR")
		c.loaders <- struct{}{} // others are being loaded
		c.loaders <- struct{}{}
		c.loaders <- struct{}{}
		c.loaders <- struct{}{}
		c.LeadershipChanged(0, 0, true)
		check("while it is loaded", "g", "COORDINATOR_LOAD_IN_PROGRESS")
		if err := c.Heartbeat(&kmsg.HeartbeatRequest{Group: "g"}); err != nil {
			t.Errorf("heartbeat while it is loaded: %v", err)
		}
		if resp, _ := c.Sync(&kmsg.SyncGroupRequest{Group: "g"}).Now(); resp.ErrorCode != kerr.RebalanceInProgress.Code {
			t.Errorf("sync while it is loaded: code %d", resp.ErrorCode)
		}
		if _, err := c.List(nil, nil); err != kerr.CoordinatorLoadInProgress {
			t.Errorf("list while it is loaded: %v", err)
		}
		<-c.loaders
		synctest.Wait()
		check("loaded", "g", `-1 epoch -1 ""`)
		check("of another partition", elsewhere, "NOT_COORDINATOR")
		if err := c.Heartbeat(&kmsg.HeartbeatRequest{}); err != kerr.InvalidGroupID {
			t.Errorf("heartbeat without a group: %v", err)
		}
		c.LeadershipChanged(0, 1, false)
		check("no longer led", "g", "NOT_COORDINATOR")
		c.Close()
		check("closed", "g", "COORDINATOR_NOT_AVAILABLE")
		c.LeadershipChanged(0, 2, true)
		check("led after it was closed", "g", "COORDINATOR_NOT_AVAILABLE")
	})
}

func TestCommitCountsWhenReplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		commitSimple(t, c, "g", 1)
		h.set(func() { h.mu.lags = true })
		second, err := c.Commit(Committer{Group: "g", Generation: -1}, offsetAt(2))
		if err != nil {
			t.Fatal(err)
		}
		third, err := c.Commit(Committer{Group: "g", Generation: -1}, offsetAt(3))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(plain, stable string) {
			t.Helper()
			if got := fetched(t, c, "g", false); got != plain {
				t.Errorf("offset %s, want %s", got, plain)
			}
			if got := fetched(t, c, "g", true); got != stable {
				t.Errorf("stable offset %s, want %s", got, stable)
			}
		}
		expect(`1 epoch 4 ""`, "UNSTABLE_OFFSET_COMMIT")
		h.log.SetHighWatermark(2)
		h.changed.Notify()
		if err := second(t.Context()); err != nil {
			t.Errorf("second: %v", err)
		}
		expect(`2 epoch 4 ""`, "UNSTABLE_OFFSET_COMMIT")
		if err := third(t.Context()); err != kerr.RequestTimedOut {
			t.Errorf("third: %v", err)
		}
		h.catchUp()
		expect(`3 epoch 4 ""`, `3 epoch 4 ""`)
	})
}

func TestFailedWrites(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		commit error
		group  error
	}{
		{"too few replicas", kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable, kerr.CoordinatorNotAvailable},
		{"not the leader", kerr.NotLeaderForPartition, kerr.NotCoordinator, kerr.NotCoordinator},
		{"leader of another epoch", kerr.FencedLeaderEpoch, kerr.NotCoordinator, kerr.NotCoordinator},
		{"disk", kerr.KafkaStorageError, kerr.NotCoordinator, kerr.NotCoordinator},
		{"too large", kerr.MessageTooLarge, kerr.InvalidCommitOffsetSize, kerr.UnknownServerError},
		{"timeout", kerr.RequestTimedOut, kerr.RequestTimedOut, kerr.RebalanceInProgress},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHosted(t)
				c := start(t, testConfig(t, h))
				commitSimple(t, c, "g", 1)
				first, _ := c.Join(joinRequestOf("g", ""), Client{}).Now()
				joined, err := c.Join(joinRequestOf("g", first.MemberID), Client{}).Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				h.set(func() { h.mu.refuse = test.err })
				if _, err := c.Commit(Committer{Group: "simple", Generation: -1}, offsetAt(2)); err != test.commit {
					t.Errorf("commit: %v, want %v", err, test.commit)
				}
				if got := fetched(t, c, "simple", true); got != `-1 epoch -1 ""` {
					t.Errorf("offset after a failed commit: %s", got)
				}
				synced, err := c.Sync(syncRequestOf("g", joined)).Wait(t.Context())
				if err != nil || synced.ErrorCode != errcode.Of(test.group) {
					t.Errorf("sync: %v, code %d, want %v", err, synced.ErrorCode, test.group)
				}
				h.set(func() { h.mu.refuse = nil })
				if err := c.Heartbeat(heartbeatOf("g", joined)); err != kerr.RebalanceInProgress {
					t.Errorf("heartbeat after a failed assignment: %v", err)
				}
			})
		})
	}
}

func TestAssignmentWaitsForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		first, _ := c.Join(joinRequestOf("g", ""), Client{}).Now()
		joined, err := c.Join(joinRequestOf("g", first.MemberID), Client{}).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.set(func() { h.mu.lags = true })
		answer := c.Sync(syncRequestOf("g", joined))
		if _, there := answer.Now(); there || c.Describe("g").State != "CompletingRebalance" {
			t.Fatal("the assignment is used before it is replicated")
		}
		h.catchUp()
		synced, err := answer.Wait(t.Context())
		if err != nil || synced.ErrorCode != 0 || string(synced.MemberAssignment) != "all" {
			t.Fatalf("sync: %v, code %d, %q", err, synced.ErrorCode, synced.MemberAssignment)
		}
		if state := c.Describe("g").State; state != "Stable" {
			t.Fatalf("the group is %s", state)
		}
		// The followers do not catch up: the members have to rejoin.
		joined, err = c.Join(joinRequestOf("g", joined.MemberID), Client{}).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synced, err = c.Sync(syncRequestOf("g", joined)).Wait(t.Context())
		if err != nil || synced.ErrorCode != kerr.RebalanceInProgress.Code {
			t.Fatalf("sync that is not replicated: %v, code %d", err, synced.ErrorCode)
		}
	})
}

// TestFailover unloads a partition while members wait and loads it again: the group continues from its records.
func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		joined := enter(t, c, "g")
		commitSimple(t, c, "simple", 7)
		second, _ := c.Join(joinRequestOf("g", ""), Client{}).Now()
		waiting := c.Join(joinRequestOf("g", second.MemberID), Client{})
		c.LeadershipChanged(0, 1, false)
		if resp, err := waiting.Wait(t.Context()); err != nil || resp.ErrorCode != kerr.NotCoordinator.Code {
			t.Errorf("join while the partition is unloaded: %v, code %d", err, resp.ErrorCode)
		}
		h.set(func() { h.mu.epoch = 2 })
		c.LeadershipChanged(0, 2, true)
		awaitLoaded(t, c)
		if err := c.Heartbeat(heartbeatOf("g", joined)); err != nil {
			t.Errorf("heartbeat of the member: %v", err)
		}
		synced, err := c.Sync(syncRequestOf("g", joined)).Wait(t.Context())
		if err != nil || string(synced.MemberAssignment) != "all" {
			t.Errorf("sync of the member: %v, %q", err, synced.MemberAssignment)
		}
		if got := fetched(t, c, "simple", false); got != `7 epoch 4 ""` {
			t.Errorf("offset: %s", got)
		}
		// The broker is elected again without having lost the partition: the members stay.
		h.set(func() { h.mu.epoch = 3 })
		c.LeadershipChanged(0, 3, true)
		commitSimple(t, c, "simple", 8)
		// The member's session expires, counted from the loading.
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if state := c.Describe("g").State; state != "Empty" {
			t.Errorf("the group is %s", state)
		}
	})
}

func TestLoadedGroupIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		cfg := testConfig(t, h)
		cfg.InitialRebalanceDelay = time.Second
		c := start(t, cfg)
		var ids []string
		for range 3 {
			first, _ := c.Join(joinRequestOf("g", ""), Client{}).Now()
			ids = append(ids, first.MemberID)
		}
		var answers []Answer[*kmsg.JoinGroupResponse]
		for _, id := range ids {
			answers = append(answers, c.Join(joinRequestOf("g", id), Client{}))
		}
		for _, a := range answers {
			joined, err := a.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.Sync(syncRequestOf("g", joined))
		}
		c.Close()
		cfg.MaxSize = 2
		c = start(t, cfg)
		if state := c.Describe("g").State; state != "PreparingRebalance" {
			t.Errorf("the group is %s", state)
		}
		for i, id := range ids {
			answers[i] = c.Join(joinRequestOf("g", id), Client{})
		}
		for i, want := range []int16{0, 0, kerr.GroupMaxSizeReached.Code} {
			if resp, err := answers[i].Wait(t.Context()); err != nil || resp.ErrorCode != want {
				t.Errorf("member %d: %v, code %d, want %d", i, err, resp.ErrorCode, want)
			}
		}
	})
}

func TestListAndDescribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, testConfig(t, newHosted(t)))
		joined := enter(t, c, "stable")
		commitSimple(t, c, "empty", 1)
		for _, test := range []struct {
			states, types []string
			want          string
		}{
			{nil, nil, "empty/ stable/consumer"},
			{[]string{"STABLE"}, nil, "stable/consumer"},
			{[]string{"Empty", "Bogus"}, []string{"Classic"}, "empty/"},
			{nil, []string{"consumer"}, ""},
			{[]string{"Dead"}, nil, ""},
		} {
			groups, err := c.List(test.states, test.types)
			if err != nil {
				t.Fatal(err)
			}
			found := make(map[string]string)
			for _, g := range groups {
				found[g.Group+"/"+g.ProtocolType] = g.GroupState
			}
			if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != test.want {
				t.Errorf("states %v, types %v: %q, want %q", test.states, test.types, got, test.want)
			}
		}
		g := c.Describe("stable")
		if g.State != "Stable" || g.Protocol != "range" || len(g.Members) != 1 || g.Members[0].MemberID != joined.MemberID ||
			string(g.Members[0].MemberAssignment) != "all" || g.Members[0].ClientHost != "/127.0.0.1" {
			t.Errorf("described as %+v", g)
		}
		if g := c.Describe("nobody"); g.State != "Dead" || g.ErrorCode != 0 {
			t.Errorf("an unknown group is described as %+v", g)
		}
	})
}

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		joined := enter(t, c, "g")
		other := logstore.TopicPartition{Topic: "other"}
		for _, p := range []logstore.TopicPartition{tp, other} {
			if _, err := c.Commit(Committer{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation},
				[]Offset{{Partition: p, Offset: 1, CommittedMs: -1, RetentionMs: -1}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Delete("g"); err != kerr.NonEmptyGroup {
			t.Errorf("delete with a member: %v", err)
		}
		errs, err := c.DeleteOffsets("g", []logstore.TopicPartition{tp, other})
		if err != nil || errs[0] != kerr.GroupSubscribedToTopic || errs[1] != nil {
			t.Errorf("offsets with a member: %v, %v", errs, err)
		}
		if _, err := c.Leave("g", []kmsg.LeaveGroupRequestMember{{MemberID: joined.MemberID}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete("g"); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := c.Delete("g"); err != kerr.GroupIDNotFound {
			t.Errorf("delete again: %v", err)
		}
		if _, err := c.DeleteOffsets("g", []logstore.TopicPartition{tp}); err != kerr.GroupIDNotFound {
			t.Errorf("offsets of a group that is gone: %v", err)
		}
		commitSimple(t, c, "simple", 1)
		if _, err := c.DeleteOffsets("simple", []logstore.TopicPartition{tp}); err != nil {
			t.Errorf("the only offset: %v", err)
		}
		if state := c.Describe("simple").State; state != "Dead" {
			t.Errorf("a group with neither members nor offsets is %s", state)
		}
		c.Close()
		c = start(t, testConfig(t, h))
		if groups, _ := c.List(nil, nil); len(groups) != 0 {
			t.Errorf("groups after loading: %v", groups)
		}
	})
}

// TestCounts checks the coordinator's metrics: offsets committed, stored, deleted and expired, completed rebalances,
// loaded partitions.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, loads := newHosted(t), 0
		cfg := testConfig(t, h)
		cfg.Loaded = func(time.Duration) { loads++ }
		c := start(t, cfg)
		joined := enter(t, c, "g")
		by := Committer{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation}
		other := logstore.TopicPartition{Topic: "other"}
		for _, p := range []logstore.TopicPartition{tp, tp, other} {
			mustCommit(t, c, by, []Offset{{Partition: p, Offset: 1, CommittedMs: -1, RetentionMs: -1}})
		}
		refused := by
		refused.Generation++
		if _, err := c.Commit(refused, offsetAt(1)); err == nil {
			t.Fatal("a commit with a wrong generation is accepted")
		}
		commitSimple(t, c, "simple", 1)
		if got, want := c.Counts(), (Counts{Committed: 4, Rebalances: 1, Offsets: 3}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		missing := logstore.TopicPartition{Topic: "missing"}
		if _, err := c.DeleteOffsets("g", []logstore.TopicPartition{tp, other, missing}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * cfg.Retention)
		synctest.Wait()
		if got, want := c.Counts(), (Counts{Committed: 4, Rebalances: 1, Deleted: 1, Expired: 2}); got != want { // g's member was removed meanwhile
			t.Errorf("later: %+v, want %+v", got, want)
		}
		if loads != 1 {
			t.Errorf("%d loaded partitions are counted", loads)
		}
	})
}

func TestDeletedTopicsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, testConfig(t, newHosted(t)))
		commitSimple(t, c, "g", 1)
		joined := enter(t, c, "with members")
		mustCommit(t, c, Committer{Group: "with members", MemberID: joined.MemberID, Generation: joined.Generation}, offsetAt(2))
		c.TopicsDeleted([]logstore.TopicPartition{tp})
		if got := fetched(t, c, "with members", false); got != `-1 epoch -1 ""` {
			t.Errorf("offset of a deleted topic: %s", got)
		}
		if state := c.Describe("g").State; state != "Dead" {
			t.Errorf("the group is %s", state)
		}
		if state := c.Describe("with members").State; state != "Stable" {
			t.Errorf("the group with members is %s", state)
		}
	})
}

// TestTopicDeletedWhileTheDiskIsFull: the offsets of a deleted topic are forgotten though their tombstones cannot be
// written, and do not come back after a failover once they could be; those of the next topic with its name stay.
func TestTopicDeletedWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		cfg := testConfig(t, h)
		cfg.Retention = time.Hour
		c := start(t, cfg)
		commitSimple(t, c, "g", 1)
		commitSimple(t, c, "again", 1)
		h.set(func() { h.mu.refuse = kerr.KafkaStorageError })
		c.TopicsDeleted([]logstore.TopicPartition{tp})
		for _, group := range []string{"g", "again"} {
			if got := fetched(t, c, group, false); got != `-1 epoch -1 ""` {
				t.Errorf("offset of %s: %s", group, got)
			}
		}
		time.Sleep(20 * time.Second) // it tries in vain
		h.set(func() { h.mu.refuse = nil })
		commitSimple(t, c, "again", 2)
		time.Sleep(20 * time.Second)
		c.Close()
		c = start(t, cfg)
		if got := fetched(t, c, "g", false); got != `-1 epoch -1 ""` {
			t.Errorf("offset after a failover: %s", got)
		}
		if got := fetched(t, c, "again", false); got != `2 epoch 4 ""` {
			t.Errorf("offset in the next topic after a failover: %s", got)
		}
	})
}

// TestTopicDeletedWhileThePartitionMoved: offsets of a topic whose deletion no coordinator of the group has noticed are
// removed, but not those that were committed since it was found to be missing: there is a new topic.
func TestTopicDeletedWhileThePartitionMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		cfg := testConfig(t, h)
		var asked []string
		var fails error
		meanwhile := func() {}
		cfg.Gone = func(_ context.Context, topics []string) ([]string, error) {
			asked = topics
			meanwhile()
			return topics, fails
		}
		c := start(t, cfg)
		commitSimple(t, c, "g", 1)
		mustCommit(t, c, Committer{Group: "txn", Generation: -1, Txn: &Txn{ProducerID: 7}}, offsetAt(5))
		fails = kerr.NetworkException
		c.expire()
		if got := fetched(t, c, "g", true); got != `1 epoch 4 ""` {
			t.Errorf("offset when it is unknown which topics exist: %s", got)
		}
		fails, meanwhile = nil, func() { commitSimple(t, c, "g", 2) }
		c.expire()
		commitTxn(t, h, c)
		if fmt.Sprint(asked) != "[t]" {
			t.Errorf("asked for topics %v", asked)
		}
		for _, group := range []string{"g", "txn"} {
			want := map[string]string{"g": `2 epoch 4 ""`, "txn": `-1 epoch -1 ""`}[group]
			if got := fetched(t, c, group, true); got != want {
				t.Errorf("group %s has offset %s, want %s", group, got, want)
			}
		}
		meanwhile = func() {}
		c.expire()
		if got := fetched(t, c, "g", true); got != `-1 epoch -1 ""` {
			t.Errorf("offset of the missing topic: %s", got)
		}
	})
}

// TestExpiry: offsets expire when they should (KIP-211), and not before.
func TestExpiry(t *testing.T) {
	const period = 5 * time.Second // interval between checks
	at := func(when time.Duration, want string) func(*testing.T, *Coordinator) {
		return func(t *testing.T, c *Coordinator) {
			time.Sleep(when)
			synctest.Wait()
			if got := fetched(t, c, "g", false); got != want {
				t.Errorf("after %s: %s, want %s", when, got, want)
			}
		}
	}
	const one, gone = `1 epoch 4 ""`, `-1 epoch -1 ""`
	member := func(t *testing.T, c *Coordinator) Committer {
		joined := enter(t, c, "g")
		return Committer{Group: "g", MemberID: joined.MemberID, Generation: joined.Generation}
	}
	alive := func(c *Coordinator, by Committer, d time.Duration) {
		for range d / period {
			time.Sleep(period)
			_ = c.Heartbeat(&kmsg.HeartbeatRequest{Group: "g", MemberID: by.MemberID, Generation: by.Generation})
		}
	}
	tests := []struct {
		name string
		run  func(t *testing.T, c *Coordinator)
	}{
		{"simple consumer", func(t *testing.T, c *Coordinator) {
			commitSimple(t, c, "g", 1)
			at(time.Minute-time.Second, one)(t, c)
			at(period+time.Second, gone)(t, c)
			if state := c.Describe("g").State; state != "Dead" {
				t.Errorf("the group is %s", state)
			}
		}},
		{"time of its own", func(t *testing.T, c *Coordinator) {
			o := offsetAt(1)
			o[0].RetentionMs = 8000
			mustCommit(t, c, Committer{Group: "g", Generation: -1}, o)
			at(7*time.Second, one)(t, c)
			at(period, gone)(t, c)
		}},
		{"time of commit of its own", func(t *testing.T, c *Coordinator) {
			o := offsetAt(1)
			o[0].CommittedMs = time.Now().Add(-50 * time.Second).UnixMilli()
			mustCommit(t, c, Committer{Group: "g", Generation: -1}, o)
			at(9*time.Second, one)(t, c)
			at(period+2*time.Second, gone)(t, c)
		}},
		{"subscribed", func(t *testing.T, c *Coordinator) {
			by := member(t, c)
			mustCommit(t, c, by, offsetAt(1))
			alive(c, by, 2*time.Minute)
			at(0, one)(t, c)
		}},
		{"not subscribed", func(t *testing.T, c *Coordinator) {
			by := member(t, c)
			mustCommit(t, c, by, []Offset{{Partition: logstore.TopicPartition{Topic: "other"}, CommittedMs: -1, RetentionMs: -1}})
			alive(c, by, time.Minute+2*period)
			if topics, err := c.FetchOffsets("g", nil, false); err != nil || len(topics) != 0 {
				t.Errorf("offsets %v, %v", topics, err)
			}
		}},
		{"rebalancing", func(t *testing.T, c *Coordinator) {
			by := member(t, c)
			mustCommit(t, c, by, offsetAt(1))
			req := joinRequestOf("g", "")
			req.Version, req.RebalanceTimeoutMillis = 3, 600000
			c.Join(req, Client{})
			alive(c, by, 2*time.Minute)
			at(0, one)(t, c)
		}},
		{"counted from when the group became empty", func(t *testing.T, c *Coordinator) {
			by := member(t, c)
			mustCommit(t, c, by, offsetAt(1))
			alive(c, by, 40*time.Second)
			if _, err := c.Leave("g", []kmsg.LeaveGroupRequestMember{{MemberID: by.MemberID}}); err != nil {
				t.Fatal(err)
			}
			at(59*time.Second, one)(t, c)
			at(period+time.Second, gone)(t, c)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHosted(t)
				c := start(t, testConfig(t, h))
				test.run(t, c)
				want := fetched(t, c, "g", false)
				c.Close()
				c = start(t, testConfig(t, h)) // the tombstones lead to the same state after loading
				if got := fetched(t, c, "g", false); got != want {
					t.Errorf("after loading: %s, want %s", got, want)
				}
			})
		})
	}
}

func TestCommitChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, testConfig(t, newHosted(t)))
		joined := enter(t, c, "g")
		commitSimple(t, c, "empty", 1)
		first, _ := c.Join(joinRequestOf("unsynced", ""), Client{}).Now()
		unsynced, err := c.Join(joinRequestOf("unsynced", first.MemberID), Client{}).Wait(t.Context())
		if err != nil || unsynced.ErrorCode != 0 {
			t.Fatalf("join: %v, code %d", err, unsynced.ErrorCode)
		}
		instance := "i"
		for _, test := range []struct {
			name string
			by   Committer
			want error
		}{
			{"simple, unknown group", Committer{Group: "new", Generation: -1}, nil},
			{"simple, empty group", Committer{Group: "empty", Generation: -1}, nil},
			{"simple, empty group id", Committer{Generation: -1}, nil},
			{"simple with an instance, empty group", Committer{Group: "empty", Generation: -1, InstanceID: &instance}, nil},
			{"simple, group with members", Committer{Group: "g", Generation: -1}, kerr.UnknownMemberID},
			{"simple with an instance, group with members", Committer{Group: "g", Generation: -1, InstanceID: &instance}, kerr.UnknownMemberID},
			{"generation, unknown group", Committer{Group: "new2", Generation: 0, MemberID: "m"}, kerr.IllegalGeneration},
			{"generation, empty group", Committer{Group: "empty", Generation: 1, MemberID: "m"}, kerr.UnknownMemberID},
			{"member", Committer{Group: "g", Generation: joined.Generation, MemberID: joined.MemberID}, nil},
			{"unknown member", Committer{Group: "g", Generation: joined.Generation, MemberID: "m"}, kerr.UnknownMemberID},
			{"old generation", Committer{Group: "g", Generation: joined.Generation - 1, MemberID: joined.MemberID}, kerr.IllegalGeneration},
			{"no generation", Committer{Group: "g", Generation: -1, MemberID: joined.MemberID}, kerr.IllegalGeneration},
			{"before its assignment", Committer{Group: "unsynced", Generation: unsynced.Generation, MemberID: unsynced.MemberID}, kerr.RebalanceInProgress},
			{"transaction before its assignment", Committer{Group: "unsynced", Generation: unsynced.Generation, MemberID: unsynced.MemberID, Txn: &Txn{ProducerID: 1}}, nil},
			{"transaction of an old producer", Committer{Group: "g", Generation: -1, Txn: &Txn{ProducerID: 1}}, nil},
			{"transaction of a member", Committer{Group: "g", Generation: joined.Generation, MemberID: joined.MemberID, Txn: &Txn{ProducerID: 1}}, nil},
			{"transaction of an old member", Committer{Group: "g", Generation: joined.Generation - 1, MemberID: joined.MemberID, Txn: &Txn{ProducerID: 1}}, kerr.IllegalGeneration},
			{"transaction, unknown group", Committer{Group: "new3", Generation: 5, MemberID: "m", Txn: &Txn{ProducerID: 1}}, kerr.UnknownMemberID},
		} {
			if _, err := c.Commit(test.by, offsetAt(1)); err != test.want {
				t.Errorf("%s: %v, want %v", test.name, err, test.want)
			}
		}
	})
}

func TestMetadataTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, testConfig(t, newHosted(t)))
		fits, tooLong := strings.Repeat("ä", 8)+"😀", strings.Repeat("ä", 9)+"😀" // 10 and 11 UTF-16 units
		offsets := append(offsetAt(1), offsetAt(2)...)
		offsets[0].Metadata, offsets[1].Metadata = &fits, &tooLong
		offsets[1].Partition.Partition = 1
		mustCommit(t, c, Committer{Group: "g", Generation: -1}, offsets)
		if offsets[0].Err != nil || offsets[1].Err != kerr.OffsetMetadataTooLarge {
			t.Errorf("errors %v and %v", offsets[0].Err, offsets[1].Err)
		}
		if wait, err := c.Commit(Committer{Group: "other", Generation: -1}, offsets[1:]); wait != nil || err != nil {
			t.Errorf("only metadata that is too long: %v", err)
		}
		if topics, _ := c.FetchOffsets("g", nil, false); len(topics) != 1 || len(topics[0].Partitions) != 1 {
			t.Errorf("stored are %v", topics)
		}
	})
}

func TestTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		commitSimple(t, c, "g", 1)
		begin := func(producerID, offset int64) {
			t.Helper()
			mustCommit(t, c, Committer{Group: "g", Generation: -1, Txn: &Txn{ProducerID: producerID}}, offsetAt(offset))
		}
		end := func(producerID int64, committed bool) {
			t.Helper()
			h.write(t, marker(producerID, committed))
			c.TxnMarker(0, h.marker(producerID, committed, h.log.LogEndOffset()))
		}
		expect := func(plain, stable string) {
			t.Helper()
			if got := fetched(t, c, "g", false); got != plain {
				t.Errorf("offset %s, want %s", got, plain)
			}
			if got := fetched(t, c, "g", true); got != stable {
				t.Errorf("stable offset %s, want %s", got, stable)
			}
		}
		begin(7, 5)
		expect(`1 epoch 4 ""`, "UNSTABLE_OFFSET_COMMIT")
		end(7, false)
		expect(`1 epoch 4 ""`, `1 epoch 4 ""`)
		begin(7, 6)
		begin(8, 9)
		end(7, true)
		expect(`6 epoch 4 ""`, "UNSTABLE_OFFSET_COMMIT")
		commitSimple(t, c, "g", 10) // newer than the offset in the transaction
		end(8, true)
		expect(`10 epoch 4 ""`, `10 epoch 4 ""`)
		begin(9, 12)
		h.set(func() { h.mu.lags = true })
		if _, err := c.Commit(Committer{Group: "g", Generation: -1}, offsetAt(10)); err != nil { // newer, and not replicated yet
			t.Fatal(err)
		}
		end(9, true)
		h.set(func() { h.mu.lags = false })
		h.catchUp()
		expect(`10 epoch 4 ""`, `10 epoch 4 ""`)
		// A transaction that is open while the partition moves.
		begin(7, 11)
		c.LeadershipChanged(0, 1, false)
		h.set(func() { h.mu.epoch = 2 })
		c.LeadershipChanged(0, 2, true)
		awaitLoaded(t, c)
		expect(`10 epoch 4 ""`, "UNSTABLE_OFFSET_COMMIT")
		if err := c.Delete("g"); err != nil {
			t.Errorf("delete: %v", err)
		}
		expect(`-1 epoch -1 ""`, `-1 epoch -1 ""`)
		end(7, true)
		expect(`-1 epoch -1 ""`, `-1 epoch -1 ""`)
	})
}

// TestExpiryDuringATransaction: an offset in a transaction that is open while the previous offset expires is not lost.
func TestExpiryDuringATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		commitSimple(t, c, "g", 1)
		time.Sleep(59 * time.Second)
		commitInTxn(t, c, 5)
		time.Sleep(20 * time.Second)
		commitTxn(t, h, c)
		if got := fetched(t, c, "g", true); got != `5 epoch 4 ""` {
			t.Errorf("offset: %s", got)
		}
	})
}

// TestMarkerOfAnEarlierTransaction: a marker whose request was repeated, and which is noticed when the producer's next
// transaction is open, does not end that one.
func TestMarkerOfAnEarlierTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		end := func(committed bool) (at int64) {
			t.Helper()
			h.write(t, marker(7, committed))
			return h.log.LogEndOffset()
		}
		commitInTxn(t, c, 5)
		first, again := end(true), end(true)
		c.TxnMarker(0, h.marker(7, true, again))
		commitInTxn(t, c, 6)
		c.TxnMarker(0, h.marker(7, true, first))
		if got := fetched(t, c, "g", false); got != `5 epoch 4 ""` {
			t.Errorf("offset: %s", got)
		}
		if got := fetched(t, c, "g", true); got != "UNSTABLE_OFFSET_COMMIT" {
			t.Errorf("stable offset: %s", got)
		}
		c.TxnMarker(0, h.marker(7, false, end(false)))
		if got := fetched(t, c, "g", true); got != `5 epoch 4 ""` {
			t.Errorf("offset after the second transaction: %s", got)
		}
	})
}

// TestMarkerIsReplicatedLate: a marker takes effect when it is on all in-sync replicas, though nobody waits for it any
// longer. One that was appended in an earlier leadership is known from the log, or was lost.
func TestMarkerIsReplicatedLate(t *testing.T) {
	for _, committed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHosted(t)
			c := start(t, testConfig(t, h))
			commitSimple(t, c, "g", 1)
			lost := h.marker(7, committed, 1000)
			c.LeadershipChanged(0, 1, false)
			h.set(func() { h.mu.epoch = 2 })
			c.LeadershipChanged(0, 2, true)
			awaitLoaded(t, c)
			commitInTxn(t, c, 5)
			c.TxnMarker(0, lost)
			h.set(func() { h.mu.lags = true })
			h.write(t, marker(7, committed))
			c.TxnMarker(0, h.marker(7, committed, h.log.LogEndOffset()))
			if got := fetched(t, c, "g", true); got != "UNSTABLE_OFFSET_COMMIT" {
				t.Errorf("stable offset before the marker is replicated: %s", got)
			}
			if got := fetched(t, c, "g", false); got != `1 epoch 4 ""` {
				t.Errorf("offset before the marker is replicated: %s", got)
			}
			h.catchUp()
			want := `1 epoch 4 ""`
			if committed {
				want = `5 epoch 4 ""`
			}
			if got := fetched(t, c, "g", true); got != want {
				t.Errorf("offset %s, want %s", got, want)
			}
		})
	}
}

// TestTransactionsDoNotPileUp: a group whose offsets are only committed in transactions, and which nobody asks for, holds
// those that are not replicated yet, and the last ones.
func TestTransactionsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		for offset := range int64(100) {
			commitInTxn(t, c, offset)
			commitTxn(t, h, c)
		}
		s := c.mu.shards[0]
		s.mu.Lock()
		g, pending := s.mu.groups["g"], 0
		ended := len(g.ended)
		if of := g.offsets[tp]; of != nil {
			pending = len(of.pending)
		}
		s.mu.Unlock()
		if ended > 1 || pending > 1 {
			t.Errorf("the group holds %d ended transactions and %d pending offsets", ended, pending)
		}
		if got := fetched(t, c, "g", true); got != `99 epoch 4 ""` {
			t.Errorf("offset: %s", got)
		}
	})
}

// TestFailedDeletionDuringATransaction: a group that could not be deleted keeps the offsets of its open transactions.
func TestFailedDeletionDuringATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		commitSimple(t, c, "g", 1)
		commitInTxn(t, c, 5)
		h.set(func() { h.mu.refuse = kerr.KafkaStorageError })
		if err := c.Delete("g"); err == nil {
			t.Fatal("deleted")
		}
		h.set(func() { h.mu.refuse = nil })
		commitTxn(t, h, c)
		if got := fetched(t, c, "g", true); got != `5 epoch 4 ""` {
			t.Errorf("offset: %s", got)
		}
	})
}

// TestTopicDeletedDuringATransaction: the offset that a transaction commits for a topic that is deleted meanwhile does
// not take effect: it would be that of the next topic with its name.
func TestTopicDeletedDuringATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		commitInTxn(t, c, 5)
		c.TopicsDeleted([]logstore.TopicPartition{tp})
		commitTxn(t, h, c)
		if got := fetched(t, c, "g", true); got != `-1 epoch -1 ""` {
			t.Errorf("offset: %s", got)
		}
	})
}

// TestMarkerWhileLoading appends a marker at a place that the loader may have passed already.
func TestMarkerWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosted(t)
		c := start(t, testConfig(t, h))
		commitInTxn(t, c, 5)
		c.LeadershipChanged(0, 1, false)
		for range parallelLoads {
			c.loaders <- struct{}{}
		}
		h.set(func() { h.mu.epoch = 2 })
		c.LeadershipChanged(0, 2, true)
		c.TxnMarker(0, h.marker(7, true, h.log.LogEndOffset()))
		<-c.loaders
		awaitLoaded(t, c)
		if got := fetched(t, c, "g", true); got != `5 epoch 4 ""` {
			t.Errorf("offset: %s", got)
		}
		c.TxnMarker(99, h.marker(7, true, h.log.LogEndOffset())) // of a partition that another broker leads
	})
}

// commitInTxn commits an offset in the open transaction of producer 7.
func commitInTxn(t *testing.T, c *Coordinator, offset int64) {
	t.Helper()
	mustCommit(t, c, Committer{Group: "g", Generation: -1, Txn: &Txn{ProducerID: 7}}, offsetAt(offset))
}

// commitTxn ends that transaction.
func commitTxn(t *testing.T, h *hosted, c *Coordinator) {
	t.Helper()
	h.write(t, marker(7, true))
	c.TxnMarker(0, h.marker(7, true, h.log.LogEndOffset()))
}

func marker(producerID int64, committed bool) *record.Builder {
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.Transactional, b.Control = producerID, 0, true, true
	key := []byte{0, 0, 0, 0}
	if committed {
		key[3] = 1
	}
	b.Add(time.Now().UnixMilli(), key, []byte{0, 0, 0, 0, 0, 0})
	return b
}

// TestIdleGroupsCostMemoryOnly: groups that only have offsets, or that have lost their members, have neither goroutine
// nor timer.
func TestIdleGroupsCostMemoryOnly(t *testing.T) {
	c := start(t, testConfig(t, newHosted(t)))
	leftBehind := enter(t, c, "members gone")
	leave := kmsg.NewLeaveGroupRequestMember()
	leave.MemberID = leftBehind.MemberID
	if _, err := c.Leave("members gone", []kmsg.LeaveGroupRequestMember{leave}); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for n := range 5000 {
		commitSimple(t, c, fmt.Sprint("idle-", n), 1)
	}
	testwait.See(t, "5000 groups run no goroutines", func() (int, bool) { // a timer may be firing just now
		n := runtime.NumGoroutine() - before
		return n, n <= 0
	})
	s, err := c.shardOf("members gone", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.each(func(g *group) {
		if !g.armed.IsZero() && g.id != "members gone" {
			t.Errorf("group %s has a timer", g.id)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRebalanceTimeoutOfNothing: a group whose only member is a static one that does not rejoin is not busy while it
// waits for it, even if the member allows no time for a rebalance.
func TestRebalanceTimeoutOfNothing(t *testing.T) {
	for _, timeout := range []time.Duration{0, -time.Hour} {
		instance := "i"
		g := newGroup("g", testLimits(), epoch)
		g.insert(&member{id: "m", instance: &instance, rebalanceTimeout: timeout, sessionTimeout: time.Minute, until: epoch.Add(time.Minute)}, "consumer")
		g.state = Stable
		g.prepare(&step{now: epoch}, "a member left")
		g.expire(&step{now: epoch})
		if !g.due.After(epoch) {
			t.Errorf("timeout %v: due after %v", timeout, g.due.Sub(epoch))
		}
	}
}

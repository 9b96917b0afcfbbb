package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberWire is a member of a group that sends single requests.
type memberWire struct {
	*wire
	group      string
	id         string
	generation int32
}

// newMemberWire connects to the only broker once it coordinates the group.
func newMemberWire(t *testing.T, c *kafkatest.Cluster, group string) *memberWire {
	t.Helper()
	until(t, "a coordinator of "+group, func(ctx context.Context) bool {
		return admin(t, c).FindGroupCoordinators(ctx, group)[group].Err == nil
	})
	return &memberWire{wire: dialWire(t, c.Broker(0).Addr()), group: group}
}

func (m *memberWire) joinRequest(topics ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 7, m.group, m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = topics
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", subscription.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	return req
}

// join joins, with the member id that it got the first time, and syncs. The leader assigns nothing.
func (m *memberWire) join(topics ...string) error {
	m.t.Helper()
	for {
		resp := m.call(m.joinRequest(topics...)).(*kmsg.JoinGroupResponse)
		m.id = resp.MemberID
		switch err := kerr.ErrorForCode(resp.ErrorCode); err {
		case nil:
			m.generation = resp.Generation
			return m.sync()
		case kerr.MemberIDRequired:
		default:
			return err
		}
	}
}

func (m *memberWire) sync() error {
	m.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, m.group, m.id, m.generation
	return kerr.ErrorForCode(m.call(req).(*kmsg.SyncGroupResponse).ErrorCode)
}

func (m *memberWire) heartbeat() error {
	m.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, m.group, m.id, m.generation
	return kerr.ErrorForCode(m.call(req).(*kmsg.HeartbeatResponse).ErrorCode)
}

func (m *memberWire) leave() {
	m.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 2, m.group, m.id
	if resp := m.call(req).(*kmsg.LeaveGroupResponse); resp.ErrorCode != 0 {
		m.t.Errorf("leaving: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	m.id = ""
}

// TestChainedRebalances: members join and leave several groups; the one that stays is never unknown, and each rebalance
// begins one generation.
func TestChainedRebalances(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("group.initial.rebalance.delay.ms", "0"))
	for group := range 3 {
		t.Run(fmt.Sprint("group ", group), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("chain-", group)
			stays := newMemberWire(t, c, name)
			if err := stays.join("t"); err != nil {
				t.Fatal(err)
			}
			guest := newMemberWire(t, c, name)
			for round := range 100 {
				before := stays.generation
				joined := make(chan error, 1)
				go func() { joined <- guest.join("t") }()
				awaitRebalance(t, stays, round)
				if err := <-joined; err != nil || stays.generation != before+1 || guest.generation != before+1 {
					t.Fatalf("round %d: %v; generations %d and %d after %d", round, err, stays.generation, guest.generation, before)
				}
				guest.leave()
				awaitRebalance(t, stays, round)
				if stays.generation != before+2 {
					t.Fatalf("round %d: generation %d, was %d before a member joined and left", round, stays.generation, before)
				}
			}
		})
	}
}

// awaitRebalance lets a member send heartbeats until it is told to rejoin, and rejoins.
func awaitRebalance(t *testing.T, m *memberWire, round int) {
	t.Helper()
	deadline := time.Now().Add(groupPatience)
	for {
		switch err := m.heartbeat(); {
		case err == kerr.RebalanceInProgress:
			if err := m.join("t"); err == nil {
				return
			} else if err != kerr.RebalanceInProgress {
				t.Fatalf("round %d: rejoining: %v", round, err)
			}
		case err != nil || time.Now().After(deadline):
			t.Fatalf("round %d: heartbeat of the remaining member: %v", round, err)
		}
	}
}

// TestNoOffsetInAnyVersion: an offset that was never committed is -1 with empty metadata, not null; for a committed
// one, versions from 5 on return the leader epoch.
func TestNoOffsetInAnyVersion(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 2, 1)
	w := newMemberWire(t, c, "g")
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 8, "g", -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = 1, 7, 0
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	if code := w.call(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	for version := int16(1); version <= 9; version++ { // version 0 reads from ZooKeeper
		epoch := int32(-1)
		if version >= 5 {
			epoch = 0
		}
		for partition, want := range []struct {
			offset int64
			epoch  int32
		}{{-1, -1}, {7, epoch}} {
			got := w.fetchOffset(version, int32(partition))
			if got.ErrorCode != 0 || got.Offset != want.offset || got.LeaderEpoch != want.epoch || got.Metadata == nil || *got.Metadata != "" {
				t.Errorf("version %d, partition %d: %+v, metadata null: %t", version, partition, got, got.Metadata == nil)
			}
		}
	}
}

// fetchOffset fetches the group's offset of a partition of topic t, and returns responses of all versions in one form.
func (m *memberWire) fetchOffset(version int16, partition int32) kmsg.OffsetFetchResponseTopicPartition {
	m.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, m.group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{partition}}}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.Topics = m.group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{partition}}}
	req.Groups = append(req.Groups, group)
	resp := m.call(req).(*kmsg.OffsetFetchResponse)
	if version < 8 {
		return resp.Topics[0].Partitions[0]
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	return kmsg.OffsetFetchResponseTopicPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
		Metadata: p.Metadata, ErrorCode: p.ErrorCode}
}

// TestOffsetDelete: the result depends on the topics that exist and on those that members subscribe to, not on what was
// committed.
func TestOffsetDelete(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	for _, topic := range []string{"without", "read"} {
		newTopic(t, c, topic, 1, 1)
	}
	m := newMemberWire(t, c, "g")
	if err := m.join("read"); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for _, topic := range []string{"without", "missing", "read"} {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}})
	}
	want := map[string]error{"without": nil, "missing": kerr.UnknownTopicOrPartition, "read": kerr.GroupSubscribedToTopic}
	resp := m.call(req).(*kmsg.OffsetDeleteResponse)
	if resp.ErrorCode != 0 || len(resp.Topics) != len(want) {
		t.Fatalf("%+v", resp)
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.Partitions[0].ErrorCode); err != want[topic.Topic] {
			t.Errorf("%s: %v, want %v", topic.Topic, err, want[topic.Topic])
		}
	}
}

// TestTransactionTimeouts: transaction timeouts above the broker's maximum are refused.
func TestTransactionTimeouts(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTxnWire(t, c, "timeouts", 60_000) // once there is a coordinator
	w := dialWire(t, c.Broker(0).Addr())
	id := "timeouts"
	for timeoutMs, want := range map[int32]error{900_000: nil, 900_001: kerr.InvalidTransactionTimeout, 0: kerr.InvalidTransactionTimeout,
		-1: kerr.InvalidTransactionTimeout} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &id, timeoutMs
		if err := kerr.ErrorForCode(w.call(req).(*kmsg.InitProducerIDResponse).ErrorCode); err != want {
			t.Errorf("%d ms: %v, want %v", timeoutMs, err, want)
		}
	}
}

// TestFencedInOldVersions: versions older than PRODUCER_FENCED return INVALID_PRODUCER_EPOCH instead.
func TestFencedInOldVersions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 1, 1)
	old := newTxnWire(t, c, "fenced", 60_000)
	newTxnWire(t, c, "fenced", 60_000)
	for _, test := range []struct {
		name string
		last int16 // the last version with the old code
		call func(version int16) int16
	}{
		{"InitProducerId", 3, func(version int16) int16 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.Version, req.TransactionalID, req.TransactionTimeoutMillis = version, &old.txnID, 60_000
			req.ProducerID, req.ProducerEpoch = old.id, old.epoch
			return old.coordinator.call(req).(*kmsg.InitProducerIDResponse).ErrorCode
		}},
		{"EndTxn", 1, func(version int16) int16 {
			req := kmsg.NewPtrEndTxnRequest()
			req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, old.txnID, old.id, old.epoch
			return old.coordinator.call(req).(*kmsg.EndTxnResponse).ErrorCode
		}},
		{"AddPartitionsToTxn", 1, func(version int16) int16 {
			req := kmsg.NewPtrAddPartitionsToTxnRequest()
			req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, old.txnID, old.id, old.epoch
			req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0}}}
			return old.coordinator.call(req).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
		}},
		{"AddOffsetsToTxn", 1, func(version int16) int16 {
			req := kmsg.NewPtrAddOffsetsToTxnRequest()
			req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = version, old.txnID, old.id, old.epoch, "g"
			return old.coordinator.call(req).(*kmsg.AddOffsetsToTxnResponse).ErrorCode
		}},
	} {
		for version, want := range map[int16]*kerr.Error{test.last: kerr.InvalidProducerEpoch, test.last + 1: kerr.ProducerFenced} {
			if got := test.call(version); got != want.Code {
				t.Errorf("%s version %d: %v, want %v", test.name, version, kerr.ErrorForCode(got), want)
			}
		}
	}
}

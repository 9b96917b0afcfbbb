package group

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hosted is a partition with a log in memory. With lags set there are followers: records are not replicated until the
// test says so.
type hosted struct {
	log     *logstore.Log
	changed await.Signal

	mu struct {
		sync.Mutex
		epoch  int32 // negative: this broker is not the leader
		lags   bool
		refuse error // result of the next append
		broken bool  // the log cannot be read
	}
}

func newHosted(t testing.TB) *hosted {
	t.Helper()
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{"/data"}, 1, "test", testlog.To(t)
	cfg.FS, cfg.Now = vfs.NewMem(time.Now), time.Now
	m, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	l, err := m.GetOrCreate(logstore.TopicPartition{Topic: Topic}, [16]byte{1}, cfg.Default, true)
	if err != nil {
		t.Fatal(err)
	}
	return &hosted{log: l}
}

func (h *hosted) Log() *logstore.Log { return h.log }

func (h *hosted) ReadLog(fn func(*logstore.Log) error) error {
	h.mu.Lock()
	broken := h.mu.broken
	h.mu.Unlock()
	if broken {
		return kerr.KafkaStorageError
	}
	return fn(h.log)
}

func (h *hosted) AppendInEpoch(epoch int32, data []byte, _ bool, o logstore.LeaderAppend) (logstore.AppendInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.mu.refuse != nil:
		return logstore.AppendInfo{}, h.mu.refuse
	case h.mu.epoch < 0:
		return logstore.AppendInfo{}, kerr.NotLeaderForPartition
	case epoch != h.mu.epoch:
		return logstore.AppendInfo{}, kerr.FencedLeaderEpoch
	}
	o.LeaderEpoch = epoch
	info, err := h.log.AppendLeader(data, o)
	if err == nil && !h.mu.lags {
		h.log.SetHighWatermark(h.log.LogEndOffset())
	}
	return info, err
}

func (h *hosted) Replicated(_ int32, end int64) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.epoch < 0 {
		return false, kerr.NotLeaderForPartition
	}
	return h.log.HighWatermark() >= end, nil
}

func (h *hosted) AwaitReplicated(ctx context.Context, epoch int32, end int64) error {
	return await.Until(ctx, func() (bool, error) { return h.Replicated(epoch, end) }, &h.changed)
}

func (h *hosted) set(change func()) {
	h.mu.Lock()
	change()
	h.mu.Unlock()
	h.changed.Notify()
}

// catchUp replicates everything to the followers.
func (h *hosted) catchUp() {
	h.log.SetHighWatermark(h.log.LogEndOffset())
	h.changed.Notify()
}

// write appends records as an earlier coordinator did.
func (h *hosted) write(t testing.TB, b *record.Builder) {
	t.Helper()
	if _, err := h.AppendInEpoch(h.mu.epoch, b.MustBuild(), true, logstore.LeaderAppend{Origin: logstore.Coordinator}); err != nil {
		t.Fatal(err)
	}
}

// marker describes a marker that was appended before an offset.
func (h *hosted) marker(producerID int64, committed bool, end int64) Marker {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Marker{ProducerID: producerID, Committed: committed, LeaderEpoch: h.mu.epoch, End: end}
}

func testConfig(t testing.TB, h *hosted) Config {
	return Config{
		MinSessionTimeout: time.Second, MaxSessionTimeout: time.Hour, MaxSize: 1000, MetadataMaxBytes: 10,
		Retention: time.Minute, RetentionCheck: 5 * time.Second, CommitTimeout: 5 * time.Second, CommitAcks: -1,
		LoadBufferBytes: 1 << 20, ValueVersions: NewestVersions,
		Partition:    func(number int32) (Partition, bool) { return h, number == 0 },
		PartitionFor: func(groupID string) int32 { return int32(len(groupID)) / 100 }, // others belong to partitions of other brokers
		Logger:       testlog.To(t), Now: time.Now,
	}
}

// start runs a coordinator that leads the partition in epoch 0 and waits until it has loaded it.
func start(t testing.TB, cfg Config) *Coordinator {
	t.Helper()
	c := New(cfg)
	c.Start()
	t.Cleanup(c.Close)
	c.LeadershipChanged(0, 0, true)
	awaitLoaded(t, c)
	return c
}

func awaitLoaded(t testing.TB, c *Coordinator) {
	t.Helper()
	testwait.Until(t, "the end of the loading", func() bool {
		s, err := c.shardOf("g", false)
		if err != nil {
			t.Fatal(err)
		}
		return s.serving() == nil
	})
}

var tp = logstore.TopicPartition{Topic: "t", Partition: 0}

func offsetAt(offset int64) []Offset {
	return []Offset{{Partition: tp, Offset: offset, LeaderEpoch: 4, CommittedMs: -1, RetentionMs: -1}}
}

// mustCommit commits offsets and does not wait until they are replicated.
func mustCommit(t testing.TB, c *Coordinator, by Committer, offsets []Offset) {
	t.Helper()
	if _, err := c.Commit(by, offsets); err != nil {
		t.Fatal(err)
	}
}

// commitSimple commits an offset without being a member.
func commitSimple(t testing.TB, c *Coordinator, groupID string, offset int64) {
	t.Helper()
	wait, err := c.Commit(Committer{Group: groupID, Generation: -1}, offsetAt(offset))
	if err == nil && wait != nil {
		err = wait(t.Context())
	}
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// fetched describes one partition's offset: the offset, or the error.
func fetched(t testing.TB, c *Coordinator, groupID string, stable bool) string {
	t.Helper()
	topics, err := c.FetchOffsets(groupID, []kmsg.OffsetFetchRequestGroupTopic{{Topic: tp.Topic, Partitions: []int32{0}}}, stable)
	if err != nil {
		return name(err)
	}
	p := topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return name(kerr.ErrorForCode(p.ErrorCode))
	}
	return fmt.Sprintf("%d epoch %d %q", p.Offset, p.LeaderEpoch, *p.Metadata)
}

func joinRequestOf(groupID, memberID string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 5, groupID, memberID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10000, 20000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscriptionTo("t")}}
	return req
}

func subscriptionTo(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

// enter makes a member join a group that it has for itself, and syncs it.
func enter(t testing.TB, c *Coordinator, groupID string) *kmsg.JoinGroupResponse {
	t.Helper()
	first, _ := c.Join(joinRequestOf(groupID, ""), Client{ID: "c", Host: "/127.0.0.1"}).Now()
	joined, err := c.Join(joinRequestOf(groupID, first.MemberID), Client{ID: "c", Host: "/127.0.0.1"}).Wait(t.Context())
	if err != nil || joined.ErrorCode != 0 {
		t.Fatalf("join: %v, code %d", err, joined.ErrorCode)
	}
	synced, err := c.Sync(syncRequestOf(groupID, joined)).Wait(t.Context())
	if err != nil || synced.ErrorCode != 0 {
		t.Fatalf("sync: %v, code %d", err, synced.ErrorCode)
	}
	return joined
}

func syncRequestOf(groupID string, joined *kmsg.JoinGroupResponse) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = groupID, joined.MemberID, joined.Generation
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("all")}}
	return req
}

func heartbeatOf(groupID string, joined *kmsg.JoinGroupResponse) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = groupID, joined.MemberID, joined.Generation
	return req
}

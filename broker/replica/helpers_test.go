package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var tp0 = logstore.TopicPartition{Topic: "t", Partition: 0}

// broker is a Manager over files in memory, with a controller whose responses a test determines.
type broker struct {
	*Manager
	id         int32
	minInSync  int
	lag        atomic.Int64 // time.Duration
	gone       atomic.Int32 // id of a broker that is not alive
	refuse     atomic.Int32 // the error code that others' fetches get; 0: none
	controller *controller
	network    *network
	fs         *vfs.Mem
	changed    func()       // called when leadership has changed; may be nil
	asked      atomic.Int32 // how often the controller was asked to report lost logs

	leading, following direction // throttles of replication
	moving             direction // throttle of moves between log directories
}

// direction is the throttle of one direction, for all partitions.
type direction struct {
	exceeded atomic.Bool
	bytes    atomic.Int64
}

func (d *direction) throttle() Throttle {
	return Throttle{
		Covers:   func(logstore.TopicPartition) bool { return true },
		Exceeded: d.exceeded.Load,
		Record:   func(n int64) { d.bytes.Add(n) },
	}
}

// network connects brokers in one process: fetches go directly from one Manager to another.
type network struct {
	mu        sync.Mutex // guards brokers
	brokers   map[int32]*broker
	answered  func(*kmsg.FetchResponse) // called before the follower gets a response; may be nil
	version   int16                     // of Fetch; 0: the first that reports diverging epochs
	oldFormat bool                      // logs hold messages of an old format, without leader epochs
	isrs      ISRStore                  // set where leaders write ISRs themselves; nil: they send AlterPartition
}

// controller answers AlterPartition; with a nil answer function it is unreachable.
type controller struct {
	mu     sync.Mutex
	answer func(*kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse
	asked  []*kmsg.AlterPartitionRequest
}

func (c *controller) ToController(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := req.(*kmsg.AlterPartitionRequest)
	c.asked = append(c.asked, asked)
	if c.answer == nil {
		return nil, kerr.NotController
	}
	return c.answer(asked), nil
}

// accept accepts every ISR change.
func accept(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	resp := kmsg.NewPtrAlterPartitionResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewAlterPartitionResponseTopic()
		topic.TopidID = t.TopicID
		for _, p := range t.Partitions {
			out := kmsg.NewAlterPartitionResponseTopicPartition()
			out.Partition, out.LeaderID, out.LeaderEpoch, out.PartitionEpoch = p.Partition, req.BrokerID, p.LeaderEpoch, p.PartitionEpoch+1
			for _, r := range p.NewEpochISR {
				out.ISR = append(out.ISR, r.BrokerID)
			}
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// refuseISRs makes the controller refuse every ISR change, so that followers remain about to join the ISR.
func (b *broker) refuseISRs() {
	b.controller.mu.Lock()
	defer b.controller.mu.Unlock()
	b.controller.answer = func(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
		resp := accept(req)
		resp.Topics[0].Partitions[0].ErrorCode = kerr.IneligibleReplica.Code
		return resp
	}
}

func newBroker(t *testing.T, id int32, n *network) *broker {
	t.Helper()
	return newBrokerIn(t, id, n, "/data")
}

// newBrokerIn is newBroker with the given log directories.
func newBrokerIn(t *testing.T, id int32, n *network, dirs ...string) *broker {
	t.Helper()
	fsys := vfs.NewMem(time.Now)
	cfg := logsConfig(id, fsys, dirs...)
	if n != nil && n.oldFormat {
		cfg.Default.Magic = 1
	}
	logs, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := newBrokerOver(t, id, n, logs, cfg)
	b.fs = fsys
	return b
}

// anotherEpoch reads the state of a partition whose LeaderAndIsr is on its way.
func anotherEpoch(context.Context, logstore.TopicPartition) (StoredState, error) {
	return StoredState{Leader: 2, LeaderEpoch: 1000, PartitionEpoch: 1000}, nil
}

// logsConfig returns the configuration of a broker's logs in memory.
func logsConfig(id int32, fsys vfs.FS, dirs ...string) logstore.ManagerConfig {
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger, cfg.FS = dirs, id, "test", testlog.Quiet(), fsys
	cfg.Default.IndexSizeMax = 2400
	return cfg
}

// newBrokerOver is newBroker with the given logs.
func newBrokerOver(t *testing.T, id int32, n *network, logs *logstore.Manager, cfg logstore.ManagerConfig) *broker {
	t.Helper()
	version := int16(divergingVersion)
	if n != nil && n.version != 0 {
		version = n.version
	}
	var isrs ISRStore
	if n != nil {
		isrs = n.isrs
	}
	b := &broker{id: id, minInSync: 1, controller: &controller{answer: accept}, network: n}
	b.lag.Store(int64(time.Hour))
	b.Manager = NewManager(Config{
		BrokerID: id, BrokerEpoch: func() int64 { return 100 + int64(id) }, Logs: logs,
		LogConfig: func(context.Context, string) logstore.Config { return cfg.Default }, Unhosted: func(string) {},
		Stored: anotherEpoch,
		LeadershipChanged: func(logstore.TopicPartition, int32, bool) {
			if b.changed != nil {
				b.changed()
			}
		},
		MinInSync: func(string) int { return b.minInSync }, LagMax: func() time.Duration { return time.Duration(b.lag.Load()) },
		IsLive: func(id int32) bool { return id != b.gone.Load() }, Controller: b.controller, AlterVersion: 3, ISRs: isrs, Logger: cfg.Logger, Now: time.Now,
		StorageFailed:  func() { b.asked.Add(1) },
		LeaderThrottle: b.leading.throttle(), FollowerThrottle: b.following.throttle(),
		Move: MoveConfig{Threads: 1, MaxBytes: 1000, Throttle: b.moving.throttle()},
		Fetch: FetchConfig{Dial: n.dial, PerBroker: 1, Version: version, EpochVersion: 3, ListVersion: 5, MaxWait: 20 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20,
			ResponseMaxBytes: 1 << 20, Backoff: 5 * time.Millisecond, Timeout: time.Second, Received: func(string, int, bool) {}},
	})
	if n != nil {
		n.mu.Lock()
		n.brokers[id] = b
		n.mu.Unlock()
	}
	b.Start()
	t.Cleanup(func() {
		b.Close()
		_ = logs.Close()
	})
	return b
}

func (n *network) dial(_ context.Context, to BrokerAddress) (Requester, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.brokers[to.ID]
	if b == nil {
		return nil, fmt.Errorf("broker %d is down", to.ID)
	}
	return wire{b}, nil
}

// wire passes a follower's requests directly to the leader's Manager, without sessions.
type wire struct{ leader *broker }

func (wire) Close() {}

func (w wire) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		resp := w.fetch(ctx, r)
		if w.leader.network.answered != nil {
			w.leader.network.answered(resp)
		}
		return resp, nil
	case *kmsg.OffsetForLeaderEpochRequest:
		return w.epochEnds(r), nil
	case *kmsg.ListOffsetsRequest:
		return w.listOffsets(r), nil
	}
	return nil, fmt.Errorf("unexpected request %T", req)
}

func (w wire) fetch(ctx context.Context, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = req.Version
	empty := true
	for _, t := range req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewFetchResponseTopicPartition()
			out.Partition = p.Partition
			if out.ErrorCode = int16(w.leader.refuse.Load()); out.ErrorCode != 0 {
				topic.Partitions = append(topic.Partitions, out)
				continue
			}
			part, ok := w.leader.Partition(logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			if !ok {
				out.ErrorCode = kerr.UnknownTopicOrPartition.Code
				topic.Partitions = append(topic.Partitions, out)
				continue
			}
			v, err := part.Read(Reader{Replica: req.ReplicaID, BrokerEpoch: 1, Isolation: ReadToEnd, LeaderOnly: true},
				Position{p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.FetchOffset, p.LogStartOffset, p.PartitionMaxBytes, true, [16]byte{}})
			if err != nil {
				out.ErrorCode = codeOf(err)
			} else {
				out.HighWatermark, out.LogStartOffset = v.HighWatermark, v.LogStart
				if req.Version >= divergingVersion && v.Diverging != nil {
					out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = v.Diverging.Epoch, v.Diverging.Offset
				}
				out.RecordBatches, _ = v.Records.Append(nil)
				part.Sent(int64(len(out.RecordBatches)))
				v.Records.Close()
			}
			empty = empty && len(out.RecordBatches) == 0
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if empty {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	return resp
}

func (w wire) epochEnds(req *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			out.Partition = p.Partition
			part, _ := w.leader.Partition(logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			end, err := part.EndOfEpoch(p.CurrentLeaderEpoch, p.LeaderEpoch, true)
			if out.LeaderEpoch, out.EndOffset = end.Epoch, end.Offset; err != nil {
				out.ErrorCode = codeOf(err)
			}
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func (w wire) listOffsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	topic, out := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
	part, _ := w.leader.Partition(logstore.TopicPartition{Topic: req.Topics[0].Topic, Partition: req.Topics[0].Partitions[0].Partition})
	out.Offset = part.Log().LogStartOffset()
	if req.Topics[0].Partitions[0].Timestamp == -1 {
		out.Offset = part.Log().LogEndOffset()
	}
	topic.Partitions = append(topic.Partitions, out)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// assign applies a LeaderAndIsr request for tp0.
func (b *broker) assign(t *testing.T, leader, epoch int32, replicas, isr []int32) error {
	t.Helper()
	state := kmsg.NewLeaderAndISRRequestTopicPartition()
	state.Leader, state.LeaderEpoch, state.Replicas, state.ISR, state.IsNew, state.ZKVersion = leader, epoch, replicas, isr, true, 0
	var leaders []BrokerAddress
	for _, id := range replicas {
		leaders = append(leaders, BrokerAddress{ID: id})
	}
	errs, err := b.ApplyLeaderAndISR(1, []Assignment{{TP: tp0, Topic: [16]byte{7}, State: &state}}, leaders)
	if err != nil {
		t.Fatal(err)
	}
	return errs[0]
}

func (b *broker) must(t *testing.T, leader, epoch int32, replicas, isr []int32) *Partition {
	t.Helper()
	if err := b.assign(t, leader, epoch, replicas, isr); err != nil {
		t.Fatal(err)
	}
	p, _ := b.Partition(tp0)
	return p
}

func batchOf(values ...string) []byte {
	w := record.NewBuilder()
	for _, v := range values {
		w.Add(1_790_000_000_000, nil, []byte(v))
	}
	return w.MustBuild()
}

func appendTo(t *testing.T, p *Partition, values ...string) {
	t.Helper()
	if _, err := p.Append(batchOf(values...), false, logstore.LeaderAppend{ProduceVersion: 9}); err != nil {
		t.Fatal(err)
	}
}

// content returns the values in a log with their offsets.
func content(t *testing.T, l *logstore.Log) []string {
	t.Helper()
	var values []string
	for at := l.LogStartOffset(); at < l.LogEndOffset(); {
		r, err := l.Read(at, 1<<20, l.LogEndOffset(), true)
		if err != nil {
			t.Fatal(err)
		}
		data, err := r.Append(nil)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		for walk := record.Split(data); walk.Next(); {
			b := walk.Batch()
			_ = b.Records(func(rec *record.Record) error {
				values = append(values, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
				return nil
			})
			at = b.LastOffset() + 1
		}
	}
	return values
}

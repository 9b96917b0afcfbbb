package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/testlog"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replicatedLog is a partition of __transaction_state with all its replicas. Offsets count batches.
type replicatedLog struct {
	changed await.Signal
	mu      struct {
		sync.Mutex
		batches []written
		high    int64 // high watermark
		epoch   int32
		leader  int32
		held    bool // followers do not fetch: the high watermark does not advance
		few     bool // there are too few replicas in sync to append
	}
}

// written is a batch with the leader epoch of its append.
type written struct {
	batch record.Batch
	epoch int32
}

func (r *replicatedLog) set(change func()) {
	r.mu.Lock()
	change()
	if !r.mu.held {
		r.mu.high = int64(len(r.mu.batches))
	}
	r.mu.Unlock()
	r.changed.Notify()
}

// replica is the log as one broker sees it.
type replica struct {
	*replicatedLog
	broker int32
}

func (r replica) Append(epoch int32, b record.Batch) (int64, error) {
	var end int64
	err := error(kerr.NotLeaderForPartition)
	r.set(func() {
		switch {
		case r.mu.leader != r.broker || r.mu.epoch != epoch:
		case r.mu.few:
			err = kerr.NotEnoughReplicas
		default:
			r.mu.batches = append(r.mu.batches, written{b, epoch})
			end, err = int64(len(r.mu.batches)), nil
		}
	})
	return end, err
}

func (r replica) AwaitReplicated(ctx context.Context, epoch int32, end int64) error {
	return await.Until(ctx, func() (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		lost := epoch != r.mu.epoch && end > 0 && (int64(len(r.mu.batches)) < end || r.mu.batches[end-1].epoch != epoch)
		if r.mu.leader != r.broker || lost {
			return false, kerr.NotLeaderForPartition
		}
		return r.mu.high >= end, nil
	}, &r.changed)
}

func (r replica) HighWatermark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.high
}

func (r replica) MaxBatchBytes() int { return 1000 }

func (r replica) Load(_ context.Context, fn func(record.Batch) error) (int64, error) {
	r.mu.Lock()
	batches := r.mu.batches[:len(r.mu.batches):len(r.mu.batches)]
	r.mu.Unlock()
	for _, w := range batches {
		if err := fn(w.batch); err != nil {
			return 0, err
		}
	}
	return int64(len(batches)), nil
}

// world is a simulated cluster with nothing but transactions: brokers with coordinators, their logs, and partitions
// that producers write to.
type world struct {
	t        testing.TB
	brokers  []*Coordinator
	logs     []*replicatedLog
	data     map[logstore.TopicPartition]*logstore.Log
	metadata await.Signal

	mu struct {
		sync.Mutex
		rng     *rand.Rand
		trouble float64 // the share of requests between brokers, and of responses, that is lost
		leaders map[logstore.TopicPartition]int32
		topics  map[string]topicID
		next    int64 // block of producer ids
	}
}

const (
	worldBrokers = 3
	worldLogs    = 2
	worldAbort   = time.Second      // interval between checks for timeouts
	worldExpire  = 20 * time.Minute // interval between checks for unused ids
	worldKeep    = time.Hour        // how long unused ids are kept
)

func newWorld(t testing.TB, seed uint64, partitions int) *world {
	w := &world{t: t, data: make(map[logstore.TopicPartition]*logstore.Log)}
	w.mu.rng = rand.New(rand.NewPCG(seed, 1))
	w.mu.leaders = make(map[logstore.TopicPartition]int32)
	w.mu.topics = map[string]topicID{"t": {1}}
	store := newStore(t)
	for i := range partitions {
		tp := logstore.TopicPartition{Topic: "t", Partition: int32(i)}
		log, err := store.GetOrCreate(tp, [16]byte{1}, logstore.DefaultConfig(), true)
		if err != nil {
			t.Fatal(err)
		}
		w.data[tp] = log
		w.mu.leaders[tp] = int32(i % worldBrokers)
	}
	for range worldLogs {
		r := &replicatedLog{}
		r.mu.leader = -1
		w.logs = append(w.logs, r)
	}
	for id := range int32(worldBrokers) {
		c := NewCoordinator(w.config(id))
		c.Start()
		w.brokers = append(w.brokers, c)
	}
	for i := range w.logs {
		w.lead(i, int32(i%worldBrokers))
	}
	return w
}

func newStore(t testing.TB) *logstore.Manager {
	cfg := logstore.DefaultManagerConfig()
	cfg.Dirs, cfg.BrokerID, cfg.ClusterID, cfg.Logger = []string{"/data"}, 1, "test", testlog.Quiet()
	cfg.FS = vfs.NewMem(time.Now)
	cfg.Default.IndexSizeMax = 1200
	store, err := logstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (w *world) config(id int32) Config {
	return Config{
		BrokerID:    id,
		PartitionOf: func(id string) int32 { return int32(id[len(id)-1]) % worldLogs },
		Log:         func(p int32) (Log, bool) { return replica{w.logs[p], id}, true },
		Leader:      w.leader,
		TopicID: func(topic string) [16]byte {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.mu.topics[topic]
		},
		Verified:        func() bool { return true },
		MetadataChanged: &w.metadata,
		Send: func(ctx context.Context, to int32, req kmsg.Request) (kmsg.Response, error) {
			return w.send(ctx, to, req)
		},
		ProducerIDs:    NewProducerIDs(w.allocate, testlog.Quiet()),
		MarkersVersion: 1, VerifyVersion: 5, MaxTimeout: 15 * time.Minute,
		AbortInterval: worldAbort, ExpireInterval: worldExpire, Expiration: worldKeep,
		Now: time.Now, Logger: testlog.Quiet(),
	}
}

func (w *world) allocate(context.Context) (Block, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.next += 1000
	return Block{First: w.mu.next, Count: 1000}, nil
}

func (w *world) close() {
	for _, c := range w.brokers {
		c.Close()
		c.cfg.ProducerIDs.Close()
	}
}

func (w *world) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.rng.Float64() < p
}

func (w *world) leader(tp logstore.TopicPartition) (int32, bool) {
	if tp.Topic == Topic {
		r := w.logs[tp.Partition]
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.mu.leader, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok := w.mu.leaders[tp]
	return id, ok
}

func (w *world) setLeader(tp logstore.TopicPartition, broker int32) {
	w.mu.Lock()
	w.mu.leaders[tp] = broker
	w.mu.Unlock()
	w.metadata.Notify()
}

// lead makes a broker the leader of a log. The log keeps what all replicas have and, unless the broker has led before,
// perhaps only some of the rest. The returned function notifies the broker that led before.
func (w *world) lead(log int, broker int32) (tellOld func()) {
	r := w.logs[log]
	var old, epoch int32
	r.set(func() {
		old = r.mu.leader
		kept := r.mu.high
		switch end := int64(len(r.mu.batches)); {
		case old == broker:
			kept = end
		case end > kept:
			kept += w.mu.rng.Int64N(end - kept + 1)
		}
		r.mu.batches = r.mu.batches[:kept:kept]
		r.mu.leader, r.mu.epoch = broker, r.mu.epoch+1
		epoch = r.mu.epoch
	})
	w.brokers[broker].LeadershipChanged(int32(log), epoch, true)
	w.metadata.Notify()
	return func() {
		r.mu.Lock()
		again := r.mu.leader == old
		r.mu.Unlock()
		if old >= 0 && !again {
			w.brokers[old].LeadershipChanged(int32(log), epoch, false)
		}
	}
}

var errLost = errors.New("lost on the way")

func (w *world) trouble() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.trouble
}

// send handles a request between brokers, unless it or its response is lost.
func (w *world) send(ctx context.Context, to int32, req kmsg.Request) (kmsg.Response, error) {
	if w.chance(w.trouble()) {
		return nil, errLost
	}
	var resp kmsg.Response
	switch req := req.(type) {
	case *kmsg.WriteTxnMarkersRequest:
		resp = w.writeMarkers(to, req)
	case *kmsg.AddPartitionsToTxnRequest:
		resp = w.verify(to, req)
	default:
		return nil, fmt.Errorf("no broker sends a %T", req)
	}
	if w.chance(w.trouble()) {
		return nil, errLost
	}
	return resp, ctx.Err()
}

func (w *world) writeMarkers(at int32, req *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for _, m := range req.Markers {
		marker := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
		for _, t := range m.Topics {
			topic := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
			for _, n := range t.Partitions {
				p := kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: n}
				tp := logstore.TopicPartition{Topic: t.Topic, Partition: n}
				if id, ok := w.leader(tp); !ok || id != at {
					p.ErrorCode = kerr.NotLeaderForPartition.Code
				} else {
					p.ErrorCode = errorCode(w.append(tp, markerOf(m), logstore.LeaderAppend{Origin: logstore.Coordinator}))
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			marker.Topics = append(marker.Topics, topic)
		}
		resp.Markers = append(resp.Markers, marker)
	}
	return resp
}

func markerOf(m kmsg.WriteTxnMarkersRequestMarker) record.Batch {
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.Transactional, b.Control = m.ProducerID, m.ProducerEpoch, true, true
	kind := byte(0)
	if m.Committed {
		kind = 1
	}
	b.Add(time.Now().UnixMilli(), []byte{0, 0, 0, kind}, binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(m.CoordinatorEpoch)))
	return b.MustBuild()
}

func (w *world) append(tp logstore.TopicPartition, b record.Batch, o logstore.LeaderAppend) error {
	log := w.data[tp]
	o.LeaderEpoch, o.ProduceVersion = 1, 9
	_, err := log.AppendLeader(b, o)
	log.SetHighWatermark(log.LogEndOffset())
	return err
}

func (w *world) verify(at int32, req *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse {
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	for _, t := range req.Transactions {
		var asked []logstore.TopicPartition
		for _, topic := range t.Topics {
			for _, n := range topic.Partitions {
				asked = append(asked, logstore.TopicPartition{Topic: topic.Topic, Partition: n})
			}
		}
		missing, err := w.brokers[at].Verify(t.TransactionalID, Identity{t.ProducerID, t.ProducerEpoch}, asked)
		out := kmsg.AddPartitionsToTxnResponseTransaction{TransactionalID: t.TransactionalID}
		for _, tp := range asked {
			why := missing[tp]
			if err != nil {
				why = err
			}
			out.Topics = append(out.Topics, kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: tp.Topic,
				Partitions: []kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{{Partition: tp.Partition, ErrorCode: errorCode(why)}}})
		}
		resp.Transactions = append(resp.Transactions, out)
	}
	return resp
}

func errorCode(err error) int16 {
	var k *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &k):
		return k.Code
	}
	return kerr.UnknownServerError.Code
}

// coordinator returns the current coordinator of an id.
func (w *world) coordinator(id string) *Coordinator {
	leader, _ := w.leader(logstore.TopicPartition{Topic: Topic, Partition: int32(id[len(id)-1]) % worldLogs})
	return w.brokers[leader]
}

package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetcher copies partitions from the leaders on one broker. Its goroutine is run, which ends with its context; fetchers
// cancels it when no partition is left.
type fetcher struct {
	set     *fetchers
	source  BrokerAddress
	log     *logrus.Entry
	cancel  context.CancelFunc // ends run
	wake    chan struct{}
	session fetchSession // run's own

	requests, bytes atomic.Int64

	mu struct {
		sync.Mutex
		partitions map[logstore.TopicPartition]*fetched
	}
}

// fetched is a partition that is being fetched. It belongs to the fetcher's goroutine, except for what writing guards.
type fetched struct {
	partition   *Partition
	leaderEpoch int32
	offset      int64        // to fetch next
	notBefore   time.Time    // after an error
	settled     bool         // its log has been truncated to the leader's, if Fetch does not do that
	inSync      bool         // it had everything below the leader's high watermark at the last response
	lag         atomic.Int64 // what it lacked of that
	failing     atomic.Bool  // the last attempt failed, for another reason than a moving leader

	writing sync.Mutex // held while the log is being written, so that end is a barrier
	ended   bool       // guarded by writing
}

// end returns when nothing more will be written to the partition's log.
func (f *fetched) end() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.ended = true
}

func newFetcher(set *fetchers, key fetcherKey, cancel context.CancelFunc) *fetcher {
	t := &fetcher{set: set, source: key.source, cancel: cancel, wake: make(chan struct{}, 1)}
	t.log = set.log.WithField(logx.Source, key.source.ID)
	t.mu.partitions = make(map[logstore.TopicPartition]*fetched)
	return t
}

func (t *fetcher) add(w following) {
	t.mu.Lock()
	t.mu.partitions[w.partition.TP] = &fetched{partition: w.partition, leaderEpoch: w.leaderEpoch, offset: w.partition.Log().LogEndOffset()}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// followings returns what it fetches.
func (t *fetcher) followings() []following {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]following, 0, len(t.mu.partitions))
	for _, p := range t.mu.partitions {
		all = append(all, following{p.partition, p.leaderEpoch, t.source})
	}
	return all
}

// remove removes a partition. When it returns, no more fetched records will be written to its log.
func (t *fetcher) remove(tp logstore.TopicPartition) {
	t.mu.Lock()
	f := t.mu.partitions[tp]
	delete(t.mu.partitions, tp)
	t.mu.Unlock()
	if f != nil {
		f.end()
	}
}

func (t *fetcher) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.partitions) == 0
}

// at returns the partition if it is still to be fetched from the offset that was requested.
func (t *fetcher) at(tp logstore.TopicPartition, asked fetchFrom) *fetched {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.mu.partitions[tp]
	if f == nil || f.offset != asked.offset || f.leaderEpoch != asked.leaderEpoch {
		return nil
	}
	return f
}

// write changes the partition's log, unless the fetcher has lost the partition.
func (t *fetcher) write(f *fetched, change func() error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.ended {
		return
	}
	f.partition.mu.RLock() // the log stays in place
	defer f.partition.mu.RUnlock()
	err := change()
	if err != nil {
		t.holdBack(f, err)
	}
	f.failing.Store(err != nil && !isTransient(err))
}

func (t *fetcher) run(ctx context.Context) {
	var conn Requester
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for ctx.Err() == nil {
		wanted := t.wanted(time.Now())
		if wanted == nil {
			t.pause(ctx, t.set.cfg.Backoff)
			continue
		}
		var err error
		if conn == nil {
			conn, err = t.set.cfg.Dial(ctx, t.source)
			t.session = fetchSession{}
		}
		if err == nil {
			err = t.fetchOnce(ctx, conn, wanted)
		}
		if err != nil && ctx.Err() == nil {
			t.log.WithError(err).Debug("cannot fetch from the leader's broker")
			if conn != nil {
				conn.Close()
				conn = nil
			}
			t.pause(ctx, t.set.cfg.Backoff)
		}
	}
}

// pause waits for a while, or until a partition is added.
func (t *fetcher) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-t.wake:
	case <-timer.C:
	}
}

// wanted lists where to fetch next in each partition that is not delayed; nil if there is nothing to fetch.
func (t *fetcher) wanted(now time.Time) map[logstore.TopicPartition]fetchFrom {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.partitions) == 0 {
		return nil
	}
	wanted := make(map[logstore.TopicPartition]fetchFrom, len(t.mu.partitions))
	for tp, f := range t.mu.partitions {
		if now.Before(f.notBefore) || !f.inSync && t.set.throttle.holdsBack(tp) {
			continue
		}
		epoch, ok := f.partition.Log().LatestEpoch()
		if !ok {
			epoch = noEpoch
		}
		wanted[tp] = fetchFrom{
			topicID: f.partition.TopicID(), leaderEpoch: f.leaderEpoch, lastEpoch: epoch,
			offset: f.offset, logStart: f.partition.Log().LogStartOffset(),
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return wanted
}

func (t *fetcher) fetchOnce(ctx context.Context, conn Requester, wanted map[logstore.TopicPartition]fetchFrom) error {
	ctx, cancel := context.WithTimeout(ctx, t.set.cfg.Timeout)
	defer cancel()
	wanted, err := t.settle(ctx, conn, wanted)
	if err != nil || len(wanted) == 0 {
		return err
	}
	req := t.session.request(wanted, t.set.cfg)
	t.introduce(req)
	t.requests.Add(1)
	answer, err := conn.Do(ctx, req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		t.session = fetchSession{} // the leader has forgotten the session, or this broker: begin a new one
		if errors.Is(err, kerr.FetchSessionIDNotFound) || errors.Is(err, kerr.InvalidFetchSessionEpoch) || errors.Is(err, kerr.FetchSessionTopicIDError) {
			return nil
		}
		return err
	}
	t.session.answered(resp.SessionID)
	for _, tp := range t.takeAll(resp, wanted) { // not earlier, since another request reuses the response's memory
		t.outOfRange(ctx, conn, tp, wanted[tp])
	}
	return nil
}

// introduce identifies the follower. The field with the broker epoch exists from version 15 on (KIP-903), but the wire
// library would write it in any version with tagged fields, and Apache Kafka rejects requests with unknown ones.
func (t *fetcher) introduce(req *kmsg.FetchRequest) {
	if req.Version < 15 {
		req.ReplicaID = t.set.brokerID
		return
	}
	req.ReplicaState.ID, req.ReplicaState.Epoch = t.set.brokerID, t.set.brokerEpoch()
}

// takeAll handles every partition of a response and returns those whose offset was out of range.
func (t *fetcher) takeAll(resp *kmsg.FetchResponse, wanted map[logstore.TopicPartition]fetchFrom) []logstore.TopicPartition {
	var outOfRange []logstore.TopicPartition
	names := namesOf(wanted)
	for i := range resp.Topics {
		topic := &resp.Topics[i]
		name := topic.Topic
		if resp.Version >= fetchByID {
			name = names[topic.TopicID]
		}
		for j := range topic.Partitions {
			r := &topic.Partitions[j]
			tp := logstore.TopicPartition{Topic: name, Partition: r.Partition}
			if r.ErrorCode == kerr.OffsetOutOfRange.Code {
				outOfRange = append(outOfRange, tp)
			} else {
				t.take(tp, wanted[tp], r)
			}
		}
	}
	return outOfRange
}

// namesOf returns the names of the topics that were requested by id: the broker's metadata may not have them yet.
func namesOf(wanted map[logstore.TopicPartition]fetchFrom) map[[16]byte]string {
	names := make(map[[16]byte]string)
	for tp, at := range wanted {
		names[at.topicID] = tp.Topic
	}
	return names
}

// take handles one partition of a response.
func (t *fetcher) take(tp logstore.TopicPartition, at fetchFrom, r *kmsg.FetchResponseTopicPartition) {
	f := t.at(tp, at)
	if f == nil {
		return // removed or changed meanwhile
	}
	adding := f.partition.Adding(t.set.brokerID) // write holds the same lock, on which a move of the log may be waiting meanwhile
	t.write(f, func() error {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return err
		}
		t.bytes.Add(int64(len(r.RecordBatches)))
		t.set.throttle.record(tp, int64(len(r.RecordBatches)))
		t.set.cfg.Received(tp.Topic, len(r.RecordBatches), adding)
		return f.apply(r)
	})
}

func (t *fetcher) holdBack(f *fetched, err error) {
	f.notBefore = time.Now().Add(t.set.cfg.Backoff)
	level := logrus.WarnLevel
	if isTransient(err) {
		level = logrus.DebugLevel
	}
	t.log.WithError(err).WithFields(logrus.Fields{logx.Topic: f.partition.TP.Topic, logx.Partition: f.partition.TP.Partition,
		logx.Offset: f.offset}).Log(level, "cannot follow the leader for now")
}

// isTransient reports whether an error says that the leadership is moving: the controller will soon say where to.
func isTransient(err error) bool {
	for _, e := range []error{kerr.UnknownLeaderEpoch, kerr.FencedLeaderEpoch, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// apply appends what was fetched, or truncates where the leader's log diverges from ours.
func (f *fetched) apply(r *kmsg.FetchResponseTopicPartition) error {
	log := f.partition.Log()
	if r.DivergingEpoch.EndOffset >= 0 {
		return f.truncate(r.DivergingEpoch.Epoch, r.DivergingEpoch.EndOffset)
	}
	if len(r.RecordBatches) > 0 {
		info, err := log.AppendFollower(r.RecordBatches)
		if err != nil {
			return err
		}
		f.offset = info.LastOffset + 1
	}
	f.inSync = f.offset >= r.HighWatermark
	f.lag.Store(max(0, r.HighWatermark-f.offset))
	moved := false
	if hw := min(r.HighWatermark, log.LogEndOffset()); hw != log.HighWatermark() && hw >= log.LogStartOffset() {
		log.SetHighWatermark(hw)
		moved = true
	}
	if start := r.LogStartOffset; start > log.LogStartOffset() && start <= log.HighWatermark() {
		if err := log.AdvanceLogStart(start); err != nil {
			return err
		}
		moved = true
	}
	if moved || len(r.RecordBatches) > 0 {
		f.partition.Changed.Notify()
	}
	return nil
}

// truncate truncates our log to where the leader's epoch ends, or to where ours does
// (AbstractFetcherThread.getOffsetTruncationState, 3.9; KIP-279).
func (f *fetched) truncate(epoch int32, end int64) error {
	log := f.partition.Log()
	to := min(end, log.LogEndOffset())
	if ours, ourEnd := log.EndOffsetForEpoch(epoch); ours != -1 && ourEnd != -1 {
		to = min(to, ourEnd)
	} else if ours == -1 {
		to = min(to, log.LogStartOffset())
	}
	if err := f.partition.cut(to); err != nil {
		return err
	}
	f.offset = log.LogEndOffset()
	return nil
}

// outOfRange repairs a follower whose next offset the leader does not have: the leader has deleted records that it
// lacks, or the leader was elected uncleanly and has fewer.
func (t *fetcher) outOfRange(ctx context.Context, conn Requester, tp logstore.TopicPartition, at fetchFrom) {
	end, err := t.leaderOffset(ctx, conn, tp, at.leaderEpoch, latest)
	start := int64(-1)
	if err == nil && end >= at.offset {
		start, err = t.leaderOffset(ctx, conn, tp, at.leaderEpoch, earliest)
	}
	f := t.at(tp, at)
	if f == nil {
		return
	}
	t.write(f, func() error {
		if err != nil {
			return err
		}
		return f.moveInto(start, end)
	})
}

func (f *fetched) moveInto(start, end int64) error {
	log := f.partition.Log()
	switch {
	case end < log.LogEndOffset():
		if err := f.partition.cut(end); err != nil {
			return err
		}
	case start > log.LogEndOffset():
		if err := f.partition.truncate(func(log *logstore.Log) error { return log.TruncateFullyAndStartAt(start) }); err != nil {
			return err
		}
	}
	f.offset = log.LogEndOffset()
	f.partition.Changed.Notify()
	return nil
}

// The timestamps of ListOffsets that stand for an offset.
const (
	latest   = -1 // the log end offset
	earliest = -2 // the log start offset
)

// leaderOffset asks the leader for its latest or earliest offset.
func (t *fetcher) leaderOffset(ctx context.Context, conn Requester, tp logstore.TopicPartition, epoch int32, which int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = t.set.cfg.ListVersion, t.set.brokerID
	topic, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = tp.Partition, epoch, which
	topic.Topic, topic.Partitions = tp.Topic, append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	answer, err := conn.Do(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := answer.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("%v: the leader's answer to ListOffsets lacks the partition", tp)
	}
	got := resp.Topics[0].Partitions[0]
	return got.Offset, kerr.ErrorForCode(got.ErrorCode)
}

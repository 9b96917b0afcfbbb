package api

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/metrics"
	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/config"
	"barnabas/internal/await"
	"barnabas/internal/errcode"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions in which Fetch was extended.
const (
	fetchMaxBytesVersion    = 3  // a limit for the whole response, which the first batch may exceed
	preferredReplicaVersion = 11 // KIP-392: reading from followers
	fetchTopicIDVersion     = 13 // KIP-516
	fetchReplicaVersion     = 15 // KIP-903: the follower's broker epoch
	fetchEndpointsVersion   = 16 // KIP-951
)

// maxConverted bounds a response whose records may have to be converted in memory, for versions before v4.
const maxConverted = 2 << 20

// fetchPartition is one partition of a fetch, with its result.
type fetchPartition struct {
	topic  string
	id     [16]byte
	number int32
	at     replica.Position

	part      *replica.Partition
	missing   error // why the partition does not exist for this client; it does not shorten the wait
	failed    error // why it could not be read; it ends the wait
	view      replica.View
	found     int64 // bytes of records that there were within the limits, including a cut first batch, which is not sent
	preferred int32 // a better replica to read from, -1 for none
	aborted   []logstore.AbortedTxn
	seen      logOffsets // when it was last read
	read      bool
	bytes     []byte // converted records, which replace the view's
	refused   bool   // failed is the client's age: it cannot have the records
}

// fetching is a Fetch request in progress.
type fetching struct {
	h       *Handlers
	c       *Call
	reader  replica.Reader
	rack    string
	maxWait time.Duration
	min     int64
	max     int64
	oneMore bool // the first batch may exceed the limits
	parts   []fetchPartition
	session *fetchContext
	worked  time.Duration // time spent on reading and converting, if there is a request quota
	late    time.Duration // how long the client must wait after its response
}

// fetch reads records for a consumer or a follower, waiting until MinBytes are available.
//
// v3: MaxBytes. v4: isolation level. v7: sessions (KIP-227). v11: reading from followers (KIP-392). v12: diverging
// epochs (KIP-595). v13: topic ids (KIP-516). v16: node endpoints (KIP-951).
func (h *Handlers) fetch(_ context.Context, c *Call, req *kmsg.FetchRequest) network.Answer {
	if req.IsolationLevel < 0 || req.IsolationLevel > 1 {
		return network.Ready(h.badIsolation(c, req))
	}
	session, err := h.sessions.begin(req, c.Arrived)
	if err != nil {
		return network.Ready(&fetchResponse{version: c.Version, code: errcode.Of(err)})
	}
	f := h.newFetching(c, req, session)
	return network.Later(f.run)
}

func (h *Handlers) newFetching(c *Call, req *kmsg.FetchRequest, session *fetchContext) *fetching {
	limit := int64(h.Config.Current().FetchMaxBytes)
	f := &fetching{
		h: h, c: c, rack: req.Rack, maxWait: time.Duration(req.MaxWaitMillis) * time.Millisecond,
		oneMore: c.Version >= fetchMaxBytesVersion, parts: session.asked, session: session,
	}
	f.max = math.MaxInt32
	if c.Version >= fetchMaxBytesVersion {
		f.max = int64(req.MaxBytes)
	}
	f.max = min(f.max, limit)
	if c.Version < 4 {
		f.max = min(f.max, maxConverted)
	}
	f.reader = replica.Reader{
		Replica: req.ReplicaID, BrokerEpoch: -1, Isolation: replica.Isolation(req.IsolationLevel),
		LeaderOnly: c.Version < preferredReplicaVersion,
	}
	if c.Version >= fetchReplicaVersion {
		f.reader.Replica, f.reader.BrokerEpoch = req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	if c.follower = f.reader.FromFollower(); c.follower {
		f.reader.Isolation, f.reader.LeaderOnly = replica.ReadToEnd, true
	} else if h.Quotas.Any(quota.Fetch) {
		f.max = min(f.max, h.Quotas.Largest(quota.Fetch, c.user(), c.clientID()))
	}
	f.min = min(int64(req.MinBytes), f.max)
	f.resolve()
	return f
}

// resolve finds the hosted partitions, by topic id from v13 on. A partition that can be produced to can be fetched,
// even if this broker's metadata does not have it yet.
func (f *fetching) resolve() {
	snapshot := f.h.Metadata.Current()
	refused := f.refusal()
	for i := range f.parts {
		a := &f.parts[i]
		if f.c.Version >= fetchTopicIDVersion {
			name, ok := snapshot.TopicName(a.id)
			if !ok {
				a.missing = kerr.UnknownTopicID
				continue
			}
			a.topic = name
		}
		if refused != nil {
			if a.missing = refused(a.topic); a.missing != nil {
				continue
			}
		}
		part, err := f.h.partition(a.topic, a.number)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			a.missing = err
			continue
		}
		a.part, a.failed = part, err
	}
}

// refusal returns a function that says why a topic may not be fetched, or nil if all may be. A follower needs an
// operation on the cluster, without which all topics are refused; a consumer needs one on each topic.
func (f *fetching) refusal() func(topic string) error {
	if f.h.authorize.unrestricted(f.c) {
		return nil
	}
	if !f.c.follower {
		topics := f.h.authorize.topics(f.c, acl.Read)
		return topics.check
	}
	if f.h.authorize.cluster(f.c, acl.ClusterAction) == nil {
		return nil
	}
	return func(string) error { return kerr.TopicAuthorizationFailed }
}

// run answers at once if there is enough data, an error, or nothing to wait for; otherwise when one of these occurs or
// the wait time expires.
func (f *fetching) run(ctx context.Context) network.Response {
	f.work(f.read)
	if !f.done() && f.maxWait > 0 {
		f.wait(ctx)
	}
	return f.respond()
}

func (f *fetching) wait(ctx context.Context) {
	defer f.h.Metrics.Waiting(metrics.Fetch)()
	ctx, cancel := context.WithDeadline(ctx, f.c.Arrived.Add(f.maxWait))
	defer cancel()
	signals := make([]*await.Signal, 0, len(f.parts))
	for i := range f.parts {
		if p := f.parts[i].part; p != nil {
			signals = append(signals, &p.Changed)
		}
	}
	err := await.Until(ctx, func() (bool, error) {
		f.work(f.read)
		return f.done(), nil
	}, signals...)
	if errors.Is(err, context.DeadlineExceeded) {
		f.h.Metrics.FetchExpired(f.reader.FromFollower())
	}
}

// work runs a part of the fetch that counts as time spent on the request, unlike waiting.
func (f *fetching) work(part func()) {
	if !f.h.Quotas.Any(quota.Request) {
		part()
		return
	}
	began := time.Now()
	part()
	f.worked += time.Since(began)
}

// done reports whether the fetch need not wait any longer. A batch that no longer fits into the response counts, as more
// data would not help. Since a partition is read from one segment at a time, one
// whose records continue in the next segment may never have MinBytes, however much there is to read: it is answered at
// once (DelayedFetch.tryComplete, case F, 3.9).
func (f *fetching) done() bool {
	var size int64
	interesting := false
	for i := range f.parts {
		a := &f.parts[i]
		if a.missing != nil {
			continue
		}
		interesting = true
		if a.failed != nil || a.view.Diverging != nil || a.preferred >= 0 || a.view.Records.MoreFollow(a.view.Limit) {
			return true
		}
		size += a.found
	}
	return !interesting || size >= f.min || f.sendsMarks() && f.session.news(f.parts)
}

// sendsMarks reports whether a new high watermark is sent to a follower at once, so that consumers reading from it do
// not wait for replica.fetch.wait.max.ms. Without such consumers it comes with the next records, which saves a request
// and a response for every append.
func (f *fetching) sendsMarks() bool { return f.reader.FromFollower() && f.h.rackAware() }

// read reads every partition in order until the limits are reached.
func (f *fetching) read() {
	left, oneMore := f.max, f.oneMore
	for i := range f.parts {
		a := &f.parts[i]
		if a.part == nil || a.still(f.reader) {
			continue
		}
		a.view.Records.Close()
		a.view, a.found, a.preferred = replica.View{}, 0, -1
		a.seen, a.read = offsetsOf(a.part), true
		a.failed = f.readOne(a, left, oneMore)
		if n := a.view.Records.Size; n > 0 {
			left, oneMore = max(0, left-n), false
		}
	}
}

// logOffsets are the offsets that determine what a reader can see.
type logOffsets struct{ start, mark, stable, end int64 }

func offsetsOf(p *replica.Partition) logOffsets {
	log := p.Log()
	return logOffsets{log.LogStartOffset(), log.HighWatermark(), log.LastStableOffset(), log.LogEndOffset()}
}

// still reports whether there was nothing to read and reading again would give the same result. If one of the thousands
// of partitions in a follower's fetch changes, the others must not be read again.
func (a *fetchPartition) still(r replica.Reader) bool {
	return a.read && a.failed == nil && a.view.Records.Size == 0 && a.view.Diverging == nil && a.preferred < 0 &&
		a.seen == offsetsOf(a.part) && a.part.Check(a.at.LeaderEpoch, r.LeaderOnly) == nil
}

func (f *fetching) readOne(a *fetchPartition, left int64, oneMore bool) error {
	if a.at.MaxBytes < 0 {
		return fmt.Errorf("partition max bytes %d: %w", a.at.MaxBytes, kerr.UnknownServerError)
	}
	at := a.at
	at.TopicID = a.id
	at.MaxBytes, at.AtLeastOne = int32(min(int64(at.MaxBytes), left)), oneMore
	if a.preferred = f.preferredReplica(a); a.preferred >= 0 {
		at.MaxBytes, at.AtLeastOne, at.LastFetchedEpoch = 0, false, -1 // that replica will tell whether the logs diverge
	}
	var err error
	if a.view, err = a.part.Read(f.reader, at); err != nil {
		a.view, a.preferred = replica.View{}, -1
		return err
	}
	a.found = a.view.Records.Size
	if f.oneMore && a.view.Records.FirstCut { // nobody can do anything with it (ReplicaManager.readFromLog, 3.9)
		a.view.Records.Close()
	}
	if f.reader.Isolation == replica.ReadCommitted && a.view.Records.Size > 0 {
		a.aborted, err = abortedIn(a)
	}
	return err
}

// abortedIn lists the aborted transactions that a consumer must know in order to read these records, not all of a long
// log, which would be repeated in every fetch.
func abortedIn(a *fetchPartition) ([]logstore.AbortedTxn, error) {
	end, err := a.view.Records.Bound(a.view.Limit)
	if err != nil {
		return nil, err
	}
	return a.part.Log().AbortedTransactions(a.at.Offset, end)
}

// preferredReplica returns the replica that a consumer should read from instead, -1 if it should read here.
func (f *fetching) preferredReplica(a *fetchPartition) int32 {
	if f.rack == "" || f.reader.FromFollower() || f.c.Version < preferredReplicaVersion || !f.h.rackAware() {
		return -1
	}
	snapshot := f.h.Metadata.Current()
	return a.part.PreferredReadReplica(a.at.Offset, func(broker int32) bool {
		b := snapshot.Brokers[broker]
		if b == nil || b.Rack == nil || *b.Rack != f.rack {
			return false
		}
		_, reachable := b.Endpoints[f.c.Conn.Listener]
		return reachable
	})
}

func (h *Handlers) rackAware() bool {
	return h.Config.Current().ReplicaSelectorClass == config.RackAwareSelector
}

// respond builds the response from what was last read.
func (f *fetching) respond() network.Response {
	f.work(f.convertAll)
	if wait := f.overQuota(); wait > 0 {
		return f.throttled(wait)
	}
	f.countSent()
	missingLast(f.parts)
	resp := &fetchResponse{version: f.c.Version, committed: f.reader.Isolation == replica.ReadCommitted}
	setThrottle(resp, f.late)
	resp.parts, resp.session = f.session.end(f.parts)
	if f.c.Version >= fetchEndpointsVersion {
		resp.addHints(f)
	}
	return resp
}

func (f *fetching) convertAll() {
	for i := range f.parts {
		a := &f.parts[i]
		if a.part == nil {
			continue
		}
		err := f.unsupported(a) // also if it could not be read
		if err == nil && a.failed == nil {
			err = f.convert(a)
		}
		if err != nil { // none of the partition's records must be left
			a.view.Records.Close()
			a.view, a.bytes, a.aborted = replica.View{}, nil, nil
			a.failed, a.refused = err, true
		}
	}
}

// countSent counts what is sent. For followers the partitions count it too, for their throttle.
func (f *fetching) countSent() {
	for i := range f.parts {
		a := &f.parts[i]
		f.countFetched(a)
		if a.part != nil && f.reader.FromFollower() {
			a.part.Sent(a.size())
		}
	}
}

// overQuota charges a consumer for the time used and the bytes that it is about to get, and returns how long it must
// wait if it exceeds a quota: then it gets nothing and is charged for no bytes. A consumer that has received nothing in
// all windows gets its batch and waits afterwards: otherwise a batch that is larger than the quota of all windows would
// make it wait forever, as in Apache Kafka.
func (f *fetching) overQuota() time.Duration {
	quotas := f.h.Quotas
	if f.reader.FromFollower() {
		return 0
	}
	if wait := quotas.Charge(quota.Request, f.c.user(), f.c.clientID(), 100*f.worked.Seconds()); wait > 0 {
		return wait
	}
	if !quotas.Any(quota.Fetch) {
		return 0
	}
	var size int64
	for i := range f.parts {
		size += f.parts[i].size()
	}
	fresh := quotas.Fresh(quota.Fetch, f.c.user(), f.c.clientID())
	wait := quotas.Charge(quota.Fetch, f.c.user(), f.c.clientID(), float64(size))
	if fresh {
		f.c.Conn.Mute(wait)
		f.late = wait
		return 0
	}
	if wait > 0 {
		quotas.Charge(quota.Fetch, f.c.user(), f.c.clientID(), -float64(size))
	}
	return wait
}

// throttled is the response for a consumer that must wait: no partitions, and its session unchanged.
func (f *fetching) throttled(wait time.Duration) network.Response {
	for i := range f.parts {
		f.parts[i].view.Records.Close()
	}
	f.c.Conn.Mute(wait)
	resp := &fetchResponse{version: f.c.Version, session: f.session.id()}
	setThrottle(resp, wait)
	return resp
}

// missingLast moves the partitions that do not exist to the end, as in Apache Kafka's responses.
func missingLast(parts []fetchPartition) {
	slices.SortStableFunc(parts, func(a, b fetchPartition) int {
		switch {
		case a.missing == nil && b.missing != nil:
			return -1
		case a.missing != nil && b.missing == nil:
			return 1
		}
		return 0
	})
}

// unsupported returns an error if the settings of a topic exclude clients as old as this one
// (KafkaApis.maybeConvertFetchedData, 3.9).
func (f *fetching) unsupported(a *fetchPartition) error {
	if f.c.Version >= 10 {
		return nil
	}
	topic := f.h.TopicConfig(a.topic)
	if topic.CompressionType == "zstd" {
		return fmt.Errorf("topic %s is compressed with zstd, which this client does not understand: %w", a.topic, kerr.UnsupportedCompressionType)
	}
	if f.c.Version < 4 && !topic.Downconversion && !f.reader.FromFollower() && topic.MessageFormatVersion.RecordVersion() > f.magic() {
		return fmt.Errorf("message.downconversion.enable=false for topic %s: %w", a.topic, kerr.UnsupportedVersion)
	}
	return nil
}

// magic is the newest message format that a client knows that sends Fetch before v4 (KIP-98: v4 for magic 2, KIP-32: v2
// for magic 1).
func (f *fetching) magic() int8 {
	if f.c.Version < 2 {
		return 0
	}
	return 1
}

// convert converts records to the message format of an old version of Fetch.
func (f *fetching) convert(a *fetchPartition) error {
	if f.c.Version >= 4 || a.view.Records.Size == 0 {
		return nil
	}
	data, err := a.view.Records.Append(nil)
	a.view.Records.Close()
	if err != nil {
		return err
	}
	a.bytes = data
	if size, err := record.SizeOf(data); err != nil || size == 0 || size > len(data) {
		a.bytes = []byte{} // not even one batch fits into the limit, which versions before v3 never exceed
		return nil
	}
	if !record.NeedsDownConvert(data, f.magic()) {
		return nil
	}
	converted, err := record.DownConvert(data, f.magic(), a.at.Offset)
	a.bytes = padConverted(converted, len(data))
	return err
}

// padConverted fills the bytes saved by conversion with the beginning of a message that is longer than any response:
// consumers take it for a truncated one. So the size of the response does not depend on the conversion, as in Apache
// Kafka (LazyDownConversionRecordsSend, 3.9).
func padConverted(converted []byte, size int) []byte {
	if len(converted) == 0 || len(converted) >= size {
		return converted
	}
	head := binary.BigEndian.AppendUint64(nil, math.MaxUint64) // offset -1
	head = binary.BigEndian.AppendUint32(head, math.MaxInt32)
	missing := size - len(converted)
	converted = append(converted, head[:min(missing, len(head))]...)
	return append(converted, make([]byte, max(missing-len(head), 0))...)
}

// badIsolation answers a request with an invalid isolation level: Apache Kafka fails it as a whole.
func (h *Handlers) badIsolation(c *Call, req *kmsg.FetchRequest) network.Response {
	resp := &fetchResponse{version: c.Version, code: kerr.UnknownServerError.Code, nullRecords: true}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			resp.parts = append(resp.parts, fetchPartition{topic: t.Topic, id: t.TopicID, number: p.Partition,
				failed: kerr.UnknownServerError, preferred: -1})
		}
	}
	return resp
}

// fetchCode returns the error code of a partition. Consumers know only some codes in Fetch and fail on others
// (FetchCollector.handleInitializeErrors, 3.9): those are replaced by UNKNOWN_SERVER_ERROR, after which they retry.
func fetchCode(a *fetchPartition) int16 {
	c := errcode.Of(errors.Join(a.missing, a.failed))
	switch c {
	case 0, kerr.OffsetOutOfRange.Code, kerr.CorruptMessage.Code, kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code,
		kerr.ReplicaNotAvailable.Code, kerr.TopicAuthorizationFailed.Code, kerr.KafkaStorageError.Code, kerr.FencedLeaderEpoch.Code,
		kerr.UnknownLeaderEpoch.Code, kerr.UnsupportedCompressionType.Code, kerr.OffsetNotAvailable.Code, kerr.UnknownTopicID.Code,
		kerr.InconsistentTopicID.Code,
		kerr.UnsupportedVersion.Code: // the last for clients older than what a topic may hold
		return c
	}
	return kerr.UnknownServerError.Code
}

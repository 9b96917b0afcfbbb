package replica

import (
	"context"
	"sync"
	"time"

	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FetchConfig configures how followers fetch.
type FetchConfig struct {
	Dial             func(ctx context.Context, to BrokerAddress) (Requester, error)
	PerBroker        int           // num.replica.fetchers at the start
	Version          int16         // of Fetch, the newest that all leaders know
	EpochVersion     int16         // of OffsetForLeaderEpoch, likewise
	ListVersion      int16         // of ListOffsets, likewise; at least 1
	MaxWait          time.Duration // replica.fetch.wait.max.ms
	MinBytes         int32         // replica.fetch.min.bytes
	MaxBytes         int32         // replica.fetch.max.bytes, per partition
	ResponseMaxBytes int32         // replica.fetch.response.max.bytes
	Backoff          time.Duration // replica.fetch.backoff.ms
	Timeout          time.Duration // replica.socket.timeout.ms
	// Received is called with the bytes of records received for a topic, and whether a reassignment moves the replica
	// here. It must not block.
	Received func(topic string, bytes int, reassigned bool)
	Logger   *logrus.Entry // nil: the manager's
}

// Requester is a connection to another broker.
type Requester interface {
	Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Close()
}

// following is a partition to be fetched from a leader in an epoch.
type following struct {
	partition   *Partition
	leaderEpoch int32
	source      BrokerAddress
}

// fetchers distributes the followed partitions over a few goroutines for each source broker.
type fetchers struct {
	brokerID    int32
	brokerEpoch func() int64
	cfg         FetchConfig
	throttle    Throttle // for fetching
	log         *logrus.Entry
	ctx         context.Context
	tasks       sync.WaitGroup

	mu struct {
		sync.Mutex
		perBroker int // fetchers per source broker
		byKey     map[fetcherKey]*fetcher
		of        map[logstore.TopicPartition]*fetcher
	}
}

type fetcherKey struct {
	source BrokerAddress
	number int
}

func newFetchers(brokerID int32, brokerEpoch func() int64, cfg FetchConfig, throttle Throttle) *fetchers {
	f := &fetchers{brokerID: brokerID, brokerEpoch: brokerEpoch, cfg: cfg, throttle: throttle, log: cfg.Logger}
	f.mu.perBroker = cfg.PerBroker
	f.mu.byKey = make(map[fetcherKey]*fetcher)
	f.mu.of = make(map[logstore.TopicPartition]*fetcher)
	return f
}

func (f *fetchers) start(ctx context.Context) { f.ctx = ctx }

// close waits for the fetchers, whose context has ended.
func (f *fetchers) close() { f.tasks.Wait() }

// follow begins to fetch partitions, each from its leader. A partition that was fetched from another broker is moved.
func (f *fetchers) follow(list []following) {
	for _, w := range list {
		f.remove(w.partition.TP)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range list {
		t := f.fetcherLocked(fetcherKey{w.source, fetcherNumber(w.partition.TP, f.mu.perBroker)})
		t.add(w)
		f.mu.of[w.partition.TP] = t
	}
}

func (f *fetchers) fetcherLocked(key fetcherKey) *fetcher {
	if t := f.mu.byKey[key]; t != nil {
		return t
	}
	ctx, cancel := context.WithCancel(f.ctx)
	t := newFetcher(f, key, cancel)
	f.mu.byKey[key] = t
	f.tasks.Go(func() { t.run(ctx) })
	return t
}

// setPerBroker redistributes the partitions over another number of fetchers.
func (f *fetchers) setPerBroker(count int) {
	f.mu.Lock()
	if count == f.mu.perBroker {
		f.mu.Unlock()
		return
	}
	f.mu.perBroker = count
	var all []following
	for _, t := range f.mu.byKey {
		all = append(all, t.followings()...)
	}
	f.mu.Unlock()
	f.follow(all)
	f.endIdle()
}

// endIdle ends the fetchers that have nothing to fetch, for example from a broker's former address.
func (f *fetchers) endIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, t := range f.mu.byKey {
		if t.idle() {
			t.cancel()
			delete(f.mu.byKey, key)
		}
	}
}

func fetcherNumber(tp logstore.TopicPartition, count int) int {
	h := uint32(tp.Partition)
	for _, c := range []byte(tp.Topic) {
		h = h*31 + uint32(c)
	}
	return int(h % uint32(max(count, 1)))
}

// remove stops fetching a partition. When it returns, no more fetched records will be appended to it.
func (f *fetchers) remove(tp logstore.TopicPartition) {
	f.mu.Lock()
	t := f.mu.of[tp]
	delete(f.mu.of, tp)
	f.mu.Unlock()
	if t != nil {
		t.remove(tp)
	}
}

package txn

import (
	"context"
	"errors"
	"sync"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config is what a Coordinator needs to know about the broker. Its functions must be safe for concurrent use.
type Config struct {
	BrokerID int32
	// PartitionOf returns the partition of __transaction_state that stores an id.
	PartitionOf func(id string) int32
	// Log returns a partition of __transaction_state that this broker leads.
	Log func(partition int32) (Log, bool)
	// Leader returns the broker that leads a partition, -1 if there is none; exists is false if the cluster has no such
	// partition.
	Leader func(tp logstore.TopicPartition) (broker int32, exists bool)
	// TopicID returns a topic's id, zero if it is unknown.
	TopicID func(topic string) [16]byte
	// Verified reports whether leaders append a transaction's first records only after asking its coordinator.
	Verified func() bool
	// MetadataChanged is notified when Leader may return other results.
	MetadataChanged *await.Signal
	// Send delivers a request to a broker, which may be this one.
	Send func(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error)
	// ProducerIDs assigns producer ids to new transactional ids.
	ProducerIDs *ProducerIDs

	MarkersVersion int16                    // of WriteTxnMarkers
	VerifyVersion  int16                    // of AddPartitionsToTxn between brokers; negative: they cannot be asked
	MaxTimeout     time.Duration            // transaction.max.timeout.ms
	AbortInterval  time.Duration            // transaction.abort.timed.out.transaction.cleanup.interval.ms
	ExpireInterval time.Duration            // transaction.remove.expired.transaction.cleanup.interval.ms
	Expiration     time.Duration            // transactional.id.expiration.ms
	Loaded         func(took time.Duration) // called for each partition that was loaded; may be nil
	Now            func() time.Time
	Logger         *logrus.Entry
}

// Coordinator is the transaction coordinator of a broker. Its methods are safe for concurrent use. Errors wrap the code
// that a client gets.
type Coordinator struct {
	cfg           Config
	log           *logrus.Entry
	markers       brokerBatchers[markerOrder]
	verifications brokerBatchers[verifyRequest]

	ctx     context.Context
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	loading logx.Tally
	loaders chan struct{} // bounds how many logs are read at once, and with them the buffers

	mu struct {
		sync.Mutex
		shards map[int32]*shard
		closed bool
	}
}

// NewCoordinator returns a coordinator without transactional ids. LeadershipChanged tells it which partitions to load.
func NewCoordinator(cfg Config) *Coordinator {
	c := &Coordinator{cfg: cfg, log: cfg.Logger, loaders: make(chan struct{}, parallelLoads)}
	c.mu.shards = make(map[int32]*shard)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Start begins to look for transactions past their timeout, and for unused ids.
func (c *Coordinator) Start() {
	c.every(c.cfg.AbortInterval, c.abortTimedOut)
	c.every(c.cfg.ExpireInterval, c.expireIdle)
}

func (c *Coordinator) every(interval time.Duration, do func()) {
	c.tasks.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-c.ctx.Done():
				return
			case <-ticker.C:
				do()
			}
		}
	})
}

// background runs f on a goroutine that Close waits for.
func (c *Coordinator) background(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.closed {
		c.tasks.Go(f)
	}
}

// Close ends all work. The next coordinator resumes what is in progress.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.cancel()
	c.tasks.Wait()
}

// LeadershipChanged is called when this broker becomes the leader of a partition of __transaction_state in a leader
// epoch, or no longer is. Loading continues after it returns.
func (c *Coordinator) LeadershipChanged(partition, epoch int32, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.shards[partition]
	if c.mu.closed || leads && s != nil && s.lead(epoch) {
		return
	}
	if s != nil {
		s.stop()
		delete(c.mu.shards, partition)
		s.changed.Notify()
		c.log.WithFields(logrus.Fields{logx.Partition: partition, logx.LeaderEpoch: epoch}).Debug("unloaded the transactions of a partition")
	}
	if !leads {
		return
	}
	if log, ok := c.cfg.Log(partition); ok {
		s = newShard(c.ctx, partition, epoch, log)
		c.mu.shards[partition] = s
		c.loading.Begin(time.Now())
		c.tasks.Go(func() { c.loadAndTell(s) }) // not closed, since c.mu is held
	}
}

// parallelLoads bounds how many partitions are loaded at once.
const parallelLoads = 4

// loadRetryDelay is the pause before reading a log again that could not be read.
const loadRetryDelay = time.Second

// loadAndTell calls load, and logs a summary after the last of several concurrent loads.
func (c *Coordinator) loadAndTell(s *shard) {
	began := time.Now()
	ok := c.load(s)
	if ok && c.cfg.Loaded != nil {
		c.cfg.Loaded(time.Since(began))
	}
	if sum, done := c.loading.End(time.Now(), ok, s.count()); done {
		c.log.WithFields(logrus.Fields{logx.Count: sum.Count, logx.TookMs: sum.Took.Milliseconds()}).
			Infof("the transactions of %d partitions are loaded", sum.Times)
	}
}

// load fills a new shard and resumes the transactions that were being ended. It gives up when the shard is closed.
func (c *Coordinator) load(s *shard) (ok bool) {
	log, began := c.log.WithField(logx.Partition, s.partition), time.Now()
	for s.ctx.Err() == nil {
		ending, err := s.load(c.loaders, func(offset int64, err error) {
			log.WithError(err).WithField(logx.Offset, offset).Warn("skipped a record in the transaction log")
		})
		if err == nil {
			log.WithFields(logrus.Fields{logx.LeaderEpoch: s.epoch(), logx.Count: s.count(), logx.TookMs: time.Since(began).Milliseconds()}).
				Debug("transactions loaded")
			for _, id := range ending {
				c.background(func() { c.finish(s, id, s.epoch(), 0) })
			}
			return true
		}
		if s.ctx.Err() != nil {
			return false
		}
		log.WithError(err).Error("cannot load the transaction log, trying again")
		await.Pause(s.ctx, loadRetryDelay)
	}
	return false
}

// shardOf finds the shard of an id. The error is NOT_COORDINATOR if another broker leads its partition.
func (c *Coordinator) shardOf(id string) (*shard, error) {
	if id == "" {
		return nil, fault(kerr.InvalidRequest, "the transactional id is empty")
	}
	partition := c.cfg.PartitionOf(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.shards[partition]
	switch {
	case c.mu.closed:
		return nil, fault(kerr.CoordinatorNotAvailable, "the coordinator is shutting down")
	case s == nil:
		return nil, fault(kerr.NotCoordinator, "partition %d of the transaction log is not led here", partition)
	}
	return s, nil
}

func (c *Coordinator) shards() ([]*shard, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, fault(kerr.CoordinatorNotAvailable, "the coordinator is shutting down")
	}
	all := make([]*shard, 0, len(c.mu.shards))
	for _, s := range c.mu.shards {
		all = append(all, s)
	}
	return all, nil
}

func (c *Coordinator) now() int64 { return c.cfg.Now().UnixMilli() }

// InitProducerID returns a producer's id and epoch, which fence every earlier instance of it. have is the identity that
// the producer believes it has, nil for a new instance (KIP-360). A transaction that an earlier instance left open is
// aborted first. Errors: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
// COORDINATOR_NOT_AVAILABLE, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
func (c *Coordinator) InitProducerID(ctx context.Context, id string, timeout time.Duration, have *Identity) (Identity, error) {
	none := Identity{noProducerID, noProducerEpoch}
	if id == "" {
		return none, fault(kerr.InvalidRequest, "the transactional id is empty")
	}
	if timeout <= 0 || timeout > c.cfg.MaxTimeout {
		return none, fault(kerr.InvalidTransactionTimeout, "a transaction timeout of %v", timeout)
	}
	spare := c.cfg.ProducerIDs.Next
	for {
		done, err := c.change(ctx, id, c.initialising(timeout, have, spare))
		if errors.Is(err, errNoBlock) {
			taken, err := c.cfg.ProducerIDs.Wait(ctx)
			if err != nil {
				return none, err
			}
			spare = func() (int64, error) { return taken, nil }
			continue
		}
		if err != nil {
			return none, err
		}
		if !done.ending() {
			return done.Identity, nil
		}
		// That step has aborted the open transaction; the step that was requested follows.
	}
}

func (c *Coordinator) initialising(timeout time.Duration, have *Identity, fresh func() (int64, error)) decision {
	return func(known *transaction) (transaction, bool, error) {
		if known == nil {
			id, err := fresh()
			if err != nil {
				return transaction{}, false, err
			}
			t := newTransaction(id)
			known = &t
		}
		next, err := known.initialise(c.now(), timeout, have, fresh)
		return next, err == nil, err
	}
}

// AddPartitions adds partitions to a producer's transaction, and begins one if none is open. Errors are those of
// InitProducerID, and INVALID_PRODUCER_ID_MAPPING.
func (c *Coordinator) AddPartitions(ctx context.Context, id string, by Identity, added []logstore.TopicPartition) error {
	set := c.withTopics(added)
	_, err := c.change(ctx, id, func(known *transaction) (transaction, bool, error) {
		if known == nil {
			return transaction{}, false, unknown(id)
		}
		return known.add(c.now(), by, set)
	})
	return err
}

func (c *Coordinator) withTopics(tps []logstore.TopicPartition) partitions {
	set := make(partitions, len(tps))
	for _, tp := range tps {
		set[tp] = c.cfg.TopicID(tp.Topic)
	}
	return set
}

// EndTxn commits or aborts a producer's transaction. The outcome is decided when it returns; the markers follow. Errors
// are those of AddPartitions, and INVALID_TXN_STATE.
func (c *Coordinator) EndTxn(ctx context.Context, id string, by Identity, commit bool) error {
	_, err := c.change(ctx, id, func(known *transaction) (transaction, bool, error) {
		if known == nil {
			return transaction{}, false, unknown(id)
		}
		return known.end(c.now(), by, commit)
	})
	return err
}

func unknown(id string) error {
	return fault(kerr.InvalidProducerIDMapping, "transactional id %q is not known", id)
}

// patience is how long a request waits for a busy id. Usually the markers of its last transaction are just being
// written, which takes less time than the client would pause before a retry.
const patience = 50 * time.Millisecond

// change takes a step with an id and waits until it is replicated. A step that ends a transaction starts writing its
// markers.
func (c *Coordinator) change(ctx context.Context, id string, decide decision) (outcome, error) {
	s, err := c.shardOf(id)
	if err != nil {
		return outcome{}, err
	}
	done, err := c.stepWhenFree(ctx, s, id, decide)
	if err != nil || done.end == 0 {
		return done, err
	}
	if done.ending() {
		c.background(func() { c.finish(s, id, done.epoch, done.end) })
	}
	ctx, cancel := context.WithTimeoutCause(ctx, done.timeout, kerr.RequestTimedOut)
	defer cancel()
	if err := s.log.AwaitReplicated(ctx, done.epoch, done.end); err != nil {
		return done, logFault(err)
	}
	s.changed.Notify()
	return done, nil
}

// stepWhenFree takes a step, waiting briefly for a busy id.
func (c *Coordinator) stepWhenFree(ctx context.Context, s *shard, id string, decide decision) (outcome, error) {
	done, err := s.step(id, c.now(), decide)
	if !errors.Is(err, kerr.ConcurrentTransactions) {
		return done, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, err)
	defer cancel()
	err = await.Until(ctx, func() (bool, error) {
		var err error
		done, err = s.step(id, c.now(), decide)
		if errors.Is(err, kerr.ConcurrentTransactions) {
			return false, nil
		}
		return true, err
	}, &s.changed)
	return done, err
}

// Verify checks as the coordinator whether partitions belong to a producer's open transaction (KIP-890). It returns an
// error for each that does not, or one for all.
func (c *Coordinator) Verify(id string, by Identity, asked []logstore.TopicPartition) (map[logstore.TopicPartition]error, error) {
	s, err := c.shardOf(id)
	if err != nil {
		return nil, err
	}
	t, found, err := s.view(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, unknown(id)
	}
	return t.verify(by, c.withTopics(asked))
}

package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/await"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Config is what a Manager needs to know about the broker and its settings. The functions are called each time, so that
// settings may change at run time.
type Config struct {
	BrokerID                         int32
	BrokerEpoch                      func() int64
	Logs                             *logstore.Manager
	ReadSettings                     func(ctx context.Context, topics map[string]bool)       // of topics that are not hosted yet, before their first logs are needed; true: a partition is new. May be nil
	LogConfig                        func(ctx context.Context, topic string) logstore.Config // for a log that is about to be created
	Unhosted                         func(topic string)                                      // called when the last of the topic's partitions on this broker is gone
	MinInSync                        func(topic string) int                                  // min.insync.replicas
	LagMax                           func() time.Duration                                    // replica.lag.time.max.ms
	IsLive                           func(broker int32) bool
	Controller                       ControllerClient
	AlterVersion                     int16                                                                      // of AlterPartition
	ISRs                             ISRStore                                                                   // writes ISRs instead of the controller; nil: the controller does
	Stored                           func(ctx context.Context, tp logstore.TopicPartition) (StoredState, error) // reads a partition's state from ZooKeeper
	Fetch                            FetchConfig
	Move                             MoveConfig
	LeaderThrottle, FollowerThrottle Throttle
	Logger                           *logrus.Entry
	Now                              func() time.Time

	// LeadershipChanged is called when this broker becomes the leader of a partition in a leader epoch, or no longer
	// is. It is called without any lock of the partition, in the order of the controller's requests, and must not
	// block. May be nil.
	LeadershipChanged func(tp logstore.TopicPartition, leaderEpoch int32, leads bool)
	// StorageFailed is called when what the controller was told about a log is no longer true: the log is lost, or can
	// be written to again. The controller should ask again. It must not block. May be nil.
	StorageFailed func()
}

// Manager owns the partitions that this broker hosts. Its goroutines run between Start and Close: the ISR sender, the
// ISR expiry, the fetchers, those of the mover, and the one that assigns roles to logs that were loaded late.
type Manager struct {
	cfg      Config
	log      *logrus.Entry
	env      *environment
	fetchers *fetchers
	mover    *mover

	ctx    context.Context // of the background work
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	counts counts

	stopping atomic.Bool // the broker is stopping and follows no more leaders

	control struct { // serializes LeaderAndIsr, StopReplica and UpdateMetadata
		sync.Mutex
		epoch   int32 // the newest controller epoch seen
		refused bool  // a role was refused since the storage failed or was full
		dropped map[logstore.TopicPartition]droppedReplica
	}
	mu struct {
		sync.RWMutex
		partitions map[logstore.TopicPartition]*Partition
		topics     map[string]int // number of partitions of each topic
	}
	pending pendingRoles
}

// NewManager returns a Manager without partitions, which the controller assigns.
func NewManager(cfg Config) *Manager {
	if cfg.LeadershipChanged == nil {
		cfg.LeadershipChanged = func(logstore.TopicPartition, int32, bool) {}
	}
	if cfg.ReadSettings == nil {
		cfg.ReadSettings = func(context.Context, map[string]bool) {}
	}
	if cfg.StorageFailed == nil {
		cfg.StorageFailed = func() {}
	}
	m := &Manager{cfg: cfg, log: cfg.Logger}
	m.env = &environment{
		brokerID: cfg.BrokerID, lagMax: cfg.LagMax, minInSync: cfg.MinInSync, now: cfg.Now, isLive: cfg.IsLive, throttle: cfg.LeaderThrottle,
		stored:     cfg.Stored,
		isrChanges: newISRSender(cfg.BrokerID, cfg.BrokerEpoch, cfg.AlterVersion, cfg.Controller, cfg.Logger),
	}
	m.env.counts, m.env.log = &m.counts, cfg.Logger
	if cfg.ISRs != nil {
		m.env.isrChanges = newISRWriter(cfg.BrokerID, cfg.ISRs, cfg.Now, cfg.Logger)
	}
	if cfg.Fetch.Logger == nil {
		cfg.Fetch.Logger = cfg.Logger
	}
	m.mover = newMover(cfg.Move, cfg.Logs, cfg.Logger, m.movedInto)
	m.fetchers = newFetchers(cfg.BrokerID, cfg.BrokerEpoch, cfg.Fetch, cfg.FollowerThrottle)
	m.mu.partitions = make(map[logstore.TopicPartition]*Partition)
	m.mu.topics = make(map[string]int)
	m.control.dropped = make(map[logstore.TopicPartition]droppedReplica)
	m.pending.init()
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// SetFetchers sets the number of fetching goroutines for each source broker (num.replica.fetchers).
func (m *Manager) SetFetchers(perBroker int) {
	m.control.Lock() // roles do not change meanwhile
	defer m.control.Unlock()
	m.fetchers.setPerBroker(perBroker)
}

// Start begins the background work, until Close.
func (m *Manager) Start() {
	m.fetchers.start(m.ctx)
	m.tasks.Go(func() { m.env.isrChanges.run(m.ctx) })
	m.tasks.Go(func() { m.expireISR(m.ctx) })
	m.tasks.Go(func() { m.runPending(m.ctx) })
	for range max(m.cfg.Move.Threads, 1) {
		m.tasks.Go(func() { m.mover.run(m.ctx) })
	}
}

// Close stops the fetchers and the background work. Partitions keep their state, but write nothing any more.
func (m *Manager) Close() {
	m.cancel()
	m.fetchers.close()
	m.tasks.Wait()
}

// expireISR looks for lagging followers, twice in replica.lag.time.max.ms as Apache Kafka does.
func (m *Manager) expireISR(ctx context.Context) {
	for await.Pause(ctx, max(m.cfg.LagMax()/2, time.Millisecond)) == nil {
		now := m.cfg.Now()
		for _, p := range m.Partitions() {
			p.shrinkISR(now)
			p.advance() // a follower that it waited for may have lagged behind for too long
		}
	}
}

// Partition returns a hosted partition.
func (m *Manager) Partition(tp logstore.TopicPartition) (*Partition, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.mu.partitions[tp]
	return p, ok
}

// Partitions lists the hosted partitions in no particular order.
func (m *Manager) Partitions() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make([]*Partition, 0, len(m.mu.partitions))
	for _, p := range m.mu.partitions {
		all = append(all, p)
	}
	return all
}

// FromController applies another of the controller's requests, between LeaderAndIsr and StopReplica, so that what a
// newer controller has sent is not overwritten. It records the controller epoch; if a newer one has been seen, it
// returns STALE_CONTROLLER_EPOCH instead.
func (m *Manager) FromController(epoch int32, apply func()) error {
	m.control.Lock()
	defer m.control.Unlock()
	if err := m.checkControllerLocked(epoch); err != nil {
		return err
	}
	apply()
	return nil
}

func (m *Manager) checkControllerLocked(epoch int32) error {
	if epoch < m.control.epoch {
		return fmt.Errorf("controller epoch %d, newest seen %d: %w", epoch, m.control.epoch, kerr.StaleControllerEpoch)
	}
	m.control.epoch = epoch
	return nil
}

// obtain returns the partition, creating its log if there is none yet.
func (m *Manager) obtain(tp logstore.TopicPartition, topicID [16]byte, isNew bool) (*Partition, error) {
	if p, ok := m.Partition(tp); ok {
		return p, nil
	}
	log, err := m.obtainLog(tp, topicID, isNew)
	if err != nil {
		return nil, err
	}
	p := &Partition{TP: tp, env: m.env}
	p.log.Store(log)
	if copied, ok := m.cfg.Logs.Future(tp); ok {
		p.moved.log.Store(copied)
	}
	p.mu.leader, p.mu.leaderEpoch, p.mu.partitionEpoch = -1, -1, -1
	p.mu.topicID = log.TopicID()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.partitions[tp] = p
	m.mu.topics[tp.Topic]++
	return p, nil
}

// obtainLog returns the partition's log, creating it if there is none yet. Settings that change meanwhile are not
// passed to a log that is not there yet, so they are looked at again (KAFKA-8813).
func (m *Manager) obtainLog(tp logstore.TopicPartition, topicID [16]byte, isNew bool) (*logstore.Log, error) {
	cfg := m.cfg.LogConfig(m.ctx, tp.Topic)
	log, err := m.cfg.Logs.GetOrCreate(tp, topicID, cfg, isNew)
	if err != nil {
		return nil, err
	}
	look := func() logstore.Config { return m.cfg.LogConfig(m.ctx, tp.Topic) }
	for now := look(); now != cfg; now = look() {
		log.UpdateConfig(now)
		cfg = now
	}
	return log, nil
}

// Hosts reports whether any partition of the topic is hosted.
func (m *Manager) Hosts(topic string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.topics[topic] > 0
}

// remove removes a partition from those that are hosted. last reports whether it was the topic's last one.
func (m *Manager) remove(tp logstore.TopicPartition) (p *Partition, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p = m.mu.partitions[tp]; p == nil {
		return nil, false
	}
	delete(m.mu.partitions, tp)
	if m.mu.topics[tp.Topic]--; m.mu.topics[tp.Topic] > 0 {
		return p, false
	}
	delete(m.mu.topics, tp.Topic)
	return p, true
}

func (m *Manager) drop(tp logstore.TopicPartition) {
	m.pending.forget(tp)
	p, last := m.remove(tp)
	if p == nil {
		return
	}
	if last {
		defer m.cfg.Unhosted(tp.Topic)
	}
	p.reading.Lock()
	p.mu.Lock()
	p.mu.removed, p.mu.role = true, Offline
	p.mu.Unlock()
	p.reading.Unlock()
	m.dropMove(p)
	p.Changed.Notify()
}

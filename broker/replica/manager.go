package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Config is what a Manager needs to know of the broker and its settings. The functions are asked
// each time, so that settings may change while it runs.
type Config struct {
	BrokerID                         int32
	BrokerEpoch                      func() int64
	Logs                             *logstore.Manager
	LogConfig                        func(ctx context.Context, topic string) logstore.Config // of a log that is about to be created
	Unhosted                         func(topic string)                                      // the last of the topic's partitions that were here is gone
	MinInSync                        func(topic string) int                                  // min.insync.replicas
	LagMax                           func() time.Duration                                    // replica.lag.time.max.ms
	Living                           func(broker int32) bool
	Controller                       ControllerClient
	AlterVersion                     int16    // of AlterPartition
	ISRs                             ISRStore // where the ISR is written, instead of through the controller; nil: it isn't
	Fetch                            FetchConfig
	Move                             MoveConfig
	LeaderThrottle, FollowerThrottle Throttle
	Logger                           *logrus.Entry
	Now                              func() time.Time

	// LeadershipChanged tells that this broker leads a partition from a leader epoch on, or no longer does. It is called
	// without a lock of the partition, in the order of the controller's requests, and must not block. May be nil.
	LeadershipChanged func(tp logstore.TopicPartition, leaderEpoch int32, leads bool)
	// StorageFailed tells that what the controller was told of a log no longer holds: it is lost, or can be written to again. The controller
	// should ask again. It must not block.
	// May be nil.
	StorageFailed func()
}

// Manager owns the partitions that this broker hosts. Start and Close bound its goroutines:
// the ISR sender, the ISR expiry, the fetchers, the mover's, and the one that gives late logs their roles.
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

	control         sync.Mutex // one LeaderAndIsr or StopReplica at a time
	controllerEpoch int32      // guarded by control: the newest seen
	leaving         bool       // guarded by control: the broker is stopping, and follows nobody new
	refused         bool       // guarded by control: since the storage failed, or was full, a role was not taken on

	mu struct {
		sync.RWMutex
		partitions map[logstore.TopicPartition]*Partition
		topics     map[string]int // how many of each topic's partitions there are
	}
	awaited awaited
}

// NewManager returns a Manager without partitions: the controller tells which there are.
func NewManager(cfg Config) *Manager {
	if cfg.LeadershipChanged == nil {
		cfg.LeadershipChanged = func(logstore.TopicPartition, int32, bool) {}
	}
	if cfg.StorageFailed == nil {
		cfg.StorageFailed = func() {}
	}
	m := &Manager{cfg: cfg, log: cfg.Logger}
	m.env = &environment{
		brokerID: cfg.BrokerID, lagMax: cfg.LagMax, minInSync: cfg.MinInSync, now: cfg.Now, living: cfg.Living, throttle: cfg.LeaderThrottle,
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
	m.awaited.init()
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// SetFetchers has followers fetch with so many goroutines for each leading broker (num.replica.fetchers).
func (m *Manager) SetFetchers(perBroker int) {
	m.control.Lock() // roles stay as they are meanwhile
	defer m.control.Unlock()
	m.fetchers.setPerBroker(perBroker)
}

// Start begins the background work, until Close.
func (m *Manager) Start() {
	m.fetchers.start(m.ctx)
	m.tasks.Go(func() { m.env.isrChanges.run(m.ctx) })
	m.tasks.Go(func() { m.expireISR(m.ctx) })
	m.tasks.Go(func() { m.runAwaited(m.ctx) })
	for range max(m.cfg.Move.Threads, 1) {
		m.tasks.Go(func() { m.mover.run(m.ctx) })
	}
}

// Close stops the fetchers and the background work. Partitions keep their state; nothing is written any more by them.
func (m *Manager) Close() {
	m.cancel()
	m.fetchers.close()
	m.tasks.Wait()
}

// expireISR looks for followers that lag, twice in replica.lag.time.max.ms as Apache Kafka does.
func (m *Manager) expireISR(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(m.cfg.LagMax()/2, time.Millisecond)):
		}
		now := m.cfg.Now()
		for _, p := range m.Partitions() {
			p.shrinkISR(now)
		}
	}
}

// Partition gives a hosted partition.
func (m *Manager) Partition(tp logstore.TopicPartition) (*Partition, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.mu.partitions[tp]
	return p, ok
}

// Partitions lists the hosted partitions, in no order.
func (m *Manager) Partitions() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make([]*Partition, 0, len(m.mu.partitions))
	for _, p := range m.mu.partitions {
		all = append(all, p)
	}
	return all
}

// ControllerEpoch is the newest controller epoch seen in a request.
func (m *Manager) ControllerEpoch() int32 {
	m.control.Lock()
	defer m.control.Unlock()
	return m.controllerEpoch
}

// CheckControllerEpoch takes note of a request's controller epoch: STALE_CONTROLLER_EPOCH when a newer one was seen.
func (m *Manager) CheckControllerEpoch(epoch int32) error {
	m.control.Lock()
	defer m.control.Unlock()
	return m.checkControllerLocked(epoch)
}

func (m *Manager) checkControllerLocked(epoch int32) error {
	if epoch < m.controllerEpoch {
		return fmt.Errorf("controller epoch %d, newest seen %d: %w", epoch, m.controllerEpoch, kerr.StaleControllerEpoch)
	}
	m.controllerEpoch = epoch
	return nil
}

// obtain gives the partition, creating its log when there is none yet.
func (m *Manager) obtain(tp logstore.TopicPartition, topicID [16]byte, isNew bool) (*Partition, error) {
	if p, ok := m.Partition(tp); ok {
		return p, nil
	}
	log, err := m.cfg.Logs.GetOrCreate(tp, topicID, m.cfg.LogConfig(m.ctx, tp.Topic), isNew)
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

// Hosts tells whether there is a partition of the topic.
func (m *Manager) Hosts(topic string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.topics[topic] > 0
}

// remove takes a partition out of those that are hosted. last tells that it was the topic's last one.
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
	m.awaited.forget(tp)
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

package logstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/vfs"

	"github.com/sirupsen/logrus"
)

// ManagerConfig configures a Manager. Intervals of zero or less mean never. The broker property is beside each field.
type ManagerConfig struct {
	Dirs                  []string                  // log.dirs
	Default               Config                    // for topics that Topic does not know
	Topic                 func(topic string) Config // configuration of a topic when it is loaded, of which Compact matters; nil: Default
	BrokerID              int32
	ClusterID             string
	RecoveryThreadsPerDir int // num.recovery.threads.per.data.dir

	RetentionCheckInterval time.Duration // log.retention.check.interval.ms
	FlushCheckInterval     time.Duration // log.flush.scheduler.interval.ms
	RecoveryPointInterval  time.Duration // log.flush.offset.checkpoint.interval.ms
	LogStartInterval       time.Duration // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkInterval  time.Duration // replica.high.watermark.checkpoint.interval.ms
	Cleaner                CleanerConfig
	MinFreeBytes           int64         // log.dir.min.free.bytes: below it, clients' records are rejected
	SegmentDeleteDelay     time.Duration // log.segment.delete.delay.ms, for directories of deleted partitions
	ProducerExpiry         time.Duration // producer.id.expiration.ms
	ProducerExpiryInterval time.Duration // producer.id.expiration.check.interval.ms

	// MaxOpenFiles is the number of segment files that may stay open; others are reopened when they are needed. 0: no
	// limit.
	MaxOpenFiles int

	FS     vfs.FS           // nil: the operating system's
	Now    func() time.Time // nil: time.Now
	Logger *logrus.Entry
	// CleanerLogger receives the log lines of compaction. nil: Logger.
	CleanerLogger *logrus.Entry
	// Loading receives the progress of loading. May be nil.
	Loading *Loading
	// OnLoaded is called for each partition when its log is loaded, or known to be lost with its directory. It is
	// called on a loading goroutine and must not block. May be nil.
	OnLoaded func(TopicPartition)
	// OnFlushed is called with the time that flushing a segment took. It must not block. May be nil.
	OnFlushed func(took time.Duration)
	// OnDirFailure is called once for each directory that fails after Open, on a goroutine of its own.
	OnDirFailure func(dir string, err error)
	// OnSpaceFreed is called for each full directory that has room again, and for each whose files can be opened again
	// after too many were open, on a goroutine of its own. May be nil: then only writers notice.
	OnSpaceFreed func(dir string)

	padding *padding // of segments, for tests; nil: usualPadding
}

// DefaultManagerConfig returns the defaults of Apache Kafka 3.9. Dirs, BrokerID, ClusterID and Logger have to be set.
func DefaultManagerConfig() ManagerConfig {
	return ManagerConfig{
		Default:                DefaultConfig(),
		RecoveryThreadsPerDir:  1,
		RetentionCheckInterval: 5 * time.Minute,
		RecoveryPointInterval:  time.Minute,
		LogStartInterval:       time.Minute,
		HighWatermarkInterval:  5 * time.Second,
		Cleaner:                defaultCleanerConfig(),
		SegmentDeleteDelay:     time.Minute,
		ProducerExpiry:         24 * time.Hour,
		ProducerExpiryInterval: 10 * time.Minute,
	}
}

// Manager owns the log directories of a broker and the logs in them. All methods are safe for concurrent use.
type Manager struct {
	cfg       ManagerConfig
	env       *env
	disks     []*volume
	scheduler *scheduler
	clean     *cleaner

	load *loadRun

	segmentDeleteDelay atomic.Int64 // ns

	table struct {
		sync.RWMutex // leaf
		logs         map[TopicPartition]*Log
		moves        map[TopicPartition]move // to other directories, by the log being moved
		loading      map[TopicPartition]*loadingLog
	}
	mu struct {
		sync.RWMutex // held for reading by creations, for writing by deletions and closing; a Log's lock may be taken below it
		closed       bool
	}
	placing struct { // the directories of logs that are being created
		sync.Mutex // leaf but for table
		count      map[*disk]int
		preferred  map[TopicPartition]*volume // where logs that do not exist yet are to be created
	}
	failures sync.WaitGroup // running OnDirFailure and OnSpaceFreed calls
}

// ErrNoDirs is the error of Open if no directory is usable.
var ErrNoDirs = errors.New("no log directory is usable")

// Open calls Begin and waits for all logs.
func Open(ctx context.Context, cfg ManagerConfig) (*Manager, error) {
	m, err := Begin(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := m.AwaitLoaded(ctx); err != nil {
		m.giveUp()
		return nil, err
	}
	return m, nil
}

// Begin locks the directories, checks that they belong to this broker, and begins to load and recover the logs in them.
// It returns when the logs in directories that were shut down cleanly are loaded; AwaitLoaded waits for the others.
// Nothing else runs in the background before Start. An unusable directory is offline; one that is in use
// (vfs.ErrLocked), belongs to another broker (ErrWrongMeta) or has impossible content is an error, since starting would
// do harm.
func Begin(ctx context.Context, cfg ManagerConfig) (*Manager, error) {
	m := newManager(cfg.complete())
	if err := m.prepareAll(); err != nil {
		m.unlock()
		return nil, err
	}
	err := m.startLoading()
	if err == nil {
		err = m.awaitUrgent(ctx)
	}
	if err == nil {
		err = m.anyLive()
	}
	if err != nil {
		m.giveUp()
		return nil, err
	}
	return m, nil
}

// complete fills in the optional fields.
func (cfg ManagerConfig) complete() ManagerConfig {
	if cfg.FS == nil {
		cfg.FS = vfs.OS{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Topic == nil {
		cfg.Topic = func(string) Config { return cfg.Default }
	}
	if cfg.CleanerLogger == nil {
		cfg.CleanerLogger = cfg.Logger
	}
	return cfg
}

// newManager returns a Manager that has not touched the directories yet.
func newManager(cfg ManagerConfig) *Manager {
	m := &Manager{cfg: cfg, load: newLoadRun()}
	m.scheduler, m.clean = newScheduler(m), newCleaner(m)
	m.env = &env{fs: newOpenFiles(cfg.FS, cfg.MaxOpenFiles, cfg.padding), now: cfg.Now, logger: cfg.Logger,
		later: m.scheduler.later, rolled: m.rolled, truncated: m.saveTruncated, flushed: cfg.OnFlushed,
		saveOffsets: func(l *Log) error { return m.checkpointOffsets(m.volumeOf(l)) }}
	m.env.producerExpiry.Store(int64(cfg.ProducerExpiry))
	m.segmentDeleteDelay.Store(int64(cfg.SegmentDeleteDelay))
	m.table.logs, m.table.moves = make(map[TopicPartition]*Log), make(map[TopicPartition]move)
	m.table.loading = make(map[TopicPartition]*loadingLog)
	m.placing.count, m.placing.preferred = make(map[*disk]int), make(map[TopicPartition]*volume)
	return m
}

// giveUp undoes what was begun: nothing more is written, as if the process had been killed.
func (m *Manager) giveUp() {
	m.endLoading()
	for _, v := range m.disks {
		for _, l := range m.logsOn(v) {
			l.releaseAll()
		}
	}
	m.unlock()
}

// Start begins the background work: retention, flushing, checkpoints, removal of deleted files, compaction.
func (m *Manager) Start() {
	m.scheduler.start()
	m.clean.start()
}

// rolled is called for each log that has closed a segment.
func (m *Manager) rolled(l *Log) {
	m.scheduler.flushSoon(l)
	m.clean.consider(l)
}

// SetConfig applies a configuration to all partitions of a topic.
func (m *Manager) SetConfig(topic string, cfg Config) {
	m.table.Lock()
	for tp, a := range m.table.loading {
		if tp.Topic == topic {
			a.config = &cfg
		}
	}
	m.table.Unlock()
	for _, l := range m.logsIf(func(l *Log) bool { return l.tp.Topic == topic }) {
		l.UpdateConfig(cfg)
		m.clean.consider(l)
		if f, ok := m.Future(l.tp); ok {
			f.UpdateConfig(cfg)
		}
		if now, ok := m.Log(l.tp); ok && now != l { // its copy has replaced it meanwhile
			now.UpdateConfig(cfg)
		}
	}
}

// SetCleaner applies another configuration of the cleaner. Compactions in progress keep the one they started with.
// Enable does not change.
func (m *Manager) SetCleaner(cfg CleanerConfig) { m.clean.configure(cfg) }

// SetProducerExpiry changes the time after which idle producers are forgotten (producer.id.expiration.ms).
func (m *Manager) SetProducerExpiry(after time.Duration) {
	m.env.producerExpiry.Store(int64(after))
	for _, v := range m.disks {
		m.setProducerExpiry(m.logsOn(v)...)
	}
}

// setProducerExpiry applies the current expiry to logs; nil ones are skipped.
func (m *Manager) setProducerExpiry(logs ...*Log) {
	for _, l := range logs {
		if l == nil {
			continue
		}
		l.mu.Lock()
		l.mu.producers.keep = time.Duration(m.env.producerExpiry.Load())
		l.mu.Unlock()
	}
}

// SetSegmentDeleteDelay changes the time until directories of partitions deleted from now on are removed
// (log.segment.delete.delay.ms).
func (m *Manager) SetSegmentDeleteDelay(delay time.Duration) {
	m.segmentDeleteDelay.Store(int64(delay))
}

// Close stops the background work and shuts down cleanly: it closes and flushes every log, writes checkpoints and the
// clean-shutdown marks, and unlocks the directories. Calls on the logs fail from then on, except reads of what is open.
// A directory with a log that is not loaded gets no mark, since it has to be checked again.
func (m *Manager) Close() error {
	m.mu.Lock()
	closed := m.mu.closed
	m.mu.closed = true
	m.mu.Unlock()
	if closed {
		return nil
	}
	m.endLoading()
	m.clean.stop()
	m.scheduler.stop()
	var errs []error
	for _, v := range m.disks {
		errs = append(errs, v.fail("write checkpoint", m.checkpointHighWatermarks(v)))
	}
	for _, v := range m.disks {
		errs = append(errs, m.closeVolume(v))
	}
	m.unlock()
	m.failures.Wait()
	return errors.Join(errs...)
}

// parallel calls fn for each item on n goroutines and returns the joined errors. Items are taken in order.
func parallel[T any](items []T, n int, fn func(T) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, len(items))
	for range min(n, len(items)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				errs[i] = fn(items[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

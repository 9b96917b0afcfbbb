package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"
)

// ManagerConfig is how a Manager behaves. Intervals of zero or less are never. The name of the broker property is
// beside each field.
type ManagerConfig struct {
	Dirs                  []string                  // log.dirs
	Default               Config                    // of topics that Topic doesn't know
	Topic                 func(topic string) Config // configuration of a topic at load, Compact counts; nil: Default
	BrokerID              int32
	ClusterID             string
	RecoveryThreadsPerDir int // num.recovery.threads.per.data.dir

	RetentionCheckInterval time.Duration // log.retention.check.interval.ms
	FlushCheckInterval     time.Duration // log.flush.scheduler.interval.ms
	RecoveryPointInterval  time.Duration // log.flush.offset.checkpoint.interval.ms
	LogStartInterval       time.Duration // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkInterval  time.Duration // replica.high.watermark.checkpoint.interval.ms
	Cleaner                CleanerConfig
	MinFreeBytes           int64         // log.dir.min.free.bytes: with no more room in a directory clients' records are refused
	SegmentDeleteDelay     time.Duration // log.segment.delete.delay.ms, of directories of deleted partitions
	ProducerExpiry         time.Duration // producer.id.expiration.ms
	ProducerExpiryInterval time.Duration // producer.id.expiration.check.interval.ms

	// MaxOpenFiles is how many record files stay open; others are opened again when they are needed. 0: no limit.
	MaxOpenFiles int

	FS     vfs.FS           // nil: the operating system's
	Now    func() time.Time // nil: time.Now
	Logger *logrus.Entry
	// CleanerLogger gets what compaction has to say. nil: Logger.
	CleanerLogger *logrus.Entry
	// Loading can be asked how far the loading of the logs is. May be nil.
	Loading *Loading
	// OnLoaded hears of each partition once its log is there, or is known to be lost with its directory. It is called on a goroutine of
	// the loading and must not block. May be nil.
	OnLoaded func(TopicPartition)
	// OnFlushed hears how long it took to make a segment durable. It must not block. May be nil.
	OnFlushed func(took time.Duration)
	// OnDirFailure hears once of each directory that fails after Open. It is called on a goroutine of its own.
	OnDirFailure func(dir string, err error)
	// OnRoom hears of each directory that has room again after it had none. It is called on a goroutine of its own. May be nil: then only
	// who writes finds out.
	OnRoom func(dir string)
}

// DefaultManagerConfig has the defaults of Apache Kafka 3.9. Dirs, BrokerID, ClusterID and Logger are missing.
func DefaultManagerConfig() ManagerConfig {
	return ManagerConfig{
		Default:                DefaultConfig(),
		RecoveryThreadsPerDir:  1,
		RetentionCheckInterval: 5 * time.Minute,
		RecoveryPointInterval:  time.Minute,
		LogStartInterval:       time.Minute,
		HighWatermarkInterval:  5 * time.Second,
		Cleaner:                DefaultCleanerConfig(),
		SegmentDeleteDelay:     time.Minute,
		ProducerExpiry:         24 * time.Hour,
		ProducerExpiryInterval: 10 * time.Minute,
	}
}

// Manager owns the log directories of a broker and the logs in them. All methods are safe for concurrent use.
type Manager struct {
	cfg   ManagerConfig
	env   *env
	disks []*volume
	keep  *keeper
	clean *cleaner

	intake *intake

	segmentDeleteDelay atomic.Int64 // ns

	table struct {
		sync.RWMutex // leaf
		logs         map[TopicPartition]*Log
		moves        map[TopicPartition]move // of these logs, to other directories
		arrivals     map[TopicPartition]*arrival
	}
	mu struct {
		sync.RWMutex // held for reading by creations, for writing by deletions and the end; a Log's lock may be taken below it
		closed       bool
	}
	placing struct { // which directories the logs being created go to
		sync.Mutex // leaf but for table
		count      map[*disk]int
		wishes     map[TopicPartition]*volume // where logs that are not there yet were told to be
	}
	failures sync.WaitGroup // running OnDirFailure and OnRoom calls
}

// volume is a directory of log.dirs with what the manager keeps about it.
type volume struct {
	disk
	lock io.Closer
	// wasClean: the last stop was clean, or there was none.
	wasClean    bool
	checkpoints checkpoints
	progress    *dirProgress // set once it is known what is to be loaded

	// Guarded by Manager.table.
	queue []*part // to be loaded, next first
	// unloaded are the partitions that have a directory here and no log of it in the table: it is not loaded yet, or it can't be.
	unloaded map[TopicPartition]bool
}

// ErrNoDirs is the error of Open when no directory is usable.
var ErrNoDirs = errors.New("no log directory is usable")

// Open is Begin, and waits for all logs.
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

// Begin locks the directories, checks that they are ours, and begins to load and recover the logs in them. It returns when the
// logs of the directories whose last stop was clean are there; AwaitLoaded waits for the others. Nothing else runs in the
// background before Start. A directory that can't be used is offline; one that is in use (vfs.ErrLocked), belongs elsewhere
// (ErrWrongMeta) or holds what can't be there is an error, since starting would do harm.
func Begin(ctx context.Context, cfg ManagerConfig) (*Manager, error) {
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
	m := &Manager{cfg: cfg, intake: newIntake()}
	m.keep, m.clean = newKeeper(m), newCleaner(m)
	m.env = &env{fs: newOpenFiles(cfg.FS, cfg.MaxOpenFiles), now: cfg.Now, logger: cfg.Logger,
		later: m.keep.later, rolled: m.rolled, truncated: m.saveTruncated, flushed: cfg.OnFlushed,
		saveOffsets: func(l *Log) error { return m.checkpointOffsets(m.volumeOf(l)) }}
	m.env.producerExpiry.Store(int64(cfg.ProducerExpiry))
	m.segmentDeleteDelay.Store(int64(cfg.SegmentDeleteDelay))
	m.table.logs, m.table.moves = make(map[TopicPartition]*Log), make(map[TopicPartition]move)
	m.table.arrivals = make(map[TopicPartition]*arrival)
	m.placing.count, m.placing.wishes = make(map[*disk]int), make(map[TopicPartition]*volume)
	if err := m.prepareAll(); err != nil {
		m.unlock()
		return nil, err
	}
	err := m.startIntake()
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

func (m *Manager) prepareAll() error {
	for _, dir := range m.cfg.Dirs {
		v := &volume{unloaded: make(map[TopicPartition]bool)}
		v.path, v.report, v.reportRoom, v.now = filepath.Clean(dir), m.dirFailed, m.roomChanged, m.cfg.Now
		v.room.min = m.cfg.MinFreeBytes
		m.disks = append(m.disks, v)
		if err := m.prepare(v); err != nil {
			return err
		}
	}
	return nil
}

// giveUp undoes what was begun: nothing is written any more, as if the process were killed.
func (m *Manager) giveUp() {
	m.endIntake()
	for _, v := range m.disks {
		for _, l := range m.logsOn(v) {
			l.releaseAll()
		}
	}
	m.unlock()
}

// anyLive is an error when no directory is left.
func (m *Manager) anyLive() error {
	if m.liveDisks() == 0 {
		return fmt.Errorf("%w: log.dirs is %v", ErrNoDirs, m.cfg.Dirs)
	}
	return nil
}

func (m *Manager) liveDisks() int {
	n := 0
	for _, v := range m.disks {
		if !v.failed.Load() {
			n++
		}
	}
	return n
}

// prepare locks a directory and makes it ours. Disk faults take it offline and are no error.
func (m *Manager) prepare(v *volume) error {
	err := m.cfg.FS.MkdirAll(v.path)
	if err == nil {
		v.lock, err = m.cfg.FS.Lock(filepath.Join(v.path, lockFile))
	}
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("log directory %s is in use by another broker: %w", v.path, err)
	}
	if err == nil {
		err = checkMeta(m.cfg.FS, v.path, Meta{m.cfg.BrokerID, m.cfg.ClusterID}, m.cfg.Now())
	}
	if errors.Is(err, ErrWrongMeta) {
		return err
	}
	if err == nil {
		err = v.begin(m.cfg.FS, m.cfg.Logger)
	}
	_ = v.condemn("open log directory", err)
	return nil
}

// begin takes the mark of a clean stop away and reads the checkpoints.
func (v *volume) begin(fsys vfs.FS, logger *logrus.Entry) error {
	mark := filepath.Join(v.path, cleanFile)
	_, err := fsys.Stat(mark)
	v.wasClean = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if v.wasClean {
		if err := fsys.Remove(mark); err != nil {
			return err
		}
		if err := fsys.SyncDir(v.path); err != nil { // back after a crash, it would hide what must be recovered
			return err
		}
	}
	return v.checkpoints.load(fsys, v.path, logger)
}

// dirFailed is told once of each directory that fails.
func (m *Manager) dirFailed(d *disk, err error) {
	m.cfg.Logger.WithError(err).WithField(logx.Dir, d.path).Error("log directory failed and is offline")
	if m.cfg.OnDirFailure == nil {
		return
	}
	m.failures.Go(func() { m.cfg.OnDirFailure(d.path, err) })
}

// roomChanged is told when a directory begins or ends to refuse clients' records.
func (m *Manager) roomChanged(d *disk, low bool, usable int64) {
	logger := m.cfg.Logger.WithFields(map[string]any{logx.Dir: d.path, logx.SizeBytes: usable})
	if low {
		logger.Error("log directory has no room left, refusing records until there is some")
		return
	}
	logger.Info("log directory has room again")
	if m.cfg.OnRoom != nil {
		m.failures.Go(func() { m.cfg.OnRoom(d.path) })
	}
}

// Start begins what runs in the background: retention, flushing, checkpoints, removal of what was deleted, compaction.
func (m *Manager) Start() {
	m.keep.start()
	m.clean.start()
}

// rolled hears of each log that has closed a segment.
func (m *Manager) rolled(l *Log) {
	m.keep.flushSoon(l)
	m.clean.consider(l)
}

// Log is the log of a partition, also when its directory is offline.
func (m *Manager) Log(tp TopicPartition) (*Log, bool) {
	m.table.RLock()
	defer m.table.RUnlock()
	l, ok := m.table.logs[tp]
	return l, ok
}

// Logs are the logs in directories that are online, in no order.
func (m *Manager) Logs() []*Log {
	return m.logsIf(func(l *Log) bool { return !l.disk.failed.Load() })
}

// logsOn are the logs and the copies of logs in a directory.
func (m *Manager) logsOn(v *volume) []*Log {
	logs, _ := m.holdings(v)
	return logs
}

// holdings are the logs and the copies of logs in a directory, and the partitions whose log in it is not loaded.
func (m *Manager) holdings(v *volume) (logs []*Log, unloaded []TopicPartition) {
	m.table.RLock()
	defer m.table.RUnlock()
	for _, l := range m.table.logs {
		if l.disk == &v.disk {
			logs = append(logs, l)
		}
	}
	return append(logs, m.futuresLocked(v)...), slices.Collect(maps.Keys(v.unloaded))
}

// holds tells whether the log of a partition is in a directory, loaded or not.
func (m *Manager) holds(v *volume, tp TopicPartition) bool {
	m.table.RLock()
	defer m.table.RUnlock()
	l, ok := m.table.logs[tp]
	return ok && l.disk == &v.disk || v.unloaded[tp]
}

func (m *Manager) futuresOn(v *volume) []*Log {
	m.table.RLock()
	defer m.table.RUnlock()
	return m.futuresLocked(v)
}

func (m *Manager) futuresLocked(v *volume) []*Log {
	var logs []*Log
	for _, mv := range m.table.moves {
		if mv.future.disk == &v.disk {
			logs = append(logs, mv.future)
		}
	}
	return logs
}

func (m *Manager) logsIf(want func(*Log) bool) []*Log {
	m.table.RLock()
	defer m.table.RUnlock()
	var logs []*Log
	for _, l := range m.table.logs {
		if want(l) {
			logs = append(logs, l)
		}
	}
	return logs
}

// setLog puts a log into the table, or takes it out when it is nil.
func (m *Manager) setLog(tp TopicPartition, l *Log) {
	m.table.Lock()
	defer m.table.Unlock()
	if l == nil {
		delete(m.table.logs, tp)
		return
	}
	m.table.logs[tp] = l
}

// GetOrCreate is the log of a partition, which is made in the directory with the fewest logs when there is none. A log that is
// not new might be in a directory that is offline: then none is made, and the error wraps kerr.KafkaStorageError. One that is still
// being loaded is ErrLoading; OnLoaded tells when to come again. A zero topicID is one that isn't known; another than the stored
// one is kerr.InconsistentTopicID.
func (m *Manager) GetOrCreate(tp TopicPartition, topicID [16]byte, cfg Config, isNew bool) (*Log, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.arriving(tp) {
		return nil, fmt.Errorf("%v: %w", tp, ErrLoading)
	}
	if l, ok := m.Log(tp); ok {
		if err := l.disk.usable(); err != nil {
			return nil, err
		}
		if topicID == ([16]byte{}) {
			return l, nil
		}
		return l, l.SetTopicID(topicID)
	}
	if m.mu.closed {
		return nil, errClosed
	}
	if !isNew && m.liveDisks() < len(m.disks) {
		return nil, fmt.Errorf("%v may be in a log directory that is offline: %w", tp, kerr.KafkaStorageError)
	}
	wish := m.wished(tp)
	for tried := 0; tried <= len(m.disks); tried++ {
		v := m.place(wish)
		wish = nil
		if v == nil {
			break
		}
		l, err := createLog(m.env, &v.disk, loading{tp: tp, dir: filepath.Join(v.path, tp.String()), cfg: cfg, clean: true}, topicID)
		if err != nil {
			_ = v.fail("create log", err) // it is not tried again
			m.placed(v)
			continue
		}
		m.setLog(tp, l)
		m.placed(v)
		return l, nil
	}
	return nil, fmt.Errorf("no log directory for %v: %w", tp, kerr.KafkaStorageError)
}

// place chooses a directory for one more log, the wished one or that with the fewest logs; nil when none is left. placed must
// follow.
func (m *Manager) place(wish *volume) *volume {
	m.placing.Lock()
	defer m.placing.Unlock()
	live := m.disks
	if wish != nil && !wish.failed.Load() {
		live = []*volume{wish}
	} else if len(m.disks) > 1 || m.disks[0].failed.Load() {
		live = m.emptiest()
	}
	if len(live) == 0 {
		return nil
	}
	m.placing.count[&live[0].disk]++
	return live[0]
}

// emptiest is the usable directories, those with room and the fewest logs first, counting those being created.
func (m *Manager) emptiest() []*volume {
	counts := maps.Clone(m.placing.count)
	for _, v := range m.disks {
		logs, unloaded := m.holdings(v)
		counts[&v.disk] += len(logs) + len(unloaded)
	}
	live := slices.DeleteFunc(slices.Clone(m.disks), func(v *volume) bool { return v.failed.Load() })
	without := func(v *volume) int {
		if v.room.low.Load() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(live, func(a, b *volume) int {
		return cmp.Or(without(a)-without(b), counts[&a.disk]-counts[&b.disk])
	})
	return live
}

func (m *Manager) placed(v *volume) {
	m.placing.Lock()
	defer m.placing.Unlock()
	m.placing.count[&v.disk]--
}

// Delete takes a partition's log away, and the copy if it is being moved: the directory is renamed now and removed after
// log.segment.delete.delay.ms. A partition without a log is no error; one whose log is still being loaded is not waited for.
func (m *Manager) Delete(tp TopicPartition) error {
	if err := m.abandon(tp); err != nil {
		return err
	}
	if l, ok := m.Log(tp); ok { // before other creations and deletions are kept waiting
		defer l.cleaning.hold()()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.Log(tp)
	if !ok {
		return nil
	}
	if err := l.disk.usable(); err != nil {
		return err
	}
	defer l.cleaning.hold()()
	if err := m.dropFutureLocked(tp); err != nil { // first: a copy that is left alone would be removed at the next start
		return err
	}
	if err := m.discard(l); err != nil {
		return err
	}
	m.setLog(tp, nil)
	v := m.volumeOf(l)
	err := errors.Join(m.checkpointOffsets(v), m.forgetCleaned(v, tp))
	return v.fail("write checkpoint", err)
}

func (m *Manager) volumeOf(l *Log) *volume {
	i := slices.IndexFunc(m.disks, func(v *volume) bool { return &v.disk == l.disk })
	return m.disks[i]
}

func (m *Manager) removeDirLater(dir string) {
	m.keep.later(time.Duration(m.segmentDeleteDelay.Load()), func() {
		if err := m.cfg.FS.RemoveAll(dir); err != nil {
			m.cfg.Logger.WithError(err).WithField(logx.Dir, dir).Warn("cannot remove a deleted partition")
		}
	})
}

// retire closes the log of a deleted partition and renames its directory.
func (l *Log) retire() (string, error) {
	l.mu.Lock()
	dir := filepath.Join(l.disk.path, deletedDirName(l.tp))
	err := l.env.fs.Rename(l.mu.dir, dir)
	if err == nil {
		l.closed.Store(true)
		l.relocateLocked(dir)
	}
	l.mu.Unlock()
	if err != nil {
		return "", l.disk.fail("rename directory of deleted partition", err)
	}
	l.releaseAll()
	return dir, nil
}

// SetConfig puts a configuration in force for all partitions of a topic.
func (m *Manager) SetConfig(topic string, cfg Config) {
	m.table.Lock()
	for tp, a := range m.table.arrivals {
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
	}
}

// SetCleaner puts another configuration of the cleaner in force. Compactions under way end as they began. Enable does not
// change.
func (m *Manager) SetCleaner(cfg CleanerConfig) { m.clean.configure(cfg) }

// SetProducerExpiry changes after what time idle producers are forgotten (producer.id.expiration.ms).
func (m *Manager) SetProducerExpiry(after time.Duration) {
	m.env.producerExpiry.Store(int64(after))
	for _, v := range m.disks {
		m.setProducerExpiry(m.logsOn(v)...)
	}
}

// setProducerExpiry has logs go by the time that is in force; nil ones are passed over.
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

// SetSegmentDeleteDelay changes how long the directory of a partition that is deleted from now on stays
// (log.segment.delete.delay.ms).
func (m *Manager) SetSegmentDeleteDelay(delay time.Duration) {
	m.segmentDeleteDelay.Store(int64(delay))
}

// DirInfo describes one of log.dirs.
type DirInfo struct {
	Path   string
	Online bool
	// Total and Usable are the size of the volume and what is free on it, in bytes; -1 when offline.
	Total, Usable int64
	// Refuses: clients' records are refused, for there is too little room (log.dir.min.free.bytes).
	Refuses bool
	Logs    []LogInfo
}

// LogInfo describes a log in a directory.
type LogInfo struct {
	TopicPartition
	Size int64 // bytes
	// OffsetLag is how far the log end is behind the high watermark, that of a copy behind the end of the log.
	OffsetLag int64
	// Future: this is the copy of a log that is being moved here.
	Future bool
}

// Dirs describes all of log.dirs, in their order.
func (m *Manager) Dirs() []DirInfo {
	infos := make([]DirInfo, 0, len(m.disks))
	for _, v := range m.disks {
		info := DirInfo{Path: v.path, Total: -1, Usable: -1}
		if !v.failed.Load() {
			total, usable, err := m.cfg.FS.Usage(v.path)
			if err = v.fail("ask for free space", err); err == nil {
				info.Online, info.Total, info.Usable, info.Refuses = true, total, usable, v.room.low.Load()
				info.Logs = m.describe(v)
			}
		}
		infos = append(infos, info)
	}
	return infos
}

func (m *Manager) describe(v *volume) []LogInfo {
	logs := m.logsIf(func(l *Log) bool { return l.disk == &v.disk })
	infos := make([]LogInfo, 0, len(logs))
	for _, l := range logs {
		infos = append(infos, LogInfo{l.tp, l.Size(), max(0, l.HighWatermark()-l.LogEndOffset()), false})
	}
	for _, f := range m.futuresOn(v) {
		if l, ok := m.Log(f.tp); ok {
			infos = append(infos, LogInfo{f.tp, f.Size(), max(0, l.LogEndOffset()-f.LogEndOffset()), true})
		}
	}
	return append(infos, m.unloadedIn(v)...)
}

// FarthestMove is how many offsets the copy of a log that is being moved lacks, the largest number of all.
func (m *Manager) FarthestMove() (lag int64) {
	for _, v := range m.disks {
		for _, f := range m.futuresOn(v) {
			if l, ok := m.Log(f.tp); ok {
				lag = max(lag, l.LogEndOffset()-f.LogEndOffset())
			}
		}
	}
	return lag
}

// OfflineDirs are the directories that have failed.
func (m *Manager) OfflineDirs() []string {
	var dirs []string
	for _, v := range m.disks {
		if v.failed.Load() {
			dirs = append(dirs, v.path)
		}
	}
	return dirs
}

// FullDirs are the directories that are online and refuse clients' records, for there is too little room.
func (m *Manager) FullDirs() []string {
	var dirs []string
	for _, v := range m.disks {
		if !v.failed.Load() && v.room.low.Load() {
			dirs = append(dirs, v.path)
		}
	}
	return dirs
}

// Close ends what runs in the background and stops cleanly: every log is closed and flushed, checkpoints and the mark of
// a clean stop are written, and the directories unlocked. Calls on the logs fail from then on, reads of what is open excepted.
// A directory with a log that is not loaded gets no mark: it has to be looked at once more.
func (m *Manager) Close() error {
	m.mu.Lock()
	closed := m.mu.closed
	m.mu.closed = true
	m.mu.Unlock()
	if closed {
		return nil
	}
	m.endIntake()
	m.clean.stop()
	m.keep.stop()
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

// minThreads is how many logs of a directory are opened or closed at a time at least: that is mostly waiting for the
// disk. What reads a lot is limited to num.recovery.threads.per.data.dir.
const minThreads = 8

// closeVolume closes the logs of a directory and leaves the mark of a clean stop, unless the directory has failed.
func (m *Manager) closeVolume(v *volume) error {
	logs, unloaded := m.holdings(v)
	err := parallel(logs, max(m.cfg.RecoveryThreadsPerDir, minThreads), func(l *Log) error { return l.close() })
	if v.failed.Load() {
		for _, l := range logs {
			l.releaseAll()
		}
		return nil // was reported
	}
	if err != nil {
		return err
	}
	if err := v.fail("write checkpoint", m.checkpointOffsets(v)); err != nil {
		return err
	}
	if len(unloaded) > 0 {
		m.cfg.Logger.WithFields(logrus.Fields{logx.Dir: v.path, logx.Count: len(unloaded)}).Warn("logs were not loaded, the next start recovers the directory")
		return nil
	}
	return v.fail("write the mark of a clean stop", vfs.WriteFile(m.cfg.FS, filepath.Join(v.path, cleanFile), []byte(cleanContent)))
}

// unlock lets go of the directories.
func (m *Manager) unlock() {
	for _, v := range m.disks {
		if v.lock == nil {
			continue
		}
		_ = m.cfg.FS.Remove(filepath.Join(v.path, lockFile)) // an empty file that is left does no harm
		_ = v.lock.Close()
		v.lock = nil
	}
}

// parallel calls fn for each item on n goroutines and returns the errors joined. Items are taken in order.
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

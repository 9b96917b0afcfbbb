package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"

	"github.com/twmb/franz-go/pkg/kerr"
)

// loadOptions is what is known about a log before its directory is examined.
type loadOptions struct {
	tp            TopicPartition
	dir           string
	future        bool // it is a copy of a log
	cfg           Config
	clean         bool // the last shutdown was clean
	recoveryPoint int64
	// flushedUnknown: recoveryPoint is 0 because nothing is known. Then only damage that is not followed by valid
	// batches is taken for the torn tail of a crash.
	flushedUnknown bool
	// compacted: the log was compacted at some time, here or where it was copied from, even if it may not be any more;
	// or it is unknown whether it was. Its segments may end before the next ones begin.
	compacted     bool
	logStart      int64
	highWatermark int64
	size, toRead  int64 // bytes of the segments, and of those that must be read; 0: unknown
	// count is called with the number of bytes that were read of those that must be; may be nil.
	count func(bytes int64)
	// recovering holds a token for each log that reads a lot at a time; nil: no limit.
	recovering chan struct{}
}

// ErrDamaged reports that flushed data cannot be read. It is never truncated: the log goes offline.
var ErrDamaged = errors.New("log is damaged")

// load opens the log in a partition's directory and recovers it if necessary (LogLoader.load, 3.9). If ctx ends first,
// the error is its cause; the next load starts over.
func load(ctx context.Context, e *env, d *disk, o loadOptions) (*Log, error) {
	for {
		ld := loader{loadOptions: o, ctx: ctx, env: e}
		l, err := ld.load(d)
		var overfull *overfullError
		if !errors.As(err, &overfull) {
			return l, err
		}
		err = ld.split(overfull.base)
		if noSpace(err) {
			return nil, fmt.Errorf("%w: segment %d in %s must be split, and the disk has no room: %w", ErrDamaged, overfull.base, o.dir, err)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (ld *loader) load(d *disk) (*Log, error) {
	if err := ld.cleanUp(); err != nil {
		return nil, err
	}
	l := ld.newLog(d)
	if err := ld.readFiles(l); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := ld.loadSegments(l)
	for _, s := range *l.segments.Load() {
		err = errors.Join(err, s.rest())
	}
	if err != nil {
		l.releaseAllLocked()
		return nil, err
	}
	return l, nil
}

type loader struct {
	loadOptions
	ctx       context.Context // of the load
	env       *env
	names     map[string]bool // of the files left after cleanUp
	bases     []int64         // of the segments, ascending
	snapshots []int64
	newEpochs bool // found in the records but not in the file yet
	noEpochs  bool // the file could not be parsed
}

// newLog creates the Log without reading the directory.
func (ld *loader) newLog(d *disk) *Log {
	l := &Log{tp: ld.tp, env: ld.env, disk: d, logger: ld.env.logger.WithFields(logFields(ld.tp, d.path))}
	l.config.Store(&ld.cfg)
	l.unstable.Store(-1)
	l.setSegmentsLocked(nil)
	l.flushedAt.Store(new(ld.env.now()))
	l.mu.dir = ld.dir
	l.mu.producers = newProducerTable(time.Duration(ld.env.producerExpiry.Load()))
	l.mu.snaps = snapshots{fs: ld.env.fs, dir: ld.dir, logger: l.logger, offsets: ld.snapshots}
	l.epochs = newEpochs(ld.env.fs, ld.dir)
	return l
}

// readFiles reads the small files.
func (ld *loader) readFiles(l *Log) error {
	var err error
	if l.mu.topicID, err = readPartitionMetadata(ld.env.fs, ld.dir); err != nil {
		return err
	}
	if err = l.epochs.load(); errors.Is(err, errMalformed) {
		l.logger.WithError(err).Warn("cannot parse the leader epoch checkpoint, reading the epochs from the records")
		err, ld.noEpochs = nil, ld.cfg.Magic >= 2
	}
	if err != nil {
		return err
	}
	return l.epochs.setFormat(ld.cfg.Magic)
}

// findEpochs reads the leader epochs from the records of the whole log. Unreadable records are skipped: then a follower
// truncates and fetches more than necessary.
func (ld *loader) findEpochs(l *Log) error {
	l.epochs.forgetEnd(0) // those of the recovered segments, which are in order only together with the ones before
	for _, s := range *l.segments.Load() {
		err := s.scan(0, func(h header) (bool, error) {
			if h.batch.Magic() >= 2 {
				l.epochs.remember(h.batch.LeaderEpoch(), h.batch.BaseOffset())
			}
			return true, context.Cause(ld.ctx)
		})
		if errors.Is(err, kerr.CorruptMessage) {
			l.logger.WithError(err).Warn("the leader epochs after a damaged batch are unknown")
			continue
		}
		if err != nil {
			return err
		}
	}
	return l.epochs.rewrite()
}

// loadSegments loads the segments from the files.
func (ld *loader) loadSegments(l *Log) error {
	if err := ld.openSegments(l); err != nil {
		return err
	}
	segments := *l.segments.Load()
	end, err := ld.recover(l, segments)
	if err != nil {
		return err
	}
	segments = *l.segments.Load()
	l.start.Store(max(ld.logStart, segments[0].base))
	if end < ld.logStart {
		l.logger.WithField(logx.Offset, ld.logStart).Warn("log ends below its start offset, beginning again there")
		l.end.store(end, segments[0].base, 0)
		return l.restartLocked(ld.logStart)
	}
	l.publishEndLocked(end)
	l.mu.restored = end
	l.hw.Store(min(max(ld.highWatermark, l.start.Load()), end))
	l.recovery.Store(end)
	if !ld.clean {
		l.recovery.Store(min(ld.recoveryPoint, end))
	}
	if ld.noEpochs {
		if err := ld.findEpochs(l); err != nil {
			return err
		}
	}
	l.epochs.forgetEnd(end)
	if l.epochs.forgetStart(l.start.Load()) {
		if err := l.epochs.flush(); err != nil && !noSpace(err) { // a log on a full disk must be loaded, to make room
			return err
		}
	}
	return ld.loadProducers(l, end)
}

func (ld *loader) openSegments(l *Log) error {
	now := ld.env.now()
	var segments []*segment
	for _, base := range ld.bases {
		st, err := ld.env.fs.Stat(filepath.Join(ld.dir, fileName(base, logSuffix)))
		if err != nil {
			return err
		}
		s := newSegment(ld.env.fs, ld.dir, base, st.Size(), &ld.cfg, now)
		if st.Size() == 0 {
			s.maxStamp, s.maxKnown = noStamp(base), true
		}
		s.jitter = rollJitter(&ld.cfg)
		s.named.Store(ld.clean) // otherwise the directory may have been created just before the process was killed
		segments = append(segments, s)
	}
	if len(segments) == 0 {
		s, err := createSegment(ld.env.fs, ld.dir, ld.logStart, &ld.cfg, now)
		if err != nil {
			return err
		}
		s.jitter = rollJitter(&ld.cfg)
		if err := s.prepareIndexes(); err != nil {
			return err
		}
		segments = append(segments, s)
	}
	l.setSegmentsLocked(segments)
	return nil
}

// createLog creates the directory and the first segment of a new log. If that fails, no directory is left: the next
// start would take it for the log, besides the one created in another directory meanwhile.
func createLog(e *env, d *disk, o loadOptions, topicID [16]byte) (*Log, error) {
	_, err := e.fs.Stat(o.dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	l, err := createLogIn(e, d, o, topicID)
	if err != nil && fresh {
		err = errors.Join(err, e.fs.RemoveAll(o.dir))
	}
	return l, err
}

func createLogIn(e *env, d *disk, o loadOptions, topicID [16]byte) (*Log, error) {
	if err := e.fs.MkdirAll(o.dir); err != nil {
		return nil, err
	}
	f, err := e.fs.OpenFile(filepath.Join(o.dir, epochFile), vfs.ReadWrite|vfs.Create)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if topicID != ([16]byte{}) {
		if err := writePartitionMetadata(e.fs, o.dir, topicID); err != nil {
			return nil, err
		}
	}
	return load(context.Background(), e, d, o) // nothing to recover, nothing to wait for
}

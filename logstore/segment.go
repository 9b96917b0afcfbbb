package logstore

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// Suffixes of the files in a partition's directory.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
	deletedSuffix   = ".deleted"
	cleanedSuffix   = ".cleaned"
	swapSuffix      = ".swap"
)

// fileName returns the name of a file that belongs to an offset: 20 digits and the suffix.
func fileName(offset int64, suffix string) string { return fmt.Sprintf("%020d%s", offset, suffix) }

// parseFileName returns the offset in such a name.
func parseFileName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && offset >= 0
}

// segment is one section of a log: a segment file and its indexes.
//
// The Log's lock covers appending and truncating. Readers need a reference instead: acquire, release. The owner also
// holds one, and releases it when the segment leaves the log; with the last reference the file is closed.
type segment struct {
	fs    *openFiles
	base  int64
	index offsetIndex
	times timeIndex
	txns  *txnIndex

	size  atomic.Int64 // bytes of whole batches in the file
	named atomic.Bool  // the files' names are durable, or being made so
	dirty atomic.Bool  // the file has changed since the last sync, or may have before an unclean shutdown
	refs  atomic.Int32
	file  atomic.Pointer[openFile]
	used  atomic.Int64 // openFiles.round when the file was last used

	recent atomic.Pointer[recent] // the last appends; nil: none since the load or the last truncation

	mu struct {
		sync.Mutex // leaf but for the indexes' own; held to open, close and rename
		dir        string
		suffix     string // cleanedSuffix, then swapSuffix while compaction creates it; deletedSuffix once it is dropped
		closed     bool
	}

	// Under the Log's lock.
	touched    bool  // since it was loaded: finish has something to do
	sinceIndex int64 // bytes since the last index entry
	maxStamp   stamp // valid if maxKnown
	maxKnown   bool
	rollTime   int64 // timestamp from which rolling by time counts, if rollKnown
	rollKnown  bool
	created    time.Time // wall clock, for segments without timestamps
	parts      [][]byte  // empty; memory for write
	joined     []byte    // the same, of joinedSize; nil: not needed yet
	padded     int64     // size of the file, if that is more than size; see padding
	reserved   int64     // position up to which the file system has space for the file; see reserve
	jitter     time.Duration

	preallocated bool // the file was created with the largest size of a segment
}

type openFile struct{ vfs.File }

// errSegmentGone tells a reader that the segment has been dropped. The offset must be looked up again.
var errSegmentGone = errors.New("segment no longer exists")

func newSegment(fsys *openFiles, dir string, base, size int64, cfg *Config, now time.Time) *segment {
	s := &segment{fs: fsys, base: base, created: now}
	s.mu.dir = dir
	s.index = newOffsetIndex(fsys, s.pathLocked(indexSuffix), base, cfg.IndexSizeMax)
	s.times = newTimeIndex(fsys, s.pathLocked(timeIndexSuffix), base, cfg.IndexSizeMax)
	s.txns = newTxnIndex(fsys, s.pathLocked(txnIndexSuffix))
	s.size.Store(size)
	s.refs.Store(1)
	return s
}

// createSegment creates the file of a new, empty segment.
func createSegment(fsys *openFiles, dir string, base int64, cfg *Config, now time.Time) (*segment, error) {
	s := newSegment(fsys, dir, base, 0, cfg, now)
	f, err := s.create()
	if err != nil {
		return nil, err
	}
	if cfg.Preallocate {
		if err := f.Truncate(int64(cfg.SegmentBytes)); err != nil {
			_ = f.Close()
			return nil, err
		}
		s.preallocated = true
	}
	s.keepLocked(f)
	return s, nil
}

// createCleaned creates the files that a compaction writes, under names that a load removes.
func createCleaned(fsys *openFiles, dir string, base int64, cfg *Config, now time.Time) (*segment, error) {
	s := newSegment(fsys, dir, base, 0, cfg, now)
	s.mu.suffix = cleanedSuffix
	s.relocateIndexesLocked()
	f, err := s.create()
	if err != nil {
		return nil, err
	}
	s.keepLocked(f)
	return s, errors.Join(s.txns.reset(), s.prepareIndexes())
}

// create creates the file of a segment that is not in use yet.
func (s *segment) create() (vfs.File, error) {
	s.maxStamp, s.maxKnown = noStamp(s.base), true
	s.touched = true
	s.dirty.Store(true)
	return s.fs.OpenFile(s.path(logSuffix), vfs.ReadWrite|vfs.Create|vfs.Truncate)
}

func (s *segment) pathLocked(suffix string) string {
	return filepath.Join(s.mu.dir, fileName(s.base, suffix)+s.mu.suffix)
}

func (s *segment) path(suffix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pathLocked(suffix)
}

// acquire takes a reference, unless the segment is gone.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release releases a reference. With the last one the file is closed.
func (s *segment) release() {
	if s.refs.Add(-1) == 0 {
		s.closeFile()
	}
}

func (s *segment) closeFile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	if f := s.file.Swap(nil); f != nil {
		_ = f.Close() // it has been synced if that mattered
		s.fs.closed()
	}
}

// keepLocked makes f the segment's file.
func (s *segment) keepLocked(f vfs.File) {
	s.used.Store(s.fs.round.Load())
	s.file.Store(&openFile{f})
	s.fs.opened()
}

// open returns the segment's file. It is opened when it is first needed and stays open until it is idle and there are
// too many. The caller holds a reference or the log's lock.
func (s *segment) open() (vfs.File, error) {
	if round := s.fs.round.Load(); s.used.Load() != round {
		s.used.Store(round)
	}
	if f := s.file.Load(); f != nil {
		return f.File, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.file.Load(); f != nil {
		return f.File, nil
	}
	if s.mu.closed {
		return nil, errSegmentGone
	}
	f, err := s.fs.OpenFile(s.pathLocked(logSuffix), vfs.ReadWrite)
	if err != nil {
		return nil, err
	}
	s.keepLocked(f)
	return f, nil
}

// appended is a sequence of whole batches to be appended to a segment.
type appended struct {
	data  []byte
	last  int64 // offset of the last record
	stamp stamp // the largest timestamp
	first int64 // offset of the first record
}

// append appends as with one write, and adds index entries where they are due.
func (s *segment) append(all []appended, cfg *Config) error {
	position := s.size.Load()
	if position == 0 {
		s.rollTime, s.rollKnown = all[0].stamp.timestamp, true
	}
	end := position
	for i := range all {
		end += int64(len(all[i].data))
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	behind, padded := s.pad(end, cfg)
	s.reserve(f, padded, cfg)
	err = s.write(f, all, behind, position)
	if noSpace(err) && padded > end { // without padding there may be enough
		_ = f.Truncate(position)
		s.reserved, padded = 0, end
		err = s.write(f, all, nil, position)
	}
	if err != nil {
		s.reserved, s.padded = 0, 0
		_ = f.Truncate(position) // if that fails too, recovery truncates it
		return err
	}
	s.size.Store(end)
	s.padded = padded
	s.touched = true
	s.dirty.Store(true)
	for i := range all {
		a := &all[i]
		s.remember(a, position)
		err := s.indexAppend(a, position, cfg.IndexIntervalBytes)
		if err != nil && !noSpace(err) && !tooManyFiles(err) {
			return err
		} // otherwise, the batch is written; it is found without the entry, and the next append tries again
		position += int64(len(a.data))
	}
	return nil
}

// joinedSize is how many bytes write copies so that they follow each other.
const joinedSize = 1024

// write writes all, and what is to be behind it, to f at a position, with one call.
func (s *segment) write(f vfs.File, all []appended, behind []byte, position int64) error {
	if len(all) == 1 && len(behind) == 0 {
		_, err := f.WriteAt(all[0].data, position)
		return err
	}
	if len(all) == 1 && len(all[0].data)+len(behind) <= joinedSize { // a vector costs more than copying so few bytes
		if s.joined == nil {
			s.joined = make([]byte, 0, joinedSize)
		}
		_, err := f.WriteAt(append(append(s.joined, all[0].data...), behind...), position)
		return err
	}
	s.parts = s.parts[:0]
	for i := range all {
		s.parts = append(s.parts, all[i].data)
	}
	s.parts = append(s.parts, behind)
	_, err := f.WritePartsAt(s.parts, position)
	clear(s.parts)
	return err
}

// remember records where a batch was appended. Several batches at once come to followers, from whose end few read.
func (s *segment) remember(a *appended, position int64) {
	if size, err := record.SizeOf(a.data); err != nil || size != len(a.data) {
		return
	}
	r := s.recent.Load()
	if r == nil {
		r = new(recent)
		s.recent.Store(r)
	}
	r.add(a.last, position, len(a.data))
}

func (s *segment) indexAppend(a *appended, position int64, indexInterval int32) error {
	largest, err := s.largest()
	if err != nil {
		return err
	}
	if a.stamp.timestamp > largest.timestamp {
		s.maxStamp = a.stamp
	}
	if s.sinceIndex > int64(indexInterval) && !s.index.isFull() && !s.times.isFull() {
		if err := s.index.add(a.last, position); err != nil {
			return err
		}
		if err := s.times.add(s.maxStamp); err != nil {
			return err
		}
		s.sinceIndex = 0
	}
	s.sinceIndex += int64(len(a.data))
	return nil
}

// prepareIndexes creates the index files of a segment for its first append.
func (s *segment) prepareIndexes() error {
	if err := s.index.preallocate(); err != nil {
		return err
	}
	return s.times.preallocate()
}

// largest returns the stamp of the largest timestamp in the segment.
func (s *segment) largest() (stamp, error) {
	if s.maxKnown {
		return s.maxStamp, nil
	}
	ordered, err := s.times.ordered()
	if err != nil {
		return stamp{}, err
	}
	if !ordered { // damaged: records would seem to be older than they are. Without it times are found, only slowly
		if err := s.times.truncate(0); err != nil {
			return stamp{}, err
		}
		s.touched = true
		err := s.findLargest()
		return s.maxStamp, err
	}
	last, err := s.times.last()
	if err != nil {
		return stamp{}, err
	}
	s.maxStamp, s.maxKnown = last, true
	return s.maxStamp, nil
}

// largestTime returns the largest timestamp in the segment, in ms, or the file's modification time if its records have
// none.
func (s *segment) largestTime() (int64, error) {
	largest, err := s.largest()
	if err != nil || largest.timestamp >= 0 {
		return largest.timestamp, err
	}
	return s.modified()
}

// modified returns when the file was last written, in ms.
func (s *segment) modified() (int64, error) {
	st, err := s.fs.Stat(s.path(logSuffix))
	if err != nil {
		return 0, err
	}
	return st.ModTime().UnixMilli(), nil
}

// fits reports whether an offset can be stored relative to the base.
func (s *segment) fits(offset int64) bool {
	return offset >= s.base && offset-s.base <= math.MaxInt32
}

// rollDue reports whether a new segment must begin before a is appended, after a number of bytes that are about to be
// written (LogSegment.shouldRoll, 3.9).
func (s *segment) rollDue(a *appended, after int64, cfg *Config, now func() time.Time) (bool, error) {
	if err := errors.Join(s.index.load(), s.times.load()); err != nil {
		return false, err
	}
	size := s.size.Load() + after
	if size > int64(cfg.SegmentBytes)-int64(len(a.data)) || s.index.isFull() || s.times.isFull() || !s.fits(a.last) {
		return true, nil
	}
	if size == 0 || cfg.SegmentAge < 0 {
		return false, nil
	}
	waited, err := s.waited(a.stamp.timestamp, now)
	return waited > cfg.SegmentAge-s.jitter, err
}

// waited returns the time that counts for rolling: from the first batch's timestamp to that of what is being appended,
// or by the clock if the records have none.
func (s *segment) waited(appended int64, now func() time.Time) (time.Duration, error) {
	first, err := s.rollStart()
	if err != nil {
		return 0, err
	}
	if first >= 0 {
		return saturatedMillis(appended - first), nil
	}
	return now().Sub(s.created), nil
}

// rollStart returns the timestamp of the first batch.
func (s *segment) rollStart() (int64, error) {
	if !s.rollKnown {
		first, err := s.firstTimestamp()
		if err != nil {
			return 0, err
		}
		s.rollTime, s.rollKnown = first, true
	}
	return s.rollTime, nil
}

// saturatedMillis converts ms to a duration, limited to the largest one.
func saturatedMillis(ms int64) time.Duration {
	if ms > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	if ms < int64(math.MinInt64/time.Millisecond) {
		return math.MinInt64
	}
	return time.Duration(ms) * time.Millisecond
}

func (s *segment) firstTimestamp() (int64, error) {
	first := record.NoTimestamp
	err := s.scan(0, func(h header) (bool, error) {
		first = h.batch.MaxTimestamp()
		return false, nil
	})
	return first, err
}

// finish ends appending: it forgets what was remembered, trims a file with padding, reserved or preallocated space to its
// used size, adds the last time index entry, and trims the indexes.
func (s *segment) finish() error {
	s.recent.Store(nil)
	if !s.touched {
		return nil
	}
	reserved := s.size.Load() >= reserveFrom // perhaps by an earlier process
	if s.preallocated || reserved || s.padded > s.size.Load() {
		if err := s.trim(); err != nil { // first: it makes room for the rest
			return err
		}
	}
	largest, err := s.largest()
	if err != nil {
		return err
	}
	if largest.timestamp >= 0 {
		if err := s.times.add(largest); err != nil {
			return err
		}
	}
	if err := s.index.trim(); err != nil {
		return err
	}
	return s.times.trim()
}

// trim cuts off what the file has beyond the last batch. Its modification time remains that of the last write, by which
// records without timestamps are retained, and copies of a log told apart.
func (s *segment) trim() error {
	f, err := s.open()
	if err != nil {
		return err
	}
	st, err := s.fs.Stat(s.path(logSuffix))
	if err != nil {
		return err
	}
	if err := f.Truncate(s.size.Load()); err != nil {
		return err
	}
	s.reserved, s.padded, s.preallocated = 0, 0, false
	s.dirty.Store(true) // its length must be durable before it counts as flushed
	// It fails if the file belongs to another user, as after a broker of that user, or if the file system has no such
	// times: then the file only looks newer.
	_ = s.fs.SetModTime(s.path(logSuffix), st.ModTime())
	return nil
}

// sync makes the whole segment durable.
func (s *segment) sync() error {
	if err := s.syncFile(); err != nil {
		return err
	}
	if err := s.index.sync(); err != nil {
		return err
	}
	if err := s.times.sync(); err != nil {
		return err
	}
	return s.txns.sync()
}

func (s *segment) syncFile() error {
	if !s.dirty.Swap(false) {
		return nil
	}
	f, err := s.open()
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		s.dirty.Store(true)
	}
	return err
}

// rest closes the file of a segment that is not being read yet. It is reopened when it is needed: there may be more
// partitions than file descriptors.
func (s *segment) rest() error {
	if f := s.file.Swap(nil); f != nil {
		s.fs.closed()
		return f.Close()
	}
	return nil
}

// truncate removes everything from offset on and returns the number of bytes removed.
func (s *segment) truncate(offset int64, now time.Time) (int64, error) {
	position, size, err := s.find(offset)
	if err != nil {
		return 0, err
	}
	if size == 0 {
		position = s.size.Load()
	}
	s.recent.Store(nil)
	if err := s.index.truncateFrom(offset); err != nil {
		return 0, err
	}
	if err := s.times.truncateFrom(offset); err != nil {
		return 0, err
	}
	if err := s.txns.truncateFrom(offset); err != nil {
		return 0, err
	}
	f, err := s.open()
	if err != nil {
		return 0, err
	}
	dropped := s.size.Load() - position
	if err := f.Truncate(position); err != nil {
		return 0, err
	}
	s.reserved, s.padded = 0, 0
	s.size.Store(position)
	s.touched = true
	s.dirty.Store(true)
	s.sinceIndex = 0
	s.rollKnown = false
	if position == 0 {
		s.created = now
	}
	return dropped, s.findLargest()
}

// findLargest finds the largest timestamp of a segment whose last ones are not in the time index.
func (s *segment) findLargest() error {
	largest, err := s.times.last()
	if err != nil {
		return err
	}
	from, err := s.index.lookup(largest.offset)
	if err != nil {
		return err
	}
	err = s.scan(from, func(h header) (bool, error) {
		if t := h.batch.MaxTimestamp(); t > largest.timestamp {
			largest = stamp{t, h.batch.LastOffset()}
		}
		return true, nil
	})
	s.maxStamp, s.maxKnown = largest, err == nil
	return err
}

// segmentSuffixes are the suffixes of a segment's files, in the order in which they are renamed and removed: without
// the segment file, the rest is recognised as stray.
var segmentSuffixes = []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix}

// drop renames the files so that a load does not find the segment. remove follows.
func (s *segment) drop() error { return s.rename(deletedSuffix) }

// rename adds another suffix to the names of the files. If it fails halfway it returns an error, and the old names
// count.
func (s *segment) rename(suffix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range segmentSuffixes {
		plain := filepath.Join(s.mu.dir, fileName(s.base, kind))
		if err := ignoreNotExist(s.fs.Rename(plain+s.mu.suffix, plain+suffix)); err != nil {
			return err
		}
	}
	s.mu.suffix = suffix
	s.relocateIndexesLocked()
	return nil
}

// remove removes the files of a dropped segment.
func (s *segment) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closeIndexes(); err != nil {
		return err
	}
	for _, suffix := range segmentSuffixes {
		if err := ignoreNotExist(s.fs.Remove(s.pathLocked(suffix))); err != nil {
			return err
		}
	}
	return nil
}

func (s *segment) closeIndexes() error {
	return errors.Join(s.index.close(), s.times.close())
}

// relocate follows a rename of the directory.
func (s *segment) relocate(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.dir = dir
	s.relocateIndexesLocked()
}

func (s *segment) relocateIndexesLocked() {
	s.index.relocate(s.pathLocked(indexSuffix))
	s.times.relocate(s.pathLocked(timeIndexSuffix))
	s.txns.relocate(s.pathLocked(txnIndexSuffix))
}

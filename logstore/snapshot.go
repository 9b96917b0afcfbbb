package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"

	"github.com/sirupsen/logrus"
)

// Layout of a producer snapshot, fixed: int16 version 1, uint32 CRC-32C of what follows, int32 count, then entries of
// int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp,
// int32 coordinator epoch, int64 first offset of the open transaction.
const (
	snapshotVersion   = 1
	snapshotHeader    = 10
	snapshotEntrySize = 46
)

var errBadSnapshot = errors.New("malformed producer snapshot")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode encodes the snapshot.
func (t *producerTable) encode() []byte {
	ids := slices.Sorted(maps.Keys(t.byID))
	be := binary.BigEndian
	b := make([]byte, snapshotHeader, snapshotHeader+len(ids)*snapshotEntrySize)
	be.PutUint16(b, snapshotVersion)
	be.PutUint32(b[6:], uint32(len(ids)))
	for _, id := range ids {
		p := t.byID[id]
		m := producerBatch{lastSeq: -1, lastOffset: -1}
		if last := p.last(); last != nil {
			m = *last
		}
		b = be.AppendUint64(b, uint64(p.id))
		b = be.AppendUint16(b, uint16(p.epoch))
		b = be.AppendUint32(b, uint32(m.lastSeq))
		b = be.AppendUint64(b, uint64(m.lastOffset))
		b = be.AppendUint32(b, uint32(m.offsetDelta))
		b = be.AppendUint64(b, uint64(p.lastTimestamp))
		b = be.AppendUint32(b, uint32(p.coordinatorEpoch))
		b = be.AppendUint64(b, uint64(p.txnFirst))
	}
	be.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

// decode replaces the state with that of a snapshot taken at end. Expired producers are left out.
func (t *producerTable) decode(b []byte, end int64, now time.Time) error {
	be := binary.BigEndian
	if len(b) < snapshotHeader || be.Uint16(b) != snapshotVersion {
		return fmt.Errorf("%w: no header of version %d", errBadSnapshot, snapshotVersion)
	}
	if be.Uint32(b[2:]) != crc32.Checksum(b[6:], castagnoli) {
		return fmt.Errorf("%w: wrong checksum", errBadSnapshot)
	}
	n := int64(be.Uint32(b[6:]))
	if b = b[snapshotHeader:]; int64(len(b)) != n*snapshotEntrySize {
		return fmt.Errorf("%w: %d entries in %d bytes", errBadSnapshot, n, len(b))
	}
	t.reset(end)
	for ; len(b) > 0; b = b[snapshotEntrySize:] {
		p := newProducer(int64(be.Uint64(b)))
		p.epoch = int16(be.Uint16(b[8:]))
		m := producerBatch{int32(be.Uint32(b[10:])), int64(be.Uint64(b[14:])), int32(be.Uint32(b[22:])), int64(be.Uint64(b[26:]))}
		if m.lastSeq >= 0 && m.lastOffset >= 0 {
			p.add(m)
		}
		p.lastTimestamp = m.timestamp
		p.coordinatorEpoch = int32(be.Uint32(b[34:]))
		p.txnFirst = int64(be.Uint64(b[38:]))
		t.load(p, now)
	}
	slices.SortFunc(t.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
	return nil
}

func (t *producerTable) load(p *producer, now time.Time) {
	switch {
	case p.txnFirst >= 0:
		t.open = append(t.open, openTxn{p.id, p.txnFirst})
	case t.expired(p, now):
		return
	}
	t.byID[p.id] = p
}

// snapshots are the snapshot files in a partition's directory, by offset. The Log's lock guards them.
type snapshots struct {
	fs      vfs.FS
	dir     string
	logger  *logrus.Entry
	offsets []int64 // ascending
	taken   int64   // the state up to this offset needs no snapshot
}

func (s *snapshots) path(offset int64) string {
	return filepath.Join(s.dir, fileName(offset, snapshotSuffix))
}

// latest returns the offset of the newest snapshot, or -1.
func (s *snapshots) latest() int64 {
	if len(s.offsets) == 0 {
		return -1
	}
	return s.offsets[len(s.offsets)-1]
}

// take writes a snapshot of t, unless there is one with the same offset. It is synced if sync is true.
func (s *snapshots) take(t *producerTable, sync bool) error {
	if t.end <= s.taken {
		return nil
	}
	f, err := s.fs.OpenFile(s.path(t.end), vfs.ReadWrite|vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(t.encode(), 0); err != nil {
		_ = f.Close()
		return err
	}
	s.taken = t.end
	s.offsets = append(s.offsets, t.end)
	if sync {
		if err := f.Sync(); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}

// restore sets t from the newest valid snapshot that is not above end. Invalid ones are removed. Without one, t is
// empty at start.
func (s *snapshots) restore(t *producerTable, start, end int64, now time.Time) error {
	for i := len(s.offsets) - 1; i >= 0; i-- {
		offset := s.offsets[i]
		if offset > end || offset < start {
			continue
		}
		data, err := s.fs.ReadFile(s.path(offset))
		if err == nil {
			err = t.decode(data, offset, now)
		}
		if err == nil {
			s.taken = offset
			return nil
		}
		if !errors.Is(err, errBadSnapshot) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.logger.WithError(err).WithField(logx.File, s.path(offset)).Warn("removing an invalid producer snapshot, reading its state from the records")
		if err := s.remove(offset); err != nil {
			return err
		}
	}
	t.reset(start)
	s.taken = start
	return nil
}

// remove removes the snapshot at an offset, if there is one.
func (s *snapshots) remove(offset int64) error {
	s.offsets = slices.DeleteFunc(s.offsets, func(o int64) bool { return o == offset })
	return ignoreNotExist(s.fs.Remove(s.path(offset)))
}

// removeIf removes the snapshots for whose offset drop returns true.
func (s *snapshots) removeIf(drop func(offset int64) bool) error {
	for _, offset := range slices.Clone(s.offsets) {
		if drop(offset) {
			if err := s.remove(offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// retire renames the snapshot at an offset, to be removed later, and returns the file's new name; "" if there is none.
func (s *snapshots) retire(offset int64) (string, error) {
	if !slices.Contains(s.offsets, offset) {
		return "", nil
	}
	s.offsets = slices.DeleteFunc(s.offsets, func(o int64) bool { return o == offset })
	err := s.fs.Rename(s.path(offset), s.path(offset)+deletedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return fileName(offset, snapshotSuffix) + deletedSuffix, err
}

// syncFile makes a file durable if it exists.
func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, vfs.ReadWrite)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

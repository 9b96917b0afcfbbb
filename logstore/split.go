package logstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"barnabas/internal/logx"
	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Indexes store offsets relative to a segment's base in 31 bits. Releases of Apache Kafka before 1.1.1 could create
// segments that span more, especially by compaction (KAFKA-6264). Such a segment is split when its log is loaded, into
// segments with the same batches (LocalLog.splitOverflowedSegment, 3.9): the pieces are written beside it as .cleaned
// and renamed to .swap, the highest base first; from then on they are like the result of a compaction. A load after a
// kill finds a .cleaned file and undoes everything, or none and completes it. The pieces' indexes are created by the
// recovery of segments without an index.

// overfullError reports a segment that must be split before it can be used.
type overfullError struct{ base int64 }

func (e *overfullError) Error() string {
	return fmt.Sprintf("segment %d holds offsets that are too far above it", e.base)
}

// overfull reports whether a batch's offsets are too far above a segment's base, rather than invalid: next is the base
// of the next segment.
func overfull(b record.Batch, base, next int64) bool {
	return b.LastOffset()-base > math.MaxInt32 && b.LastOffset() < next
}

// findOverfull looks for segments to split among those that are not read anyway. Most cannot be: the next one begins
// soon enough.
func (ld *loader) findOverfull(segments []*segment, read map[*segment]*rescan) error {
	for i, s := range segments {
		if read[s] != nil || i == len(segments)-1 || segments[i+1].base-s.base <= math.MaxInt32+1 {
			continue
		}
		err := s.scan(0, func(h header) (bool, error) {
			if overfull(h.batch, s.base, segments[i+1].base) {
				return false, &overfullError{s.base}
			}
			return true, context.Cause(ld.ctx)
		})
		if err != nil && !errors.Is(err, kerr.CorruptMessage) { // damage will show when the segment is read
			return err
		}
	}
	return nil
}

// piece is a range of a segment file that becomes a segment.
type piece struct {
	base     int64
	from, to int64 // positions in the file
}

// pieces divides the batches of a segment file. Damage at its end stays with the last piece, for recovery.
func pieces(f vfs.File, base, size int64) ([]piece, error) {
	list := []piece{{base: base}}
	w := batchWalk{file: f, size: size}
	end := base
	for w.next() {
		b, last := w.batch, &list[len(list)-1]
		if b.LastOffset()-last.base > math.MaxInt32 {
			last.to = w.position
			list = append(list, piece{base: pieceBase(b, end), from: w.position})
		}
		end = b.LastOffset() + 1
	}
	list[len(list)-1].to = size
	return list, w.err
}

// pieceBase returns the base of a piece that begins with a batch, where all batches before are below end. A wrapper in
// an old format does not contain its first offset.
func pieceBase(b record.Batch, end int64) int64 {
	if b.Magic() >= 2 {
		return b.BaseOffset()
	}
	return max(end, b.LastOffset()-math.MaxInt32)
}

// split writes the pieces of a segment and makes them ready to replace it, which the next load does.
func (ld *loader) split(base int64) error {
	name := filepath.Join(ld.dir, fileName(base, logSuffix))
	f, err := ld.env.fs.OpenFile(name, vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := ld.env.fs.Stat(name)
	if err != nil {
		return err
	}
	list, err := pieces(f, base, st.Size())
	if err != nil {
		return err
	}
	for _, p := range list {
		cleaned := filepath.Join(ld.dir, fileName(p.base, logSuffix)+cleanedSuffix)
		if err := ld.copyPiece(f, p, cleaned); err != nil {
			return err
		}
		if err := ld.env.fs.SetModTime(cleaned, st.ModTime()); err != nil {
			return err
		}
	}
	if err := ld.env.fs.SyncDir(ld.dir); err != nil {
		return err
	}
	for i, p := range slices.Backward(list) {
		if i == 0 { // with this one the pieces are complete: a power failure must not leave it without the others
			if err := ld.env.fs.SyncDir(ld.dir); err != nil {
				return err
			}
		}
		plain := fileName(p.base, logSuffix)
		if err := ld.rename(plain+cleanedSuffix, plain+swapSuffix); err != nil {
			return err
		}
	}
	ld.env.logger.WithFields(logFields(ld.tp, filepath.Dir(ld.dir))).WithField(logx.Segment, base).WithField(logx.Count, len(list)).
		Warn("splitting a segment that spans too many offsets")
	return ld.env.fs.SyncDir(ld.dir)
}

// copyPiece writes a piece durably.
func (ld *loader) copyPiece(from vfs.File, p piece, name string) error {
	to, err := ld.env.fs.OpenFile(name, vfs.ReadWrite|vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	defer to.Close()
	buf := make([]byte, min(walkBuffer, p.to-p.from))
	for at := p.from; at < p.to; {
		n, err := from.ReadAt(buf[:min(int64(len(buf)), p.to-at)], at)
		if n == 0 {
			return damaged(from, at, noEOF(err))
		}
		if _, err := to.WriteAt(buf[:n], at-p.from); err != nil {
			return err
		}
		if err := context.Cause(ld.ctx); err != nil {
			return err
		}
		at += int64(n)
	}
	return to.Sync()
}

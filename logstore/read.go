package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"barnabas/internal/vfs"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Records is a range of a segment file that contains records, for sending from the file or for reading. It must be
// closed; until then the bytes remain available, even if the segment is deleted meanwhile. The zero value contains no
// records.
type Records struct {
	seg  *segment
	next int64 // base of the next segment, 0 if there is none
	file vfs.File
	// Position is where the records begin in the file, and Size their size in bytes.
	Position, Size int64
	FirstCut       bool // the first batch is incomplete
}

// OS returns the file, for sendfile; nil if the file system has none.
func (r *Records) OS() *os.File {
	if r.file == nil {
		return nil
	}
	return r.file.OS()
}

// ReadAt reads from the records; offset 0 is their beginning.
func (r *Records) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 || offset >= r.Size {
		return 0, io.EOF
	}
	cut := p
	if left := r.Size - offset; int64(len(p)) > left {
		cut = p[:left]
	}
	n, err := r.file.ReadAt(cut, r.Position+offset)
	if err == nil && len(cut) < len(p) {
		err = io.EOF
	}
	return n, err
}

// Append appends the records' bytes to dst.
func (r *Records) Append(dst []byte) ([]byte, error) {
	if r.Size == 0 {
		return dst, nil
	}
	at := len(dst)
	dst = append(dst, make([]byte, r.Size)...)
	if n, err := r.file.ReadAt(dst[at:], r.Position); int64(n) < r.Size {
		return dst[:at], damaged(r.file, r.Position+int64(n), noEOF(err))
	}
	return dst, nil
}

// Bound returns an offset above all of the records, as close as the offset index allows, but at most limit, which must
// be such an offset.
func (r *Records) Bound(limit int64) (int64, error) {
	if r.seg == nil {
		return limit, nil
	}
	if r.next > 0 {
		limit = min(limit, r.next)
	}
	offset, ok, err := r.seg.index.beyond(r.Position + r.Size)
	if err != nil || !ok {
		return limit, err
	}
	return min(offset, limit), nil
}

// MoreFollow reports whether records below limit are in later segments, which this read could not reach whatever its
// maximum size.
func (r *Records) MoreFollow(limit int64) bool { return r.Size > 0 && r.next > 0 && r.next < limit }

// Close releases the segment. It may be called more than once.
func (r *Records) Close() {
	if r.seg != nil {
		r.seg.release()
		*r = Records{}
	}
}

// Read finds the records for a fetch: from the batch that contains offset on, up to maxBytes, which may cut the last
// batch, and never a record at upTo or above (a high watermark, a last stable offset or the log end offset). If
// minOneBatch is true, the first batch is returned whole even if it is larger than maxBytes. It reads from a single
// segment, so there may be more. At the end of the log, or of what upTo allows, it returns no records and no error;
// outside of the log the error wraps kerr.OffsetOutOfRange. It takes no lock.
func (l *Log) Read(offset int64, maxBytes int32, upTo int64, minOneBatch bool) (Records, error) {
	for {
		if err := l.readable(); err != nil {
			return Records{}, err
		}
		cuts := l.cuts.Load()
		r, err := l.read(offset, int64(maxBytes), upTo, minOneBatch)
		if err == nil {
			return r, nil
		}
		if !l.cutSince(cuts) {
			return r, l.readFailure(offset, err)
		}
	}
}

// cutSince reports whether the log was truncated since the counter had the given value. It waits for a truncation in
// progress.
func (l *Log) cutSince(cuts int64) bool {
	if cuts%2 == 0 && l.cuts.Load() == cuts {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts.Load() != cuts
}

// readable returns an error if the log can no longer be read.
func (l *Log) readable() error {
	if err := l.disk.usable(); err != nil {
		return err
	}
	if l.closed.Load() {
		return errClosed
	}
	return nil
}

// readFailure takes the disk offline if a read failed for a reason other than its data.
func (l *Log) readFailure(offset int64, err error) error {
	var code *kerr.Error
	if errors.As(err, &code) {
		return err
	}
	return l.disk.fail(fmt.Sprintf("read %v at offset %d", l.tp, offset), err)
}

func (l *Log) read(offset, maxBytes, upTo int64, minOneBatch bool) (Records, error) {
	end, endBase, endPosition := l.end.load()
	if start := l.start.Load(); offset < start || offset > end {
		return Records{}, fmt.Errorf("offset %d of %v is not within %d and %d: %w", offset, l.tp, start, end, kerr.OffsetOutOfRange)
	}
	if upTo = min(upTo, end); offset >= upTo {
		return Records{}, nil
	}
	segments := *l.segments.Load()
	i := floor(segments, offset)
	for ; i >= 0 && i < len(segments); i++ { // continue with the next one if compaction has left nothing above offset
		s := segments[i]
		limit := endPosition
		if s.base != endBase || upTo < end {
			limit = -1
		}
		if i+1 < len(segments) && segments[i+1].base <= upTo {
			limit = s.size.Load()
		}
		r, err := s.read(offset, maxBytes, upTo, limit, minOneBatch)
		if i+1 < len(segments) {
			r.next = segments[i+1].base
		}
		if err != nil || r.Size > 0 || r.seg != nil {
			return r, err
		}
	}
	return Records{}, nil
}

// floor returns the index of the last segment whose base is at most offset, or -1.
func floor(segments []*segment, offset int64) int {
	return sort.Search(len(segments), func(i int) bool { return segments[i].base > offset }) - 1
}

// read finds records in one segment. limit is the position of upTo, or -1 if that has to be looked up.
func (s *segment) read(offset, maxBytes, upTo, limit int64, minOneBatch bool) (Records, error) {
	if !s.acquire() {
		return Records{}, errSegmentGone
	}
	position, size, first, err := s.span(offset, maxBytes, upTo, limit, minOneBatch)
	if err != nil || size < 0 {
		s.release()
		return Records{}, err
	}
	f, err := s.open()
	if err != nil {
		s.release()
		return Records{}, err
	}
	return Records{seg: s, file: f, Position: position, Size: size, FirstCut: 0 < size && size < first}, nil
}

// span returns where the records for a read are, and the size of the first batch; size is -1 if there are none at
// offset or above.
func (s *segment) span(offset, maxBytes, upTo, limit int64, minOneBatch bool) (position, size, first int64, err error) {
	position, first, err = s.find(offset)
	if err != nil || first == 0 {
		return 0, -1, 0, err
	}
	if limit < 0 {
		var beyond int64
		if limit, beyond, err = s.find(upTo); err != nil {
			return 0, 0, 0, err
		}
		if beyond == 0 {
			limit = s.size.Load()
		}
	}
	size = max(maxBytes, 0)
	if minOneBatch {
		size = max(size, first)
	}
	// The batch of offset may also contain upTo: then it must not be visible yet.
	return position, max(min(size, limit-position), 0), first, nil
}

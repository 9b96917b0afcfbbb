package logstore

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// To look at batch headers a segment is read in chunks: the first one is small, since the wanted batch is often found
// at once, and while batches are small they grow to about the distance between two index entries.
const (
	firstChunk = 256
	scanChunk  = 4 << 10
)

// chunks pools the buffers of scans; nothing in them outlives a scan.
var chunks = sync.Pool{New: func() any { return new([scanChunk]byte) }}

// header is a batch in a segment of which only the first bytes were read.
type header struct {
	batch    record.Batch // record.HeaderSize bytes of it, fewer for a smaller message
	position int64
	size     int64
}

// scan calls fn with the header of each whole batch from position on, until fn returns false. The batch is valid until
// fn returns. position must be the beginning of a batch. Everything below size was checked when it was written or
// recovered, so anything wrong there is damage.
func (s *segment) scan(position int64, fn func(header) (bool, error)) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	buf := chunks.Get().(*[scanChunk]byte)
	defer chunks.Put(buf)
	return scanFile(f, buf[:], position, s.size.Load(), fn)
}

func scanFile(f vfs.File, buf []byte, position, size int64, fn func(header) (bool, error)) error {
	var from, have int64 // buf holds [from, from+have)
	chunk := int64(firstChunk)
	for position+record.Overhead < size {
		want := min(record.HeaderSize, size-position)
		if position < from || position+want > from+have {
			if position > from+have {
				chunk = record.HeaderSize // large batches: only their headers
			}
			n, err := f.ReadAt(buf[:min(chunk, size-position)], position)
			chunk = min(4*chunk, int64(len(buf)))
			if int64(n) < want {
				return damaged(f, position, noEOF(err))
			}
			from, have = position, int64(n)
		}
		at := position - from
		head := buf[at : at+want]
		n, err := record.SizeOf(head)
		if err == nil && (n == 0 || position+int64(n) > size) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return damaged(f, position, err)
		}
		h := header{record.Batch(head[:min(len(head), n)]), position, int64(n)}
		if more, err := fn(h); !more || err != nil {
			return err
		}
		position += int64(n)
	}
	return nil
}

func noEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// damaged returns an error that says where something is wrong. A file that ends too early is damage to the data, not a
// disk fault.
func damaged(f vfs.File, position int64, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", kerr.CorruptMessage, err)
	}
	return fmt.Errorf("%s: at position %d: %w", f.Name(), position, err)
}

// find returns where the batch is that contains offset, or the first one above it. size is 0 if there is none. If an
// index entry is well-formed but leads too far, the whole segment is searched: beginning there would skip records.
func (s *segment) find(offset int64) (position, size int64, err error) {
	if r := s.recent.Load(); r != nil {
		if position, size, ok := r.find(offset); ok {
			return position, size, nil
		}
	}
	from := int64(0)
	if offset > s.base {
		if from, err = s.index.lookup(offset); err != nil {
			return 0, 0, err
		}
	}
	position, size, astray, err := s.findFrom(from, offset)
	if astray {
		position, size, _, err = s.findFrom(0, offset)
	}
	return position, size, err
}

// findFrom is find from a position taken from an index entry at or below offset, or from the beginning. astray is true
// if there is no batch, or one that begins above offset: then the entry is wrong.
func (s *segment) findFrom(from, offset int64) (position, size int64, astray bool, err error) {
	indexed := from > 0
	astray = indexed && from >= s.size.Load()
	err = s.scan(from, func(h header) (bool, error) {
		if astray = indexed && h.position == from && h.batch.BaseOffset() > offset; astray {
			return false, nil
		}
		if h.batch.LastOffset() < offset {
			return true, nil
		}
		position, size = h.position, h.size
		return false, nil
	})
	return position, size, astray || indexed && errors.Is(err, kerr.CorruptMessage), err
}

// end returns the offset after the last record, found through the index.
func (s *segment) end() (int64, error) {
	from, err := s.index.lastPosition()
	if err != nil {
		return 0, err
	}
	if size := s.size.Load(); from > 0 && from >= size {
		return 0, fmt.Errorf("%w: the last entry of %s is for position %d of %d", kerr.CorruptMessage, s.path(indexSuffix), from, size)
	}
	end := s.base
	err = s.scan(from, func(h header) (bool, error) {
		end = h.batch.LastOffset() + 1
		return true, nil
	})
	return end, err
}

// readBatch reads the whole batch of a header into buf, which grows as needed.
func readBatch(f vfs.File, h header, buf []byte) (record.Batch, []byte, error) {
	if int64(cap(buf)) < h.size {
		buf = make([]byte, h.size)
	}
	buf = buf[:h.size]
	if n, err := f.ReadAt(buf, h.position); int64(n) < h.size {
		return nil, buf, damaged(f, h.position, noEOF(err))
	}
	return record.Batch(buf), buf, nil
}

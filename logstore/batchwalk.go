package logstore

import (
	"errors"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// batchWalk reads the batches of a segment file in order, each whole, in large chunks.
type batchWalk struct {
	file vfs.File
	size int64 // of the file

	batch    record.Batch // valid until the next step
	position int64        // where it begins
	end      int64        // where it ends and the next one begins
	bad      error        // why there is no valid batch at end
	err      error        // from reading

	buf        []byte
	from, have int64 // buf holds have bytes of the file, beginning at from
}

const walkBuffer = 128 << 10

// next advances to the next batch. It checks that the batch is complete, but not its checksum.
func (w *batchWalk) next() bool {
	if w.bad != nil || w.err != nil || w.end >= w.size {
		return false
	}
	head := w.bytes(min(record.HeaderSize, w.size-w.end))
	if w.err != nil {
		return false
	}
	n, err := record.SizeOf(head)
	if err == nil && (n == 0 || int64(n) > w.size-w.end) {
		err = errors.New("batch is truncated")
	}
	if err != nil {
		w.bad = err
		return false
	}
	b := w.bytes(int64(n))
	if w.err != nil {
		return false
	}
	w.batch, w.position = record.Batch(b), w.end
	w.end += int64(n)
	return true
}

// bytes returns the n bytes at end.
func (w *batchWalk) bytes(n int64) []byte {
	if w.end < w.from || w.end+n > w.from+w.have {
		if int64(len(w.buf)) < n {
			w.buf = make([]byte, max(n, min(walkBuffer, w.size-w.end)))
		}
		got, err := w.file.ReadAt(w.buf[:min(int64(len(w.buf)), w.size-w.end)], w.end)
		if w.from, w.have = w.end, int64(got); w.have < n {
			w.err = damaged(w.file, w.end, noEOF(err))
			return nil
		}
	}
	at := w.end - w.from
	return w.buf[at : at+n]
}

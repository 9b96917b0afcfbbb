package logstore

import (
	"errors"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// batchWalk reads the batches of a record file in order, each whole, in large pieces.
type batchWalk struct {
	file vfs.File
	size int64 // of the file

	batch    record.Batch // good until the next step
	position int64        // where it begins
	end      int64        // where it ends: where the next step begins
	bad      error        // why what begins at end is no batch
	err      error        // of reading

	buf        []byte
	from, have int64 // buf holds the file from from on, have bytes
}

const walkBuffer = 128 << 10

// next steps to the next batch. It checks that it is whole, but not its checksum.
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
		err = errors.New("batch is cut short")
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

// bytes is the n bytes at end.
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

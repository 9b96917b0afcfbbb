package logstore

import (
	"fmt"
	"math"
	"time"

	"barnabas/logstore/record"
)

// cleanedWriter writes the segment that a compaction makes from others.
type cleanedWriter struct {
	c   *compaction
	seg *segment
	buf []byte // whole batches that are not in the file yet
}

func newCleanedWriter(c *compaction, base int64) (*cleanedWriter, error) {
	seg, err := createCleaned(c.l.env.fs, c.l.path(), base, c.cfg, c.now)
	if err != nil {
		if seg != nil {
			_ = seg.discard()
		}
		return nil, err
	}
	return &cleanedWriter{c: c, seg: seg, buf: make([]byte, 0, c.use.bufferBytes)}, nil
}

// add writes what remains of a batch.
func (w *cleanedWriter) add(b record.Batch, how record.Rewrite) error {
	at := len(w.buf)
	buf, n, err := w.c.rewriter.Append(w.buf, b, how)
	if err != nil {
		return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	w.buf = buf
	w.c.stats.Records += n.Records
	w.c.stats.Kept += n.Kept
	if len(buf) == at {
		return nil
	}
	if err := w.index(record.Batch(buf[at:]), w.seg.size.Load()+int64(at)); err != nil {
		return err
	}
	if len(w.buf) < w.c.use.bufferBytes {
		return nil
	}
	return w.flush()
}

// index records where a batch begins in the file.
func (w *cleanedWriter) index(b record.Batch, position int64) error {
	if !w.seg.fits(b.LastOffset()) || position+int64(len(b)) > math.MaxInt32 {
		return fmt.Errorf("batch at offset %d, position %d does not fit the segment with base %d", b.BaseOffset(), position, w.seg.base)
	}
	a := appended{data: b, first: b.BaseOffset(), last: b.LastOffset(), stamp: stamp{b.MaxTimestamp(), b.LastOffset()}}
	return w.seg.indexAppend(&a, position, w.c.cfg.IndexIntervalBytes)
}

func (w *cleanedWriter) flush() error {
	f, err := w.seg.open()
	if err != nil {
		return err
	}
	at := w.seg.size.Load()
	if _, err := f.WriteAt(w.buf, at); err != nil {
		return err
	}
	w.seg.size.Store(at + int64(len(w.buf)))
	n := len(w.buf)
	w.buf = w.buf[:0]
	return w.c.use.throttle(w.c.ctx, n)
}

// finish makes the segment complete and durable, except for its names. written is the modification time of the records,
// which counts for those without timestamps.
func (w *cleanedWriter) finish(written time.Time) error {
	if len(w.buf) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if err := w.seg.finish(); err != nil {
		return err
	}
	if err := w.seg.sync(); err != nil {
		return err
	}
	w.seg.touched = false
	w.seg.named.Store(true)
	if err := w.seg.fs.SetModTime(w.seg.path(logSuffix), written); err != nil {
		return err
	}
	return w.seg.rest()
}

package record

import "encoding/binary"

// Rewrite says what becomes of a batch when its log is compacted.
type Rewrite struct {
	// Keep reports whether a record stays. The record is valid until it returns.
	Keep func(*Record) bool
	// KeepEmpty: if no record stays, the header does, for its producer's last sequence number or epoch. Magic 2 only.
	KeepEmpty bool
	// Horizon (ms) is stored as the delete horizon of a magic 2 batch that has none, if a tombstone stays in it or
	// Marker is set (KIP-534).
	Horizon int64
	// Marker: the batch contains the marker of a transaction of which nothing is left.
	Marker bool
}

// Rewritten counts the records that a Rewriter has read and kept.
type Rewritten struct {
	Records, Kept int
}

// Rewriter removes records from batches when a log is compacted. It reuses its memory, so each goroutine needs its own.
// The zero value is ready to use.
type Rewriter struct {
	body  []byte // the decompressed records of a batch
	kept  []byte // those that stay, in encoded form
	based []byte // the same relative to another base timestamp
}

// Append appends what is left of b to dst: b as it is, a smaller batch, a header, or nothing. Offsets, producer,
// sequence numbers and leader epoch stay, so no record may have the last offset any more. What was compressed is
// compressed again.
func (w *Rewriter) Append(dst []byte, b Batch, how Rewrite) ([]byte, Rewritten, error) {
	if b.Magic() < 2 {
		return appendMessages(dst, b, how)
	}
	left, err := w.sieve(b, how.Keep)
	if err != nil {
		return dst, Rewritten{}, err
	}
	_, stamped := b.DeleteHorizon()
	stamp := !stamped && (left.tombstones || how.Marker)
	switch {
	case left.Kept == 0 && how.KeepEmpty:
		return appendEmpty(dst, b), left.Rewritten, nil
	case left.Kept == 0:
		return dst, left.Rewritten, nil
	case left.Kept == left.Records && !stamp:
		return append(dst, b...), left.Rewritten, nil
	}
	dst, err = w.rebuild(dst, b, left, stamp, how.Horizon)
	return dst, left.Rewritten, err
}

// Each calls fn with each record of b, as Batch.Records does, but the bytes are valid only until it is called again.
func (w *Rewriter) Each(b Batch, fn func(*Record) error) error {
	if b.Magic() < 2 {
		return b.messages(fn)
	}
	body, err := w.plain(b)
	if err != nil {
		return err
	}
	it := b.Iter(body)
	var r Record
	for it.Next(&r) {
		if err := fn(&r); err != nil {
			return err
		}
	}
	return it.Err()
}

// plain returns the decompressed records of a batch.
func (w *Rewriter) plain(b Batch) ([]byte, error) {
	if b.Codec() == None || b.Count() == 0 {
		return b.Body(), nil
	}
	var err error
	w.body, err = decompress(w.body[:0], b.Codec(), b.Body())
	return w.body, err
}

// sieved describes the records in Rewriter.kept.
type sieved struct {
	Rewritten
	tombstones   bool
	maxTimestamp int64
}

// sieve collects the records that stay.
func (w *Rewriter) sieve(b Batch, keep func(*Record) bool) (sieved, error) {
	body, err := w.plain(b)
	if err != nil {
		return sieved{}, err
	}
	s := sieved{maxTimestamp: NoTimestamp}
	w.kept = w.kept[:0]
	it := b.Iter(body)
	var r Record
	for rest := it.rest; it.Next(&r); rest = it.rest {
		s.Records++
		if !keep(&r) {
			continue
		}
		s.Kept++
		s.tombstones = s.tombstones || r.Value == nil
		s.maxTimestamp = max(s.maxTimestamp, r.Timestamp)
		w.kept = append(w.kept, rest[:len(rest)-len(it.rest)]...)
	}
	return s, it.Err()
}

// rebuild appends a batch with the records in w.kept.
func (w *Rewriter) rebuild(dst []byte, b Batch, left sieved, stamp bool, horizon int64) ([]byte, error) {
	records, base, attrs := w.kept, b.BaseTimestamp(), b.Attributes()&attrKnown
	if stamp {
		records = w.rebase(b, horizon)
		base = horizon
		attrs |= attrDeleteHorizon
	}
	at := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	out, err := Compress(dst, b.Codec(), DefaultLevel, records)
	if err != nil {
		return dst[:at], err
	}
	be, n := binary.BigEndian, Batch(out[at:])
	be.PutUint32(n[8:], uint32(len(n)-Overhead))
	be.PutUint16(n[21:], uint16(attrs))
	be.PutUint64(n[27:], uint64(base))
	be.PutUint64(n[35:], uint64(left.maxTimestamp)) // with LogAppendTime, all records have the old one
	be.PutUint32(n[57:], uint32(left.Kept))
	n.seal()
	return out, nil
}

// rebase encodes the records in w.kept relative to another base timestamp. Only that part of a record changes.
func (w *Rewriter) rebase(b Batch, base int64) []byte {
	w.based = w.based[:0]
	stamps := b.Iter(nil)
	for rest := w.kept; len(rest) > 0; {
		size, at := varint(rest, 0) // was checked when it was sieved
		r := rest[at : at+int(size)]
		delta, at2 := varlong(r, 1)
		delta = stamps.timestamp(delta) - base
		w.based = binary.AppendVarint(w.based, int64(1+varintSize(delta)+len(r)-at2))
		w.based = append(w.based, r[0])
		w.based = binary.AppendVarint(w.based, delta)
		w.based = append(w.based, r[at2:]...)
		rest = rest[at+int(size):]
	}
	return w.based
}

// appendEmpty appends b's header without records (DefaultRecordBatch.writeEmptyHeader, 3.9): codec and delete horizon
// no longer apply.
func appendEmpty(dst []byte, b Batch) []byte {
	at := len(dst)
	dst = append(dst, b[:HeaderSize]...)
	be, n := binary.BigEndian, Batch(dst[at:])
	be.PutUint32(n[8:], HeaderSize-Overhead)
	be.PutUint16(n[21:], uint16(b.Attributes()&(attrAppendTime|attrTransactional|attrControl)))
	be.PutUint64(n[27:], 1<<64-1) // no timestamp
	be.PutUint32(n[57:], 0)
	n.seal()
	return dst
}

// appendMessages is Append for a message of magic 0 or 1, which may be the wrapper of compressed ones.
func appendMessages(dst []byte, b Batch, how Rewrite) ([]byte, Rewritten, error) {
	var kept []Record
	var n Rewritten
	err := b.messages(func(r *Record) error {
		n.Records++
		if how.Keep(r) {
			n.Kept++
			kept = append(kept, *r)
		}
		return nil
	})
	switch {
	case err != nil || n.Kept == 0:
		return dst, n, err
	case n.Kept == n.Records:
		return append(dst, b...), n, nil
	}
	left := Messages{Magic: b.Magic(), Codec: b.Codec(), Level: DefaultLevel, TimestampType: b.TimestampType(), AppendTime: b.BaseTimestamp()}
	out, err := left.Append(dst, kept)
	if err != nil {
		return dst, n, err
	}
	return out, n, nil
}

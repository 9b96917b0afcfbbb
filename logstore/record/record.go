package record

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Header is one header of a record. A nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. Key and Value are nil for null; they share memory with what they were read from.
type Record struct {
	Offset    int64
	Timestamp int64 // ms, or NoTimestamp
	Key       []byte
	Value     []byte

	headerCount int32
	headers     []byte // encoded
}

// Headers decodes the headers. Nil when there are none.
func (r *Record) Headers() []Header {
	if r.headerCount == 0 {
		return nil
	}
	hs := make([]Header, 0, r.headerCount)
	for b := r.headers; len(b) > 0; { // checked when the record was read
		key, n, _ := readBytes(b)
		b = b[n:]
		value, n, _ := readBytes(b)
		b = b[n:]
		hs = append(hs, Header{string(key), value})
	}
	return hs
}

// Iter walks over the records of one magic 2 batch whose records are in the clear. It allocates nothing.
type Iter struct {
	rest       []byte
	left       int32
	base       int64
	baseTime   int64
	appendTime int64
	stamped    bool // with the append time
	err        error
}

// Iter starts a walk over body, which is b's records uncompressed: b.Body() itself, or what Decompress made of it.
func (b Batch) Iter(body []byte) Iter {
	return Iter{rest: body, left: b.Count(), base: b.BaseOffset(), baseTime: b.BaseTimestamp(),
		appendTime: b.MaxTimestamp(), stamped: b.TimestampType() == LogAppendTime}
}

// Body is the records of a magic 2 batch, compressed or not.
func (b Batch) Body() []byte { return b[HeaderSize:] }

// Next reads the next record into r and tells whether there was one.
func (it *Iter) Next(r *Record) bool {
	if it.left <= 0 || it.err != nil {
		if it.left < 0 && it.err == nil {
			it.err = invalid("negative record count")
		}
		return false
	}
	n, err := it.read(r)
	if err != nil {
		it.err = err
		return false
	}
	it.rest = it.rest[n:]
	it.left--
	if it.left == 0 && len(it.rest) > 0 {
		it.err = invalid("bytes are left behind the last record")
		return false
	}
	return true
}

// Err is why the walk ended early. It wraps kerr.InvalidRecord.
func (it *Iter) Err() error { return it.err }

func (it *Iter) read(r *Record) (int, error) {
	size, n := binary.Varint(it.rest)
	if n <= 0 {
		return 0, invalid("premature end of the batch")
	}
	if size < 0 || size > int64(len(it.rest)-n) {
		return 0, invalid("record size exceeds the batch")
	}
	end := n + int(size)
	if err := r.decode(it.rest[n:end], it); err != nil {
		return 0, err
	}
	return end, nil
}

// decode reads a record's content, which must fill b.
func (r *Record) decode(b []byte, it *Iter) error {
	if len(b) < 1 {
		return errStructure
	}
	p := 1 // attributes, none are defined
	timestamp, n := binary.Varint(b[p:])
	if n <= 0 {
		return errStructure
	}
	p += n
	offset, n := binary.Varint(b[p:])
	if n <= 0 || int64(int32(offset)) != offset {
		return errStructure
	}
	p += n
	key, n, ok := readBytes(b[p:])
	if !ok {
		return errStructure
	}
	p += n
	value, n, ok := readBytes(b[p:])
	if !ok {
		return errStructure
	}
	p += n
	count, n := binary.Varint(b[p:])
	if n <= 0 || count < 0 || count > int64(len(b)-p-n) {
		return errHeaders
	}
	p += n
	headers := b[p:]
	if size, ok := headersSize(headers, int32(count)); !ok || size != len(headers) {
		return errHeaders
	}
	r.Offset = it.base + offset
	r.Timestamp = it.baseTime + timestamp
	if it.stamped {
		r.Timestamp = it.appendTime
	}
	r.Key, r.Value, r.headerCount, r.headers = key, value, int32(count), headers
	return nil
}

// headersSize is the size of count encoded headers.
func headersSize(b []byte, count int32) (size int, ok bool) {
	for range count {
		key, n, ok := readBytes(b[size:])
		if !ok || key == nil {
			return 0, false // a header's key is never null
		}
		size += n
		if _, n, ok = readBytes(b[size:]); !ok {
			return 0, false
		}
		size += n
	}
	return size, true
}

// readBytes reads a varint length and as many bytes; nil for a negative length.
func readBytes(b []byte) (v []byte, n int, ok bool) {
	size, n := binary.Varint(b)
	if n <= 0 || size > int64(len(b)-n) {
		return nil, 0, false
	}
	if size < 0 {
		return nil, n, true
	}
	end := n + int(size)
	return b[n:end:end], end, true
}

// Records calls fn with each record of the batch, whatever its magic and codec, decompressing as needed. The record
// passed is good until fn returns; the bytes it refers to stay. An error of fn ends the walk and is returned.
func (b Batch) Records(fn func(*Record) error) error {
	if b.Magic() < 2 {
		return b.messages(fn)
	}
	body := b.Body()
	if b.Codec() != None && b.Count() > 0 {
		var err error
		if body, err = Decompress(nil, b.Codec(), body); err != nil {
			return err
		}
	}
	var r Record
	it := b.Iter(body)
	for it.Next(&r) {
		if err := fn(&r); err != nil {
			return err
		}
	}
	return it.Err()
}

// errStructure and errHeaders are made once: a hostile batch should not cost allocations either.
var (
	errStructure = invalid("invalid record structure")
	errHeaders   = invalid("invalid record headers")
)

func invalid(what string) error { return fmt.Errorf("%s: %w", what, kerr.InvalidRecord) }

package record

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Header is a header of a record. A nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record. Key and Value are nil for null; they share memory with what they were decoded from.
type Record struct {
	Offset    int64
	Timestamp int64 // ms, or NoTimestamp
	Key       []byte
	Value     []byte

	headerCount int32
	headers     []byte // encoded
}

// Headers decodes the headers. It returns nil if there are none.
func (r *Record) Headers() []Header {
	if r.headerCount == 0 {
		return nil
	}
	hs := make([]Header, 0, r.headerCount)
	for b := r.headers; len(b) > 0; { // was checked when the record was decoded
		key, n, _ := readBytes(b)
		b = b[n:]
		value, n, _ := readBytes(b)
		b = b[n:]
		hs = append(hs, Header{string(key), value})
	}
	return hs
}

// Iter iterates over the records of one magic 2 batch with uncompressed records. It does not allocate.
type Iter struct {
	rest       []byte
	left       int32
	base       int64
	baseTime   int64
	appendTime int64
	stamped    bool // with the append time
	at         int  // where the record begins in rest, after its length
	err        error
}

// Iter starts an iteration over body, the uncompressed records of b: b.Body() itself, or what decompress has made of
// it.
func (b Batch) Iter(body []byte) Iter {
	return Iter{rest: body, left: b.Count(), base: b.BaseOffset(), baseTime: b.BaseTimestamp(),
		appendTime: b.MaxTimestamp(), stamped: b.TimestampType() == LogAppendTime}
}

// Body returns the records of a magic 2 batch, compressed or not.
func (b Batch) Body() []byte { return b[HeaderSize:] }

// Next decodes the next record into r and reports whether there was one.
func (it *Iter) Next(r *Record) bool {
	end, ok := it.begin()
	if !ok {
		return false
	}
	var f fields
	if it.err = f.decode(it.rest[:end], it.at); it.err != nil {
		return false
	}
	r.Offset, r.Timestamp = it.base+f.offsetDelta, it.timestamp(f.timestampDelta)
	r.Key, r.Value = it.slice(f.key, f.keySize), it.slice(f.value, f.valueSize)
	r.headerCount, r.headers = int32(f.headerCount), it.rest[f.headers:end:end]
	return it.step(end)
}

// Err returns why the iteration ended early. It wraps kerr.InvalidRecord.
func (it *Iter) Err() error { return it.err }

// begin decodes the next record's length, sets at to the position after it and returns where the record ends.
func (it *Iter) begin() (end int, ok bool) {
	if it.left <= 0 || it.err != nil {
		if it.left < 0 && it.err == nil {
			it.err = errCount
		}
		return 0, false
	}
	size, at := varint(it.rest, 0)
	switch {
	case at <= 0:
		it.err = errEnd
	case size < 0 || size > int64(len(it.rest)-at):
		it.err = errSize
	}
	it.at = at
	return at + int(size), it.err == nil
}

// step advances past a record that ends at end, and checks that nothing follows the last one.
func (it *Iter) step(end int) bool {
	it.rest = it.rest[end:]
	if it.left--; it.left == 0 && len(it.rest) > 0 {
		it.err = errSurplus
		return false
	}
	return true
}

func (it *Iter) timestamp(delta int64) int64 {
	if it.stamped {
		return it.appendTime
	}
	return it.baseTime + delta
}

func (it *Iter) slice(at int, size int64) []byte {
	if size < 0 {
		return nil
	}
	end := at + int(size)
	return it.rest[at:end:end]
}

// fields are the positions of the parts of an encoded record.
type fields struct {
	timestampDelta, offsetDelta int64
	key, value, headers         int
	keySize, valueSize          int64 // negative: null
	headerCount                 int64
}

// decode finds the parts of the record that begins at p in b and must end with b.
func (f *fields) decode(b []byte, p int) error {
	p++ // attributes, none of which are defined
	if f.timestampDelta, p = varlong(b, p); p <= 0 {
		return errStructure
	}
	if f.offsetDelta, p = varint(b, p); p <= 0 || int64(int32(f.offsetDelta)) != f.offsetDelta {
		return errStructure
	}
	if f.keySize, f.key = varint(b, p); f.key <= 0 || f.keySize > int64(len(b)-f.key) {
		return errStructure
	}
	p = f.key + int(max(f.keySize, 0))
	if f.valueSize, f.value = varint(b, p); f.value <= 0 || f.valueSize > int64(len(b)-f.value) {
		return errStructure
	}
	p = f.value + int(max(f.valueSize, 0))
	if f.headerCount, f.headers = varint(b, p); f.headers <= 0 || f.headerCount < 0 || f.headerCount > int64(len(b)-f.headers) {
		return errHeaders
	}
	if f.headerCount == 0 {
		if f.headers != len(b) {
			return errSize
		}
		return nil
	}
	if size, ok := headersSize(b[f.headers:], int32(f.headerCount)); !ok || size != len(b)-f.headers {
		return errHeaders
	}
	return nil
}

// varint decodes the zig-zag varint of an int32 at p and returns it and where it ends, or 0 if it is incomplete or longer
// than that of an int32 can be: Java clients could not read it (ByteUtils.readVarint, 3.9).
func varint(b []byte, p int) (int64, int) {
	if p < len(b) && b[p] < 0x80 { // most are one byte
		return int64(b[p]>>1) ^ -int64(b[p]&1), p + 1
	}
	return longVarint(b, p, binary.MaxVarintLen32)
}

// varlong is varint for an int64.
func varlong(b []byte, p int) (int64, int) {
	if p < len(b) && b[p] < 0x80 {
		return int64(b[p]>>1) ^ -int64(b[p]&1), p + 1
	}
	return longVarint(b, p, binary.MaxVarintLen64)
}

// longVarint is for more than one byte; sizes mostly have two, offsets and times in a batch two or three.
func longVarint(b []byte, p, most int) (int64, int) {
	if p+2 < len(b) {
		u := uint32(b[p]&0x7f) | uint32(b[p+1]&0x7f)<<7
		if b[p+1] < 0x80 {
			return int64(u>>1) ^ -int64(u&1), p + 2
		}
		if b[p+2] < 0x80 {
			u |= uint32(b[p+2]) << 14
			return int64(u>>1) ^ -int64(u&1), p + 3
		}
	}
	if p >= len(b) {
		return 0, 0
	}
	v, n := binary.Varint(b[p:])
	if n <= 0 || n > most {
		return 0, 0
	}
	return v, p + n
}

// headersSize returns the size of count encoded headers.
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

// readBytes decodes a varint length and as many bytes; nil for a negative length.
func readBytes(b []byte) (v []byte, n int, ok bool) {
	size, n := varint(b, 0)
	if n <= 0 || size > int64(len(b)-n) {
		return nil, 0, false
	}
	if size < 0 {
		return nil, n, true
	}
	end := n + int(size)
	return b[n:end:end], end, true
}

// Records calls fn with each record of the batch, whatever its magic and codec, decompressing if necessary. The record
// is valid until fn returns; the bytes that it refers to stay valid. An error of fn ends the iteration and is returned.
func (b Batch) Records(fn func(*Record) error) error {
	if b.Magic() < 2 {
		return b.messages(fn)
	}
	body := b.Body()
	if b.Codec() != None && b.Count() > 0 {
		var err error
		if body, err = decompress(nil, b.Codec(), body); err != nil {
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

// Created once: a hostile batch should not cost allocations either.
var (
	errStructure = invalid("invalid record structure")
	errHeaders   = invalid("invalid record headers")
	errCount     = invalid("negative record count")
	errSize      = invalid("record size does not agree with its content or its batch")
	errSurplus   = invalid("bytes are left behind the last record")
	errEnd       = invalid("premature end of the batch")
)

func invalid(what string) error { return fmt.Errorf("%s: %w", what, kerr.InvalidRecord) }

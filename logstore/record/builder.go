package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Builder builds one magic 2 batch. Create it with NewBuilder, change what differs from the defaults, add records, and
// build.
type Builder struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         Codec
	Level         int // of the codec
	TimestampType TimestampType
	AppendTime    int64 // ms, the time of all records with LogAppendTime
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool

	records      []byte
	count        int32
	lastDelta    int32
	baseTime     int64
	maxTimestamp int64
}

// NewBuilder returns a builder for an uncompressed batch at offset 0 without a producer.
func NewBuilder() *Builder {
	return &Builder{LeaderEpoch: NoLeaderEpoch, Level: DefaultLevel, ProducerID: NoProducerID,
		ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence, maxTimestamp: NoTimestamp}
}

// Add appends a record with the next offset. The timestamp is in ms. A nil key or value is null.
func (w *Builder) Add(timestamp int64, key, value []byte, headers ...Header) {
	delta := int32(0)
	if w.count > 0 {
		delta = w.lastDelta + 1
	}
	encoded := noHeaders
	if len(headers) > 0 {
		encoded = appendHeaders(nil, headers)
	}
	w.add(delta, timestamp, key, value, encoded)
}

var noHeaders = []byte{0} // encoded; must not be modified

// AddRecord appends a copy of a record, keeping its distance from BaseOffset.
func (w *Builder) AddRecord(r *Record) {
	headers := r.headers
	if r.headerCount == 0 {
		headers = noHeaders
	} else {
		headers = append(binary.AppendVarint(nil, int64(r.headerCount)), headers...)
	}
	w.add(int32(r.Offset-w.BaseOffset), r.Timestamp, r.Key, r.Value, headers)
}

func (w *Builder) add(delta int32, timestamp int64, key, value, headers []byte) {
	if w.TimestampType == LogAppendTime {
		timestamp = w.AppendTime
	}
	if w.count == 0 {
		w.baseTime = timestamp
	}
	w.records = appendRecord(w.records, delta, timestamp-w.baseTime, key, value, headers)
	w.maxTimestamp = max(w.maxTimestamp, timestamp)
	w.lastDelta = delta
	w.count++
}

// Count returns the number of records added.
func (w *Builder) Count() int { return int(w.count) }

// Size returns the current size of the batch in bytes, before compression.
func (w *Builder) Size() int { return HeaderSize + len(w.records) }

// Build returns the batch. The builder must not be used afterwards.
func (w *Builder) Build() (Batch, error) {
	b := make([]byte, HeaderSize, w.Size())
	b, err := Compress(b, w.Codec, w.Level, w.records)
	if err != nil {
		return nil, err
	}
	if len(b) > math.MaxInt32 {
		return nil, fmt.Errorf("a batch of %d bytes does not fit its length field", len(b))
	}
	w.putHeader(b)
	return b, nil
}

// MustBuild is Build for uncompressed batches, for which it cannot fail.
func (w *Builder) MustBuild() Batch {
	b, err := w.Build()
	if err != nil {
		panic(err)
	}
	return b
}

func (w *Builder) putHeader(b Batch) {
	attrs := uint16(w.Codec) | uint16(w.TimestampType)<<3
	if w.Transactional {
		attrs |= attrTransactional
	}
	if w.Control {
		attrs |= attrControl
	}
	be := binary.BigEndian
	be.PutUint64(b, uint64(w.BaseOffset))
	be.PutUint32(b[8:], uint32(len(b)-Overhead))
	be.PutUint32(b[12:], uint32(w.LeaderEpoch))
	b[16] = 2
	be.PutUint16(b[21:], attrs)
	be.PutUint32(b[23:], uint32(w.lastDelta))
	be.PutUint64(b[27:], uint64(w.baseTime))
	be.PutUint64(b[35:], uint64(w.maxTimestamp))
	be.PutUint64(b[43:], uint64(w.ProducerID))
	be.PutUint16(b[51:], uint16(w.ProducerEpoch))
	be.PutUint32(b[53:], uint32(w.BaseSequence))
	be.PutUint32(b[57:], uint32(w.count))
	b.seal()
}

// appendRecord appends an encoded record. headers is encoded already, including its count.
func appendRecord(dst []byte, offsetDelta int32, timestampDelta int64, key, value, headers []byte) []byte {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + bytesSize(key) + bytesSize(value) + len(headers)
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0) // attributes
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	return append(dst, headers...)
}

func appendHeaders(dst []byte, headers []Header) []byte {
	dst = binary.AppendVarint(dst, int64(len(headers)))
	for _, h := range headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}

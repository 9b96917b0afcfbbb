package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
)

// messages calls fn with the record of a magic 0 or 1 message, or with those inside if it is a wrapper.
func (b Batch) messages(fn func(*Record) error) error {
	key, value, err := b.keyValue()
	if err != nil {
		return err
	}
	if b.Codec() == None {
		return fn(&Record{Offset: b.BaseOffset(), Timestamp: b.BaseTimestamp(), Key: key, Value: value})
	}
	return b.unwrap(value, fn)
}

// keyValue finds the key and value of a message, which they must fill.
func (b Batch) keyValue() (key, value []byte, err error) {
	rest := b[18:]
	if b.Magic() == 1 {
		rest = b[26:]
	}
	if key, rest, err = int32Bytes(rest); err != nil {
		return nil, nil, err
	}
	if value, rest, err = int32Bytes(rest); err != nil {
		return nil, nil, err
	}
	if len(rest) > 0 {
		return nil, nil, fmt.Errorf("bytes follow the value: %w", kerr.CorruptMessage)
	}
	return key, value, nil
}

func int32Bytes(b []byte) (v, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("message is truncated: %w", kerr.CorruptMessage)
	}
	n := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n < 0 {
		return nil, b, nil
	}
	if int(n) > len(b) {
		return nil, nil, fmt.Errorf("message is truncated: %w", kerr.CorruptMessage)
	}
	return b[:n:n], b[n:], nil
}

// unwrap calls fn with the records inside a wrapper message. In magic 1 the inner offsets count from 0, and the
// wrapper's offset is that of the last one; some old clients set all inner offsets to 0, in which case they are counted
// here (KIP-31).
func (b Batch) unwrap(value []byte, fn func(*Record) error) error {
	if value == nil {
		return fmt.Errorf("compressed message without a value: %w", kerr.InvalidRecord)
	}
	inner, err := b.inner(value)
	if err != nil {
		return err
	}
	for i, m := range inner {
		key, value, err := m.keyValue()
		if err != nil {
			return err
		}
		r := Record{Offset: m.BaseOffset(), Timestamp: m.BaseTimestamp(), Key: key, Value: value}
		if b.Magic() == 1 {
			r.Offset = b.BaseOffset() - int64(len(inner)-1-i)
			if last := inner[len(inner)-1].BaseOffset(); last > 0 {
				r.Offset = b.BaseOffset() - last + m.BaseOffset()
			}
			if b.TimestampType() == LogAppendTime {
				r.Timestamp = b.BaseTimestamp()
			}
		}
		if err := fn(&r); err != nil {
			return err
		}
	}
	return nil
}

// Errors of the messages inside a compressed one.
var (
	ErrInnerMagic    = invalid("inner message of another magic")
	ErrInnerChecksum = fmt.Errorf("inner message has a wrong checksum: %w", kerr.CorruptMessage)
)

// inner decompresses a wrapper's value and checks the messages in it. An incomplete one at the end is ignored, as it is
// outside of a wrapper. The wrapper's offset is that of the last one, or 0 from some old clients
// (AbstractLegacyRecordBatch.DeepRecordsIterator, 3.9).
func (b Batch) inner(value []byte) ([]Batch, error) {
	switch {
	case b.Codec() == Lz4:
		value = fixLz4Header(value)
	case b.Codec() > Lz4:
		return nil, invalid("message compressed with " + b.Codec().String())
	}
	set, err := decompress(nil, b.Codec(), value)
	if err != nil {
		return nil, err
	}
	var inner []Batch
	walk := Split(set)
	for walk.Next() {
		m := walk.Batch()
		switch {
		case m.Magic() != b.Magic():
			return nil, ErrInnerMagic
		case m.Codec() != None:
			return nil, invalid("compressed message inside a compressed one")
		case !m.Valid():
			return nil, ErrInnerChecksum
		}
		inner = append(inner, m)
	}
	if err := walk.Err(); err != nil {
		return nil, err
	}
	if len(inner) == 0 {
		return nil, invalid("compressed message is empty")
	}
	if last := inner[len(inner)-1].BaseOffset(); b.Magic() == 1 && b.BaseOffset() != 0 && b.BaseOffset() < last {
		return nil, invalid(fmt.Sprintf("compressed message at offset %d ends with offset %d", b.BaseOffset(), last))
	}
	return inner, nil
}

// AppendMessage appends an uncompressed message of magic 0 or 1. Magic 0 has no timestamp.
func AppendMessage(dst []byte, magic int8, offset, timestamp int64, key, value []byte) []byte {
	return appendMessage(dst, magic, 0, offset, timestamp, key, value)
}

func appendMessage(dst []byte, magic int8, attrs byte, offset, timestamp int64, key, value []byte) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(offset))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(magic), attrs)
	if magic == 1 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(timestamp))
	}
	dst = appendInt32Bytes(dst, key)
	dst = appendInt32Bytes(dst, value)
	m := dst[at:]
	binary.BigEndian.PutUint32(m[8:], uint32(len(m)-Overhead))
	binary.BigEndian.PutUint32(m[12:], crc32.ChecksumIEEE(m[16:]))
	return dst
}

func appendInt32Bytes(dst, b []byte) []byte {
	if b == nil {
		return binary.BigEndian.AppendUint32(dst, 1<<32-1)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// fixLz4Header returns an lz4 frame with the header checksum that the format requires. Old clients computed it over
// the magic number as well (KAFKA-3160), which only Kafka's decoder accepts. src is not modified.
func fixLz4Header(src []byte) []byte {
	const magic, flagContentSize = 4, 0x08
	if len(src) < magic+3 {
		return src
	}
	end := magic + 2
	if src[magic]&flagContentSize != 0 {
		end += 8
	}
	if len(src) <= end {
		return src
	}
	if sum := byte(xxh32(src[magic:end]) >> 8); src[end] != sum {
		src = append([]byte(nil), src...)
		src[end] = sum
	}
	return src
}

// xxh32 is the 32-bit xxHash with seed 0 of fewer than 16 bytes, which suffices for a frame header.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 uint32 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := p5 + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h += binary.LittleEndian.Uint32(b) * p3
		h = (h<<17 | h>>15) * p4
	}
	for _, c := range b {
		h += uint32(c) * p5
		h = (h<<11 | h>>21) * p1
	}
	h ^= h >> 15
	h *= p2
	h ^= h >> 13
	h *= p3
	return h ^ h>>16
}

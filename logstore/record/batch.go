package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Codec is the compression codec of a batch. The values are fixed by the format.
type Codec int8

// The codecs.
const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

// TimestampType says who set the timestamps of a batch. The values are fixed by the format.
type TimestampType int8

// The timestamp types.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// Fixed sizes and values of the format.
const (
	// Overhead is the size of the offset and length fields, with which every magic begins.
	Overhead = 12
	// NewestMagic is the magic of current batches.
	NewestMagic int8 = 2
	// HeaderSize is the size of a magic 2 batch without its records.
	HeaderSize = 61

	// NoTimestamp is a missing timestamp.
	NoTimestamp int64 = -1
	// NoProducerID is the producer id of a batch that no idempotent producer wrote.
	NoProducerID int64 = -1
	// NoProducerEpoch is the epoch that goes with NoProducerID.
	NoProducerEpoch int16 = -1
	// NoSequence is a missing sequence number.
	NoSequence int32 = -1
	// NoLeaderEpoch is a missing leader epoch.
	NoLeaderEpoch int32 = -1

	upToMagic      = 17
	minLegacySize  = 14 // length field of the smallest magic 0 message
	minLegacySize1 = 22 // length field of the smallest magic 1 message

	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
	attrKnown         = attrCodec | attrAppendTime | attrTransactional | attrControl | attrDeleteHorizon
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a view of one whole batch of magic 2, or of one message of magic 0 or 1, which may be the wrapper of
// compressed ones. Batches come from the type Batches, which has checked the sizes that the accessors depend on. For
// fields that messages do not have, accessors return what Apache Kafka does: no producer, no epoch, not transactional.
type Batch []byte

// Magic returns the version of the format: 0, 1 or 2.
func (b Batch) Magic() int8 { return int8(b[16]) }

// BaseOffset returns the offset of the first record; for a message the stored offset, which for a wrapper is that of
// the last inner message.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// LastOffset returns the offset of the last record, even if compaction has removed that record.
func (b Batch) LastOffset() int64 {
	if b.Magic() < 2 {
		return b.BaseOffset()
	}
	return b.BaseOffset() + int64(b.LastOffsetDelta())
}

// LastOffsetDelta returns LastOffset minus BaseOffset.
func (b Batch) LastOffsetDelta() int32 {
	if b.Magic() < 2 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b[23:]))
}

// LeaderEpoch returns the epoch of the leader that appended the batch, or NoLeaderEpoch.
func (b Batch) LeaderEpoch() int32 {
	if b.Magic() < 2 {
		return NoLeaderEpoch
	}
	return int32(binary.BigEndian.Uint32(b[12:]))
}

// CRC returns the stored checksum.
func (b Batch) CRC() uint32 {
	if b.Magic() < 2 {
		return binary.BigEndian.Uint32(b[12:])
	}
	return binary.BigEndian.Uint32(b[17:])
}

// Valid reports whether the stored checksum matches the content.
func (b Batch) Valid() bool {
	if b.Magic() < 2 {
		return b.CRC() == crc32.ChecksumIEEE(b[16:])
	}
	return b.CRC() == crc32.Checksum(b[21:], castagnoli)
}

// Attributes returns the raw attribute bits.
func (b Batch) Attributes() int16 {
	if b.Magic() < 2 {
		return int16(b[17])
	}
	return int16(binary.BigEndian.Uint16(b[21:]))
}

// Codec returns the compression codec. If it does not exist, decompression will fail.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// TimestampType says who set the timestamps.
func (b Batch) TimestampType() TimestampType {
	if b.Magic() > 0 && b.Attributes()&attrAppendTime != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// Transactional reports whether the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b.Magic() >= 2 && b.Attributes()&attrTransactional != 0 }

// Control reports whether the batch contains control records, such as the marker that ends a transaction.
func (b Batch) Control() bool { return b.Magic() >= 2 && b.Attributes()&attrControl != 0 }

// DeleteHorizon returns the time in ms from which compaction may drop the batch's tombstones or marker.
func (b Batch) DeleteHorizon() (int64, bool) {
	if b.Magic() < 2 || b.Attributes()&attrDeleteHorizon == 0 {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// BaseTimestamp returns what the records' timestamps are relative to, in ms; for a message, its timestamp.
func (b Batch) BaseTimestamp() int64 {
	switch b.Magic() {
	case 0:
		return NoTimestamp
	case 1:
		return int64(binary.BigEndian.Uint64(b[18:]))
	}
	return int64(binary.BigEndian.Uint64(b[27:]))
}

// MaxTimestamp returns the largest timestamp of the records in ms, or NoTimestamp.
func (b Batch) MaxTimestamp() int64 {
	if b.Magic() < 2 {
		return b.BaseTimestamp()
	}
	return int64(binary.BigEndian.Uint64(b[35:]))
}

// ProducerID returns the id of the idempotent producer, or NoProducerID.
func (b Batch) ProducerID() int64 {
	if b.Magic() < 2 {
		return NoProducerID
	}
	return int64(binary.BigEndian.Uint64(b[43:]))
}

// HasProducerID reports whether an idempotent producer wrote the batch.
func (b Batch) HasProducerID() bool { return b.ProducerID() > NoProducerID }

// ProducerEpoch returns the producer's epoch.
func (b Batch) ProducerEpoch() int16 {
	if b.Magic() < 2 {
		return NoProducerEpoch
	}
	return int16(binary.BigEndian.Uint16(b[51:]))
}

// BaseSequence returns the sequence number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 {
	if b.Magic() < 2 {
		return NoSequence
	}
	return int32(binary.BigEndian.Uint32(b[53:]))
}

// LastSequence returns the sequence number of the last record, or NoSequence. Sequence numbers wrap around to 0 after
// the largest int32.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return AddSequence(base, b.LastOffsetDelta())
}

// Count returns the number of records of a magic 2 batch according to its header. A message counts as one.
func (b Batch) Count() int32 {
	if b.Magic() < 2 {
		return 1
	}
	return int32(binary.BigEndian.Uint32(b[57:]))
}

// AddSequence returns the sequence number n after seq.
func AddSequence(seq, n int32) int32 {
	if seq > math.MaxInt32-n {
		return n - (math.MaxInt32 - seq) - 1
	}
	return seq + n
}

// SetLastOffset changes the batch's offsets so that its last record has the given one.
func (b Batch) SetLastOffset(offset int64) {
	binary.BigEndian.PutUint64(b, uint64(offset-int64(b.LastOffsetDelta())))
}

// SetLeaderEpoch stores the epoch, which is not covered by the CRC. Magic 2 only.
func (b Batch) SetLeaderEpoch(epoch int32) { binary.BigEndian.PutUint32(b[12:], uint32(epoch)) }

// SetMaxTimestamp stores the timestamp type and the largest timestamp, and updates the CRC if that changes something.
// As in Apache Kafka, unused attribute bits are cleared only if something changes (DefaultRecordBatch.setMaxTimestamp,
// 3.9). Magic 2 only.
func (b Batch) SetMaxTimestamp(t TimestampType, maxTimestamp int64) {
	if b.TimestampType() == t && b.MaxTimestamp() == maxTimestamp {
		return
	}
	attrs := b.Attributes() & attrKnown &^ attrAppendTime
	if t == LogAppendTime {
		attrs |= attrAppendTime
	}
	binary.BigEndian.PutUint16(b[21:], uint16(attrs))
	binary.BigEndian.PutUint64(b[35:], uint64(maxTimestamp))
	b.seal()
}

// seal stores the CRC of the content. Magic 2 only.
func (b Batch) seal() { binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli)) }

// Batches iterates over the batches in a slice of bytes. An incomplete batch ends the iteration without an error, since
// a fetch may end anywhere; bytes that cannot be a batch end it with one. It checks sizes and magic, but not the CRC.
type Batches struct {
	data []byte
	pos  int
	cur  Batch
	err  error
}

// Split starts an iteration over data, which the batches share.
func Split(data []byte) Batches { return Batches{data: data} }

// Next advances to the next batch and reports whether there is one.
func (s *Batches) Next() bool {
	if s.err != nil {
		return false
	}
	size, err := SizeOf(s.data[s.pos:])
	if err != nil {
		s.err = err
		return false
	}
	if size == 0 || size > len(s.data)-s.pos {
		return false
	}
	s.cur = Batch(s.data[s.pos : s.pos+size : s.pos+size])
	s.pos += size
	return true
}

// Batch returns the current batch.
func (s *Batches) Batch() Batch { return s.cur }

// Position returns where the current batch ends, in bytes.
func (s *Batches) Position() int { return s.pos }

// Err returns why the iteration ended, unless at the end of the bytes. It wraps kerr.CorruptMessage.
func (s *Batches) Err() error { return s.err }

// ErrMagic reports a message format that does not exist. It wraps CORRUPT_MESSAGE.
var ErrMagic = fmt.Errorf("unknown message format: %w", kerr.CorruptMessage)

// SizeOf returns the size of the batch that begins with head, of which the first 17 bytes suffice; 0 if head is
// shorter. The error wraps kerr.CorruptMessage: the bytes are not the beginning of a batch.
func SizeOf(head []byte) (int, error) {
	if len(head) < Overhead {
		return 0, nil
	}
	length := int32(binary.BigEndian.Uint32(head[8:]))
	if length < minLegacySize {
		return 0, fmt.Errorf("record size %d is below the smallest, %d: %w", length, minLegacySize, kerr.CorruptMessage)
	}
	if len(head) < upToMagic {
		return 0, nil
	}
	switch magic := int8(head[16]); {
	case magic < 0 || magic > 2:
		return 0, fmt.Errorf("magic %d: %w", magic, ErrMagic)
	case magic == 2 && length < HeaderSize-Overhead, magic == 1 && length < minLegacySize1:
		return 0, fmt.Errorf("record size %d is too small for magic %d: %w", length, magic, kerr.CorruptMessage)
	}
	return Overhead + int(length), nil
}

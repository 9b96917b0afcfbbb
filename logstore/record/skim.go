package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Skim iterates over the records of a compressed magic 2 batch while they are being decompressed, and examines only
// what a leader checks: keys, values and headers are skipped. So its memory does not depend on the decompressed size of
// the batch. It must be closed.
type Skim struct {
	// Offset and Timestamp (ms) are those of the current record. HasKey: its key is not null.
	Offset    int64
	Timestamp int64
	HasKey    bool

	it     Iter // header fields only
	in     reader
	buf    []byte
	r, w   int
	ended  bool
	broken error
}

const skimBuffer = 16 << 10

// skims pools the buffers; nothing in them outlives a batch.
var skims = sync.Pool{New: func() any { return &Skim{buf: make([]byte, skimBuffer)} }}

// Skim starts an iteration. It fails if the records cannot be decompressed at all.
func (b Batch) Skim() (*Skim, error) {
	in, err := newReader(b.Codec(), b.Body())
	if err != nil {
		return nil, err
	}
	s := skims.Get().(*Skim)
	*s = Skim{it: b.Iter(nil), in: in, buf: s.buf}
	return s, nil
}

// Close releases the memory.
func (s *Skim) Close() {
	s.in.close()
	s.in = reader{}
	skims.Put(s)
}

// Next advances to the next record and reports whether there is one.
func (s *Skim) Next() bool {
	if s.broken != nil {
		return false
	}
	if s.it.left <= 0 {
		if s.it.left < 0 {
			s.broken = errCount
		}
		return false
	}
	if err := s.record(); err != nil {
		s.broken = err
		return false
	}
	if s.it.left--; s.it.left == 0 {
		return s.finished()
	}
	return true
}

// Err returns why the iteration ended early. It wraps kerr.InvalidRecord if the records are invalid, and is another
// error if they cannot be decompressed.
func (s *Skim) Err() error { return s.broken }

// finished checks that nothing follows the last record.
func (s *Skim) finished() bool {
	_, err := s.byte()
	switch {
	case err == nil:
		s.broken = errSurplus
	case errors.Is(err, errEnd):
		return true
	default:
		s.broken = err
	}
	return false
}

// record decodes one record. Like Apache Kafka, it does not compare the record's length with its content here
// (DefaultRecord.readPartiallyFrom, 3.9).
func (s *Skim) record() error {
	if _, err := s.varint(); err != nil { // length
		return err
	}
	if _, err := s.byte(); err != nil { // attributes
		return err
	}
	timestamp, err := s.varlong()
	if err != nil {
		return err
	}
	offset, err := s.varint()
	if err != nil {
		return err
	}
	keySize, err := s.skipBytes()
	if err != nil {
		return err
	}
	if _, err := s.skipBytes(); err != nil { // value
		return err
	}
	s.Offset = s.it.base + offset
	s.Timestamp = s.it.baseTime + timestamp
	if s.it.stamped {
		s.Timestamp = s.it.appendTime
	}
	s.HasKey = keySize >= 0
	return s.skipHeaders()
}

func (s *Skim) skipHeaders() error {
	count, err := s.varint()
	if err != nil {
		return err
	}
	if count < 0 {
		return errHeaders
	}
	for range count {
		size, err := s.skipBytes()
		if err != nil {
			return err
		}
		if size < 0 {
			return errHeaders
		}
		if _, err := s.skipBytes(); err != nil {
			return err
		}
	}
	return nil
}

// skipBytes decodes a length and skips as many bytes.
func (s *Skim) skipBytes() (int64, error) {
	size, err := s.varint()
	if err != nil {
		return 0, err
	}
	for left := size; left > 0; {
		if s.r == s.w {
			if err := s.fill(); err != nil {
				return 0, err
			}
		}
		n := min(left, int64(s.w-s.r))
		s.r += int(n)
		left -= n
	}
	return size, nil
}

// varint decodes the varint of an int32, and fails for a longer one.
func (s *Skim) varint() (int64, error) { return s.decodeVarint(binary.MaxVarintLen32) }

// varlong decodes the varint of an int64.
func (s *Skim) varlong() (int64, error) { return s.decodeVarint(binary.MaxVarintLen64) }

func (s *Skim) decodeVarint(most int) (int64, error) {
	var u uint64
	for shift := 0; shift < 7*most; shift += 7 {
		c, err := s.byte()
		if err != nil {
			return 0, err
		}
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), nil
		}
	}
	return 0, errStructure
}

func (s *Skim) byte() (byte, error) {
	if s.r == s.w {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	c := s.buf[s.r]
	s.r++
	return c, nil
}

// fill reads more of the stream when buf is empty.
func (s *Skim) fill() error {
	for !s.ended {
		n, err := s.in.Read(s.buf)
		s.r, s.w = 0, n
		switch {
		case err == io.EOF:
			s.ended = true
		case err != nil:
			return fmt.Errorf("decompress: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
	return errEnd
}

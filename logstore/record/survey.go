package record

import (
	"encoding/binary"
	"math"
)

// Survey is what a leader checks of the records of a batch, for all of them together.
type Survey struct {
	MinTimestamp int64 // ms
	MaxTimestamp int64 // ms
	NullKeys     bool  // a record has no key
	Consecutive  bool  // the offsets leave none out
}

// Survey examines the records of a magic 2 batch. It returns false for a batch with anything unusual, valid or not:
// append times, a timestamp of -1, and, if it is not compressed, headers, a key or value of a MiB, more than 17 minutes
// from the first timestamp, a last record of a few bytes. Those are for Iter and Skim, which accept what Survey does and
// more. A compressed batch is decompressed in pieces.
func (b Batch) Survey() (Survey, bool) {
	base := b.BaseTimestamp()
	if b.Count() <= 0 || base < 0 || base > math.MaxInt64/2 || b.TimestampType() == LogAppendTime {
		return Survey{}, false
	}
	s := surveyor{count: int64(b.Count()), earliest: math.MaxInt64, latest: math.MinInt64}
	if b.Codec() == None {
		if s.usual(b.Body(), true) != len(b.Body()) || s.seen < s.count {
			return Survey{}, false
		}
	} else if !s.compressed(b) {
		return Survey{}, false
	}
	if s.earliest < -base || s.latest > math.MaxInt64/2 {
		return Survey{}, false
	}
	return Survey{base + s.earliest, base + s.latest, s.nullKeys, !s.scattered}, true
}

// surveyor has seen some of the records of a batch.
type surveyor struct {
	seen, count      int64 // records; of them all
	earliest, latest int64 // ms from the first timestamp
	nullKeys         bool
	scattered        bool // the offsets are not consecutive
}

// compressed examines all records of a compressed batch. It reports false if they are not valid.
func (s *surveyor) compressed(b Batch) bool {
	skim, err := b.Skim()
	if err != nil {
		return false
	}
	defer skim.Close()
	for {
		size := s.usual(skim.buf[skim.r:skim.w], false)
		skim.r += size
		if s.seen == s.count {
			return skim.finished()
		}
		if skim.record() != nil {
			return false
		}
		delta := skim.Timestamp - b.BaseTimestamp()
		s.earliest, s.latest = min(s.earliest, delta), max(s.latest, delta)
		s.nullKeys = s.nullKeys || !skim.HasKey
		s.scattered = s.scattered || skim.Offset != b.BaseOffset()+s.seen
		s.seen++
	}
}

// usual examines the records at the start of b up to the first that is unusual or not there as a whole, and returns
// where that begins. sized: each must be as long as it says, which Apache Kafka does not compare in a compressed batch.
//
// Every produced record goes through it: lengths and deltas are decoded from whole words.
func (s *surveyor) usual(b []byte, sized bool) (at int) {
	earliest, latest, seen, nullKeys, scattered := s.earliest, s.latest, s.seen, uint64(0), int64(0)
	for ; seen < s.count && at <= len(b)-8; seen++ {
		word := binary.LittleEndian.Uint64(b[at:])
		size, width := short(word)
		skip := width + 8 // the attributes, none of which are defined
		timestamp, width2 := short(word >> skip)
		offset, width3 := short(word >> (skip + width2))
		if width == 0 || width2 == 0 || width3 == 0 || skip+width2+width3 > 64 {
			break
		}
		end := at + int(width/8) + int(zigzag(size))
		p := at + int((skip+width2+width3)/8)
		if p > len(b)-4 {
			break
		}
		key, width := short(uint64(binary.LittleEndian.Uint32(b[p:])))
		p += int(width / 8)
		if key&1 == 0 {
			p += int(key >> 1)
		}
		if width == 0 || p > len(b)-4 {
			break
		}
		value, width := short(uint64(binary.LittleEndian.Uint32(b[p:])))
		p += int(width / 8)
		if value&1 == 0 {
			p += int(value >> 1)
		}
		if width == 0 || p >= len(b) || b[p] != 0 || sized && p != end-1 { // the number of headers
			break
		}
		delta := zigzag(timestamp)
		earliest, latest = min(earliest, delta), max(latest, delta)
		nullKeys |= key & 1
		scattered |= zigzag(offset) - seen
		at = p + 1
	}
	s.earliest, s.latest, s.seen = earliest, latest, seen
	s.nullKeys = s.nullKeys || nullKeys != 0
	s.scattered = s.scattered || scattered != 0
	return at
}

// short decodes a varint of up to three bytes at the low end of w, without its sign, and returns how many bits it takes;
// 0 for a longer one.
func short(w uint64) (v, width uint64) {
	if w&0x80 == 0 {
		return w & 0x7f, 8
	}
	if w&0x8000 == 0 {
		return w&0x7f | w>>1&0x3f80, 16
	}
	if w&0x800000 == 0 {
		return w&0x7f | w>>1&0x3f80 | w>>2&0x1fc000, 24
	}
	return 0, 0
}

func zigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

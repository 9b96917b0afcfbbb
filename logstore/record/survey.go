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
}

// Survey examines the records of a magic 2 batch that is not compressed. It returns false for a batch with anything
// unusual, valid or not: append times, headers, a key or value of a MiB, more than 17 minutes from the first timestamp,
// a last record of a few bytes. Those are for Iter, which accepts what Survey does and more.
//
// Every produced record goes through it: lengths and deltas are decoded from whole words.
func (b Batch) Survey() (s Survey, ok bool) {
	body, base := b.Body(), b.BaseTimestamp()
	if b.Count() <= 0 || base < 0 || base > math.MaxInt64/2 || b.TimestampType() == LogAppendTime {
		return Survey{}, false
	}
	earliest, latest := int64(math.MaxInt64), int64(math.MinInt64)
	at := 0
	for range b.Count() {
		if at > len(body)-8 {
			return Survey{}, false
		}
		word := binary.LittleEndian.Uint64(body[at:])
		size, width := short(word)
		skip := width + 8 // the attributes, none of which are defined
		delta, width2 := short(word >> skip)
		_, width3 := short(word >> (skip + width2)) // offset delta
		if width == 0 || width2 == 0 || width3 == 0 || skip+width2+width3 > 64 {
			return Survey{}, false
		}
		end := at + int(width/8) + int(zigzag(size))
		p := at + int((skip+width2+width3)/8)
		if end > len(body) || p > len(body)-4 {
			return Survey{}, false
		}
		key, width := short(uint64(binary.LittleEndian.Uint32(body[p:])))
		p += int(width / 8)
		if key&1 != 0 {
			s.NullKeys = true
		} else {
			p += int(key >> 1)
		}
		if width == 0 || p > len(body)-4 {
			return Survey{}, false
		}
		value, width := short(uint64(binary.LittleEndian.Uint32(body[p:])))
		p += int(width / 8)
		if value&1 == 0 {
			p += int(value >> 1)
		}
		if width == 0 || p != end-1 || body[p] != 0 { // the number of headers
			return Survey{}, false
		}
		earliest, latest = min(earliest, zigzag(delta)), max(latest, zigzag(delta))
		at = end
	}
	if at != len(body) || earliest < -base {
		return Survey{}, false
	}
	s.MinTimestamp, s.MaxTimestamp = base+earliest, base+latest
	return s, true
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

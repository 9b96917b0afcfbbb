package logstore

import (
	"bytes"
	"encoding/binary"
	"math"
)

// The page cache keeps a file in folios, whose size depends on how much a write adds to the file. Batches of 16 KiB end
// up in folios of one or two pages each, which makes both writing them and sending them with sendfile(2) expensive. So
// the file of a segment with a certain size is extended block by block: the append that begins a block writes all of it,
// and the following ones fill it. Until then the file ends in padding, up to the end of the block. Its first bytes are
// the header of a batch that would be longer than the file, so that for whoever reads the file the log ends there as
// after a crash. It is cut off when the segment is rolled, closed or recovered.
//
// With flush.messages, blocks would be written to the disk twice and more, and there is no padding; nor is there in a
// preallocated file, which may be longer than that batch would be.
type padding struct {
	from  int64 // size of a segment from which on it is padded, in bytes
	block int64 // bytes; at most maxPaddingBlock
}

const maxPaddingBlock = 64 << 10

var usualPadding = padding{from: 256 << 10, block: maxPaddingBlock}

// paddingBytes are those of the longest padding: the header's offset, which is not looked at, and its length.
var paddingBytes = func() (b [maxPaddingBlock]byte) {
	binary.BigEndian.PutUint32(b[8:], 1<<30)
	return b
}()

// paddingHeader is the size of that part of the padding that is not zero.
const paddingHeader = 12

// pad returns what is to be written behind an append that ends at a position, and where the file ends then.
func (s *segment) pad(end int64, cfg *Config) (behind []byte, padded int64) {
	p := s.fs.padding
	if end < s.padded {
		return paddingBytes[:min(paddingHeader, s.padded-end)], s.padded
	}
	if end < p.from || p.block == 0 || s.preallocated || cfg.FlushMessages < math.MaxInt64 {
		return nil, end
	}
	padded = (end/p.block + 1) * p.block
	if padded > int64(cfg.SegmentBytes) {
		return nil, end
	}
	return paddingBytes[:padded-end], padded
}

// isPadding reports whether what follows the last batch of a file is nothing but padding.
func isPadding(tail []byte) bool {
	return len(tail) <= len(paddingBytes) && bytes.Equal(tail, paddingBytes[:len(tail)])
}

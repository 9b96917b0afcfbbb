package record

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DownConvert rewrites data, whole batches as stored, for clients that know only messages of the given magic (0 or 1):
// Fetch v0-v1 take magic 0, v2-v3 magic 1. Control records and headers are left out, they have no form there. Records below
// from are left out of magic 2 batches, since the caller asked for no less. Messages that are old enough are kept as they
// are. What isn't whole at the end is dropped. zstd has no old form: kerr.UnsupportedCompressionType.
func DownConvert(data []byte, magic int8, from int64) ([]byte, error) {
	var out []byte
	walk := Split(data)
	for walk.Next() {
		b := walk.Batch()
		if b.Magic() <= magic {
			out = append(out, b...)
			continue
		}
		if b.Control() {
			continue
		}
		var err error
		if out, err = b.appendAsMessages(out, magic, from); err != nil {
			return nil, err
		}
	}
	return out, walk.Err()
}

func (b Batch) appendAsMessages(dst []byte, magic int8, from int64) ([]byte, error) {
	codec := b.Codec()
	if codec == Zstd {
		return nil, fmt.Errorf("zstd batch for a client of message format %d: %w", magic, kerr.UnsupportedCompressionType)
	}
	var records []Record
	err := b.Records(func(r *Record) error {
		if b.Magic() < 2 || r.Offset >= from {
			records = append(records, *r)
		}
		return nil
	})
	if err != nil || len(records) == 0 {
		return dst, err
	}
	if codec == None {
		for _, r := range records {
			dst = AppendMessage(dst, magic, r.Offset, r.Timestamp, r.Key, r.Value)
		}
		return dst, nil
	}
	return appendWrapper(dst, magic, codec, records)
}

// appendWrapper appends records as one compressed message. Inner offsets are relative in magic 1 and absolute
// in magic 0.
func appendWrapper(dst []byte, magic int8, codec Codec, records []Record) ([]byte, error) {
	var set []byte
	var base int64
	if magic == 1 {
		base = records[0].Offset
	}
	maxTimestamp := NoTimestamp
	for _, r := range records {
		set = AppendMessage(set, magic, r.Offset-base, r.Timestamp, r.Key, r.Value)
		maxTimestamp = max(maxTimestamp, r.Timestamp)
	}
	value, err := Compress(nil, codec, DefaultLevel, set)
	if err != nil {
		return nil, err
	}
	last := records[len(records)-1].Offset
	return appendMessage(dst, magic, codec, last, maxTimestamp, nil, value), nil
}

// NeedsDownConvert tells whether data holds a batch of a newer magic than the given one.
func NeedsDownConvert(data []byte, magic int8) bool {
	walk := Split(data)
	for walk.Next() {
		if walk.Batch().Magic() > magic {
			return true
		}
	}
	return false
}

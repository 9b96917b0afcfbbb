package record

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DownConvert converts data, whole stored batches, for clients that know only messages of the given magic (0 or 1):
// Fetch v0-v1 take magic 0, v2-v3 magic 1. Control records and headers are left out, since the old formats have none.
// Records of uncompressed magic 2 batches below from are left out too, since the caller does not want them
// (RecordsUtil.downConvert, 3.9). Messages that are old enough are kept as they are. An incomplete batch at the end is dropped. Conversion ends before the first batch that
// cannot be converted, and if that leaves nothing there is an error: kerr.UnsupportedCompressionType for zstd, which has
// no old form, or that of a damaged batch. So the client gets what is before the batch, and then the error.
//
// Messages can be larger than what they are converted from. The result is cut off, within a message if need be, where it
// would exceed the size of data, unless the first batch alone is larger (LazyDownConversionRecordsSend, 3.9).
func DownConvert(data []byte, magic int8, from int64) ([]byte, error) {
	var out []byte
	most := len(data)
	walk := Split(data)
	for len(out) < most && walk.Next() {
		b := walk.Batch()
		if b.Control() && b.Magic() > magic {
			continue
		}
		more, err := b.appendConverted(out, magic, from)
		if len(out) > 0 && err != nil {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			most = max(most, len(more))
		}
		out = more
	}
	if len(out) > 0 {
		return out[:min(len(out), most)], nil
	}
	return nil, walk.Err()
}

func (b Batch) appendConverted(dst []byte, magic int8, from int64) ([]byte, error) {
	if b.Magic() <= magic {
		return append(dst, b...), nil
	}
	return b.appendAsMessages(dst, magic, from)
}

func (b Batch) appendAsMessages(dst []byte, magic int8, from int64) ([]byte, error) {
	codec := b.Codec()
	if codec == Zstd {
		return nil, fmt.Errorf("zstd batch for a client of message format %d: %w", magic, kerr.UnsupportedCompressionType)
	}
	var records []Record
	err := b.Records(func(r *Record) error {
		if b.Magic() < 2 || codec != None || r.Offset >= from {
			records = append(records, *r)
		}
		return nil
	})
	if err != nil || len(records) == 0 {
		return dst, err
	}
	how := Messages{Magic: magic, Codec: codec, Level: DefaultLevel, TimestampType: b.TimestampType()}
	if how.TimestampType == LogAppendTime {
		how.AppendTime = b.MaxTimestamp()
	}
	return how.Append(dst, records)
}

// NeedsDownConvert reports whether data contains a batch with a newer magic than the given one.
func NeedsDownConvert(data []byte, magic int8) bool {
	walk := Split(data)
	for walk.Next() {
		if walk.Batch().Magic() > magic {
			return true
		}
	}
	return false
}

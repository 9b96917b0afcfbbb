package logstore

import (
	"math"
	"time"

	"barnabas/logstore/record"
)

// Unlimited means no limit in Config fields that allow it, as does any negative value.
const Unlimited = -1

// Config configures a log. Sizes are in bytes. A negative size or duration means no limit where that makes sense. The
// topic property is beside each field.
type Config struct {
	SegmentBytes       int32         // segment.bytes
	SegmentAge         time.Duration // segment.ms
	SegmentJitter      time.Duration // segment.jitter.ms, the most by which a segment rolls early
	IndexIntervalBytes int32         // index.interval.bytes
	IndexSizeMax       int32         // segment.index.bytes
	Preallocate        bool          // preallocate

	Delete          bool          // cleanup.policy has delete
	Compact         bool          // cleanup.policy has compact: records must have keys
	RetentionTime   time.Duration // retention.ms
	RetentionBytes  int64         // retention.bytes
	FileDeleteDelay time.Duration // file.delete.delay.ms

	MinCleanableRatio float64       // min.cleanable.dirty.ratio
	MinCompactionLag  time.Duration // min.compaction.lag.ms
	MaxCompactionLag  time.Duration // max.compaction.lag.ms
	DeleteRetention   time.Duration // delete.retention.ms, how long compaction keeps tombstones

	FlushMessages int64         // flush.messages
	FlushInterval time.Duration // flush.ms

	// Magic is the format in which a leader stores what it appends, 0 to 2: message.format.version, which matters only
	// with an inter-broker protocol below 3.0 (KIP-724).
	Magic              int8
	MaxMessageBytes    int32                // max.message.bytes, of a stored batch
	Compression        string               // compression.type: producer, uncompressed, gzip, snappy, lz4, zstd
	GzipLevel          int                  // compression.gzip.level
	Lz4Level           int                  // compression.lz4.level
	ZstdLevel          int                  // compression.zstd.level
	TimestampType      record.TimestampType // message.timestamp.type
	TimestampBeforeMax time.Duration        // message.timestamp.before.max.ms
	TimestampAfterMax  time.Duration        // message.timestamp.after.max.ms
}

// DefaultConfig has the defaults of Apache Kafka 3.9.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:       1 << 30,
		SegmentAge:         7 * 24 * time.Hour,
		IndexIntervalBytes: 4096,
		IndexSizeMax:       10 << 20,
		Delete:             true,
		RetentionTime:      7 * 24 * time.Hour,
		RetentionBytes:     Unlimited,
		FileDeleteDelay:    time.Minute,
		MinCleanableRatio:  0.5,
		MaxCompactionLag:   math.MaxInt64,
		DeleteRetention:    24 * time.Hour,
		FlushMessages:      math.MaxInt64,
		FlushInterval:      Unlimited,
		Magic:              record.NewestMagic,
		MaxMessageBytes:    1<<20 + record.Overhead,
		Compression:        "producer",
		GzipLevel:          record.DefaultLevel,
		Lz4Level:           record.DefaultLevel,
		ZstdLevel:          record.DefaultLevel,
		TimestampType:      record.CreateTime,
		TimestampBeforeMax: Unlimited,
		TimestampAfterMax:  Unlimited,
	}
}

// codec returns the codec, with its level, in which to store a batch that arrived in source.
func (c *Config) codec(source record.Codec) (record.Codec, int) {
	codec := source
	if c.Compression != "producer" && c.Compression != "" {
		if named, err := record.ParseCodec(c.Compression); err == nil { // the broker has checked the name
			codec = named
		}
	}
	switch codec {
	case record.Gzip:
		return codec, c.GzipLevel
	case record.Lz4:
		return codec, c.Lz4Level
	case record.Zstd:
		return codec, c.ZstdLevel
	}
	return codec, record.DefaultLevel
}

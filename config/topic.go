package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Topic is a topic's configuration: its own settings on top of the broker's. It is immutable.
type Topic struct {
	overrides     map[string]string
	values        map[string]any // by topic key
	formatIgnored bool

	CleanupDelete             bool
	CleanupCompact            bool
	CompressionType           string // producer, uncompressed, gzip, snappy, lz4 or zstd
	CompressionGzipLevel      int    // -1: the codec's default
	CompressionLZ4Level       int
	CompressionZstdLevel      int
	DeleteRetention           time.Duration
	FileDeleteDelay           time.Duration
	FlushMessages             int64
	FlushInterval             time.Duration
	IndexIntervalBytes        int
	MaxCompactionLag          time.Duration
	MinCompactionLag          time.Duration
	MaxMessageBytes           int
	Downconversion            bool
	MessageFormatVersion      ProtocolVersion
	TimestampAfterMax         time.Duration
	TimestampBeforeMax        time.Duration
	LogAppendTime             bool
	MinCleanableDirtyRatio    float64
	MinInsyncReplicas         int
	Preallocate               bool
	RemoteStorage             bool
	Retention                 time.Duration // negative: no limit
	RetentionBytes            int64         // negative: no limit
	SegmentBytes              int
	SegmentIndexBytes         int
	SegmentJitter             time.Duration
	SegmentAge                time.Duration // segment.ms
	UncleanLeaderElection     bool
	LeaderThrottledReplicas   ThrottledReplicas
	FollowerThrottledReplicas ThrottledReplicas
}

// Topic applies a topic's overrides from ZooKeeper to b. Unknown keys are ignored, since another release may have
// written them; an invalid value is an error.
func (b *Broker) Topic(overrides map[string]string) (*Topic, error) {
	t := &Topic{overrides: maps.Clone(overrides), values: b.topicDefaults()}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		k := topicKey(name)
		if k == nil {
			continue
		}
		value, err := k.parse(overrides[name])
		if err != nil {
			return nil, err
		}
		t.values[name] = value
	}
	t.fill(b)
	return t, nil
}

// Set reports whether the topic itself has the setting.
func (t *Topic) Set(name string) bool {
	_, ok := t.overrides[name]
	return ok
}

// topicDefaults returns the values for a topic without settings of its own.
func (b *Broker) topicDefaults() map[string]any {
	values := make(map[string]any, len(topicKeys))
	for i := range topicKeys {
		k := &topicKeys[i]
		if from, ok := topicSynonyms[k.Name]; ok {
			values[k.Name] = b.values[from]
			continue
		}
		values[k.Name], _ = parseValue(k.Type, k.def)
	}
	values["segment.ms"] = b.firstNumber(b.LogRoll, "log.roll.ms")
	values["segment.jitter.ms"] = b.firstNumber(b.LogRollJitter, "log.roll.jitter.ms")
	values["retention.ms"] = b.retentionNumber()
	values["flush.ms"] = b.firstNumber(b.LogFlushInterval, "log.flush.interval.ms", "log.flush.scheduler.interval.ms")
	values["message.format.version"] = b.MessageFormatVersion.String()
	difference := b.values["log.message.timestamp.difference.max.ms"]
	for _, name := range []string{"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"} {
		if values[name] == int64(math.MaxInt64) {
			values[name] = difference
		}
	}
	return values
}

// firstNumber returns the first of the keys, in milliseconds, that is not null, otherwise d. A Duration cannot
// represent the largest LONG, which means "never" in these settings.
func (b *Broker) firstNumber(d time.Duration, keys ...string) int64 {
	for _, key := range keys {
		if !b.null(key) {
			return int64(b.Int(key))
		}
	}
	return d.Milliseconds()
}

func (b *Broker) retentionNumber() int64 {
	return max(-1, b.firstNumber(b.LogRetention, "log.retention.ms"))
}

// topicSynonyms maps a topic's setting to the broker key that is its default.
var topicSynonyms = map[string]string{
	"cleanup.policy":                      "log.cleanup.policy",
	"compression.gzip.level":              "compression.gzip.level",
	"compression.lz4.level":               "compression.lz4.level",
	"compression.type":                    "compression.type",
	"compression.zstd.level":              "compression.zstd.level",
	"delete.retention.ms":                 "log.cleaner.delete.retention.ms",
	"file.delete.delay.ms":                "log.segment.delete.delay.ms",
	"flush.messages":                      "log.flush.interval.messages",
	"flush.ms":                            "log.flush.interval.ms",
	"index.interval.bytes":                "log.index.interval.bytes",
	"local.retention.bytes":               "log.local.retention.bytes",
	"local.retention.ms":                  "log.local.retention.ms",
	"max.compaction.lag.ms":               "log.cleaner.max.compaction.lag.ms",
	"max.message.bytes":                   "message.max.bytes",
	"message.downconversion.enable":       "log.message.downconversion.enable",
	"message.format.version":              "log.message.format.version",
	"message.timestamp.after.max.ms":      "log.message.timestamp.after.max.ms",
	"message.timestamp.before.max.ms":     "log.message.timestamp.before.max.ms",
	"message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
	"message.timestamp.type":              "log.message.timestamp.type",
	"min.cleanable.dirty.ratio":           "log.cleaner.min.cleanable.ratio",
	"min.compaction.lag.ms":               "log.cleaner.min.compaction.lag.ms",
	"min.insync.replicas":                 "min.insync.replicas",
	"preallocate":                         "log.preallocate",
	"retention.bytes":                     "log.retention.bytes",
	"retention.ms":                        "log.retention.ms",
	"segment.bytes":                       "log.segment.bytes",
	"segment.index.bytes":                 "log.index.size.max.bytes",
	"segment.jitter.ms":                   "log.roll.jitter.ms",
	"segment.ms":                          "log.roll.ms",
	"unclean.leader.election.enable":      "unclean.leader.election.enable",
}

func (t *Topic) int(name string) int              { return int(t.values[name].(int64)) }
func (t *Topic) bool(name string) bool            { return t.values[name].(bool) }
func (t *Topic) list(name string) []string        { return t.values[name].([]string) }
func (t *Topic) millis(name string) time.Duration { return millis(t.values[name].(int64)) }

func (t *Topic) fill(b *Broker) {
	t.CleanupDelete = slices.Contains(t.list("cleanup.policy"), "delete")
	t.CleanupCompact = slices.Contains(t.list("cleanup.policy"), "compact")
	t.CompressionType = t.values["compression.type"].(string)
	t.CompressionGzipLevel = t.int("compression.gzip.level")
	t.CompressionLZ4Level = t.int("compression.lz4.level")
	t.CompressionZstdLevel = t.int("compression.zstd.level")
	t.DeleteRetention = t.millis("delete.retention.ms")
	t.FileDeleteDelay = t.millis("file.delete.delay.ms")
	t.FlushMessages = int64(t.int("flush.messages"))
	t.FlushInterval = t.millis("flush.ms")
	t.IndexIntervalBytes = t.int("index.interval.bytes")
	t.MaxCompactionLag = t.millis("max.compaction.lag.ms")
	t.MinCompactionLag = t.millis("min.compaction.lag.ms")
	t.MaxMessageBytes = t.int("max.message.bytes")
	t.Downconversion = t.bool("message.downconversion.enable")
	t.LogAppendTime = t.values["message.timestamp.type"] == "LogAppendTime"
	t.MinCleanableDirtyRatio = t.values["min.cleanable.dirty.ratio"].(float64)
	t.MinInsyncReplicas = t.int("min.insync.replicas")
	t.Preallocate = t.bool("preallocate")
	t.RemoteStorage = t.bool("remote.storage.enable")
	t.SegmentBytes = t.int("segment.bytes")
	t.SegmentIndexBytes = t.int("segment.index.bytes")
	t.SegmentJitter = t.millis("segment.jitter.ms")
	t.SegmentAge = t.millis("segment.ms")
	t.UncleanLeaderElection = t.bool("unclean.leader.election.enable")
	t.LeaderThrottledReplicas = newThrottledReplicas(t.list("leader.replication.throttled.replicas"))
	t.FollowerThrottledReplicas = newThrottledReplicas(t.list("follower.replication.throttled.replicas"))

	difference := t.int("message.timestamp.difference.max.ms")
	t.TimestampAfterMax = timestampLimit(t.int("message.timestamp.after.max.ms"), difference)
	t.TimestampBeforeMax = timestampLimit(t.int("message.timestamp.before.max.ms"), difference)
	t.Retention, t.RetentionBytes = t.millis("retention.ms"), int64(t.int("retention.bytes"))
	t.fillFormat(b)
}

// timestampLimit returns the specific limit, or the older common one if that is not set (KIP-937).
func timestampLimit(limit, difference int) time.Duration {
	if limit == math.MaxInt64 {
		limit = difference
	}
	return millis(int64(limit))
}

// fillFormat resolves the format: from inter.broker.protocol.version 3.0 on, a topic's own setting is ignored
// (KIP-724), and so is one that is newer than the protocol (TopicConfigHandler.excludedConfigs, 3.9).
func (t *Topic) fillFormat(b *Broker) {
	own, _ := parseProtocolVersion(t.values["message.format.version"].(string)) // checked by the schema
	t.MessageFormatVersion = own
	if b.InterBrokerProtocolVersion >= IBP30IV1 || own > b.InterBrokerProtocolVersion {
		t.MessageFormatVersion = b.MessageFormatVersion
	}
	t.formatIgnored = t.Set("message.format.version") && own.RecordVersion() != t.MessageFormatVersion.RecordVersion()
}

// FormatIgnored reports whether the topic requests a message format that it does not get because of
// inter.broker.protocol.version.
func (t *Topic) FormatIgnored() bool { return t.formatIgnored }

// MaxSegmentAge returns the age at which a segment must be rolled: for a compacted topic, no later than its records
// must be compacted (LogConfig.maxSegmentMs, 3.9).
func (t *Topic) MaxSegmentAge() time.Duration {
	if t.CleanupCompact && t.MaxCompactionLag > 0 {
		return min(t.MaxCompactionLag, t.SegmentAge)
	}
	return t.SegmentAge
}

// validateTopic checks a topic's new settings as a whole. The errors wrap kerr.InvalidConfig and name the key.
func (b *Broker) validateTopic(overrides map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if topicKey(name) == nil {
			return &Error{Key: name, Reason: "no topic has such a setting", Code: kerr.InvalidConfig}
		}
	}
	t, err := b.Topic(overrides)
	if err != nil {
		return with(kerr.InvalidConfig, err)
	}
	return t.check(b)
}

// check checks a topic's settings against each other (LogConfig.validateTopicLogConfigValues, 3.9).
func (t *Topic) check(b *Broker) error {
	refuse := func(key, reason string, args ...any) error {
		return &Error{Key: key, Value: format(t.values[key]), Reason: fmt.Sprintf(reason, args...), Code: kerr.InvalidConfig}
	}
	for _, name := range []string{"remote.log.delete.on.disable", "remote.log.copy.disable"} {
		if t.bool(name) {
			return refuse(name, "not possible in ZooKeeper mode")
		}
	}
	low, high := t.int("min.compaction.lag.ms"), t.int("max.compaction.lag.ms")
	if low > high {
		return refuse("min.compaction.lag.ms", "must not exceed max.compaction.lag.ms=%d", high)
	}
	if !t.RemoteStorage {
		return nil
	}
	switch {
	case !b.Bool("remote.log.storage.system.enable"):
		return refuse("remote.storage.enable", "this broker has no tiered storage")
	case t.CleanupCompact:
		return refuse("remote.storage.enable", "not possible on a compacted topic")
	}
	return t.checkLocalRetention(refuse)
}

func (t *Topic) checkLocalRetention(refuse func(string, string, ...any) error) error {
	for _, pair := range [][2]string{{"local.retention.bytes", "retention.bytes"}, {"local.retention.ms", "retention.ms"}} {
		local, total := t.int(pair[0]), t.int(pair[1])
		if total < 0 || local == -2 {
			continue
		}
		if local == -1 || local > total {
			return refuse(pair[0], "must not exceed %s=%d", pair[1], total)
		}
	}
	return nil
}

// shownValue returns a topic's value as described by DescribeConfigs.
func (t *Topic) shownValue(name string) string { return format(t.values[name]) }

// Overrides returns the topic's own settings as key=value, sorted, for a log line.
func (t *Topic) Overrides() string {
	pairs := make([]string, 0, len(t.overrides))
	for _, name := range slices.Sorted(maps.Keys(t.overrides)) {
		pairs = append(pairs, name+"="+t.overrides[name])
	}
	return strings.Join(pairs, ",")
}

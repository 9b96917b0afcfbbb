package broker

import (
	"context"
	"maps"
	"sync"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// topicConfigs holds the settings of topics: their own ones from ZooKeeper, on top of the broker's.
type topicConfigs struct {
	broker *config.Dynamic
	zk     *zkcoord.Client
	log    *logrus.Entry
	lines  logx.Sampler
	unread func(topic string) // called when a new topic's settings could not be read

	loading sync.Mutex // held from reading a topic's settings until they are stored, so that an older read does not overwrite a newer one

	mu struct {
		sync.RWMutex
		overrides map[string]map[string]string
		resolved  map[string]*config.Topic
		defaults  *config.Topic
		forgotten map[string]bool // topics forgotten since the current read began; nil: no read is running
	}
}

func newTopicConfigs(broker *config.Dynamic, zk *zkcoord.Client, log *logrus.Entry) *topicConfigs {
	t := &topicConfigs{broker: broker, zk: zk, log: log, lines: logx.Sampler{Interval: time.Second}}
	t.mu.overrides = make(map[string]map[string]string)
	t.rebuild()
	return t
}

// loadAll reads the settings of every topic: before the logs are loaded, and when changes may have been missed. It
// returns the topics whose settings differ from those known before.
func (t *topicConfigs) loadAll(ctx context.Context) (changed []string, err error) {
	defer t.beginLoading()()
	all, err := t.zk.AllEntityConfigs(ctx, zkcoord.Topics)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	maps.DeleteFunc(all, func(topic string, _ map[string]string) bool { return t.mu.forgotten[topic] })
	old := t.mu.overrides
	t.mu.overrides = all
	t.mu.Unlock()
	t.rebuild()
	for topic := range old {
		if _, there := all[topic]; !there {
			changed = append(changed, topic)
		}
	}
	for topic, overrides := range all {
		if !maps.Equal(old[topic], overrides) {
			changed = append(changed, topic)
		}
	}
	return changed, nil
}

// beginLoading begins a read of settings; the returned function ends it. Settings of topics that are forgotten in
// between are not stored: they were read of a topic that has been deleted since, and would be mistaken for those of the
// next topic with its name.
func (t *topicConfigs) beginLoading() (end func()) {
	t.loading.Lock()
	set := func(forgotten map[string]bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.mu.forgotten = forgotten
	}
	set(make(map[string]bool))
	return func() {
		set(nil)
		t.loading.Unlock()
	}
}

// rebuild resolves all settings again after the broker's own have changed.
func (t *topicConfigs) rebuild() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.resolved = make(map[string]*config.Topic, len(t.mu.overrides))
	t.mu.defaults = t.resolve("", nil)
	for topic, overrides := range t.mu.overrides {
		t.mu.resolved[topic] = t.resolve(topic, overrides)
	}
}

// resolve falls back to the broker's settings if a topic's are invalid because they were written without the usual
// checks.
func (t *topicConfigs) resolve(topic string, overrides map[string]string) *config.Topic {
	resolved, err := t.broker.Current().Topic(overrides)
	if err == nil {
		if resolved.FormatIgnored() {
			t.log.WithFields(logrus.Fields{logx.Topic: topic, logx.Setting: "message.format.version", logx.Value: overrides["message.format.version"],
				logx.Protocol: t.broker.Current().InterBrokerProtocolVersion.String()}).
				Warn("a topic's setting is ignored: this protocol between brokers has another message format")
		}
		return resolved
	}
	t.log.WithError(err).WithField(logx.Topic, topic).Error("a topic's settings in ZooKeeper are invalid, using the broker's defaults")
	resolved, err = t.broker.Current().Topic(nil)
	if err != nil { // impossible: the broker's settings were checked before they were applied
		panic(err)
	}
	return resolved
}

// get returns a topic's settings, or the defaults for an unknown topic.
func (t *topicConfigs) get(topic string) *config.Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if c := t.mu.resolved[topic]; c != nil {
		return c
	}
	return t.mu.defaults
}

// has reports whether a topic's settings are known; every topic has a node for them.
func (t *topicConfigs) has(topic string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.resolved[topic] != nil
}

func (t *topicConfigs) defaults() *config.Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.defaults
}

func (t *topicConfigs) known() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	topics := make([]string, 0, len(t.mu.resolved))
	for topic := range t.mu.resolved {
		topics = append(topics, topic)
	}
	return topics
}

// reload reads a topic's settings again.
func (t *topicConfigs) reload(ctx context.Context, topic string) error {
	return t.read(ctx, []string{topic}, t.zk.EntityConfigs)
}

// read reads and stores the settings of topics. Those without a node have none.
func (t *topicConfigs) read(ctx context.Context, topics []string,
	from func(context.Context, zkcoord.EntityKind, []string) (map[string]map[string]string, error)) error {
	defer t.beginLoading()()
	overrides, err := from(ctx, zkcoord.Topics, topics)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range topics {
		if !t.mu.forgotten[topic] {
			t.mu.overrides[topic] = overrides[topic]
			t.mu.resolved[topic] = t.resolve(topic, overrides[topic])
		}
	}
	return nil
}

// forget drops a deleted topic's settings: a new topic with the same name may have others.
func (t *topicConfigs) forget(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.overrides, topic)
	delete(t.mu.resolved, topic)
	if t.mu.forgotten != nil {
		t.mu.forgotten[topic] = true
	}
}

func (t *topicConfigs) logConfig(topic string) logstore.Config { return logConfig(t.get(topic)) }

// readNew reads the settings of topics that this broker gets its first partitions of. New topics, for which the map has
// true, are not announced by a notification, so their settings are read even if there seem to be some: they may be those
// of a deleted topic with the same name, read after it was forgotten.
//
// The controller may have seen a topic at another ZooKeeper server, which is ahead of this broker's. Since nothing would
// announce the settings later, this one has to catch up first; Apache Kafka takes what it finds.
func (t *topicConfigs) readNew(ctx context.Context, topics map[string]bool) {
	var names []string
	for topic, isNew := range topics {
		if isNew || !t.has(topic) {
			names = append(names, topic)
		}
	}
	if len(names) == 0 {
		return
	}
	if err := t.read(ctx, names, t.zk.NewestEntityConfigs); err != nil {
		if line, ok := t.lines.Line("unread", t.log); ok && ctx.Err() == nil { // it is tried again for each log
			line.WithError(err).WithField(logx.Count, len(names)).Error("cannot read the settings of new topics, using the broker's defaults for now")
		}
		for _, topic := range names {
			t.unread(topic)
		}
	}
}

// logConfigOfNew is logConfig for a log that is to be created. The settings may have been forgotten since they were read:
// a notification of a topic that is neither hosted nor known to the controller is taken for one of a deleted topic.
func (t *topicConfigs) logConfigOfNew(ctx context.Context, topic string) logstore.Config {
	t.readNew(ctx, map[string]bool{topic: false})
	return t.logConfig(topic)
}

// logConfig translates a topic's settings for its logs.
func logConfig(t *config.Topic) logstore.Config {
	c := logstore.DefaultConfig()
	c.SegmentBytes, c.SegmentAge, c.SegmentJitter = int32(t.SegmentBytes), t.MaxSegmentAge(), t.SegmentJitter
	c.IndexIntervalBytes, c.IndexSizeMax, c.Preallocate = int32(t.IndexIntervalBytes), int32(t.SegmentIndexBytes), t.Preallocate
	c.Delete, c.Compact = t.CleanupDelete, t.CleanupCompact
	c.RetentionTime, c.RetentionBytes, c.FileDeleteDelay = t.Retention, t.RetentionBytes, t.FileDeleteDelay
	c.MinCleanableRatio, c.DeleteRetention = t.MinCleanableDirtyRatio, t.DeleteRetention
	c.MinCompactionLag, c.MaxCompactionLag = t.MinCompactionLag, t.MaxCompactionLag
	c.FlushMessages, c.FlushInterval = t.FlushMessages, t.FlushInterval
	c.Magic, c.MaxMessageBytes = t.MessageFormatVersion.RecordVersion(), int32(t.MaxMessageBytes)
	c.Compression, c.GzipLevel, c.Lz4Level, c.ZstdLevel = t.CompressionType, t.CompressionGzipLevel, t.CompressionLZ4Level, t.CompressionZstdLevel
	c.TimestampBeforeMax, c.TimestampAfterMax = t.TimestampBeforeMax, t.TimestampAfterMax
	if t.LogAppendTime {
		c.TimestampType = record.LogAppendTime
	}
	return c
}

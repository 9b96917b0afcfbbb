package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// compacting are the settings that determine when a partition is compacted.
type compacting struct {
	ratio   float64       // min.cleanable.dirty.ratio
	minLag  time.Duration // min.compaction.lag.ms
	cleaned int64         // offset up to which it was compacted; -1: never
}

// uncompacted says why a partition is not compacted, or that it will be. The last segment is the active one.
func uncompacted(segments []segmentSeen, c compacting, now time.Time) string {
	closed := segments[:max(0, len(segments)-1)]
	var clean, dirty int64
	young := -1
	for i, s := range closed {
		if next := segments[i+1].base; next <= c.cleaned {
			clean += s.size
			continue
		}
		if now.Sub(time.UnixMilli(s.largest)) < c.minLag {
			young = i
			break
		}
		dirty += s.size
	}
	switch {
	case len(closed) == 0:
		return "has only the active segment, which is never compacted. It is closed at segment.bytes or after segment.ms."
	case dirty == 0 && young >= 0:
		return fmt.Sprintf("the segment at %d and those after it have records younger than min.compaction.lag.ms=%d.", closed[young].base, c.minLag.Milliseconds())
	case dirty == 0:
		return "everything except the active segment has been compacted."
	}
	ratio := float64(dirty) / float64(clean+dirty)
	if ratio <= c.ratio {
		return fmt.Sprintf("%.0f%% of its closed segments are new since the last compaction, which does not exceed min.cleanable.dirty.ratio=%g: it waits for more.", ratio*100, c.ratio)
	}
	return fmt.Sprintf("%.0f%% of its closed segments are new since the last compaction: it is compacted as soon as a cleaner thread is free.", ratio*100)
}

func (d *doctor) cleaner(ctx context.Context, topic string) error {
	meta, t, s, err := d.topicAndSettings(ctx, topic)
	if err != nil {
		return err
	}
	d.note(topic, "cleanup.policy=%s, min.cleanable.dirty.ratio=%s, min.compaction.lag.ms=%s, max.compaction.lag.ms=%s, segment.ms=%s, segment.bytes=%s.",
		s["cleanup.policy"], s["min.cleanable.dirty.ratio"], s["min.compaction.lag.ms"], s["max.compaction.lag.ms"], s["segment.ms"], s["segment.bytes"])
	if !strings.Contains(s["cleanup.policy"], "compact") {
		d.trouble(topic, "kafka-configs.sh --alter --entity-type topics --entity-name "+topic+" --add-config cleanup.policy=compact", "it is not compacted because of cleanup.policy=%s.", s["cleanup.policy"])
		return nil
	}
	var partitions, hosts []int32
	for _, p := range t.Partitions {
		partitions, hosts = append(partitions, p.Partition), append(hosts, p.Replicas...)
	}
	slices.Sort(hosts)
	for _, id := range slices.Compact(hosts) {
		if !alive(meta, id) {
			d.trouble("broker "+number(id), "start it", "is not running; its replicas are not compacted.")
			continue
		}
		b, err := d.brokerSettings(ctx, id)
		if err != nil {
			return err
		}
		if b["log.cleaner.enable"] == "false" {
			d.trouble("broker "+number(id), "remove log.cleaner.enable=false from its file and restart it", "compacts nothing because of log.cleaner.enable=false.")
		}
	}
	dirs, err := d.replicaDirs(ctx, topic, partitions)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := d.cleanerIn(ctx, dir, topic, s); err != nil {
			return err
		}
	}
	return nil
}

func (d *doctor) cleanerIn(ctx context.Context, dir replicaDir, topic string, s settings) error {
	subject := fmt.Sprintf("%s on broker %d", partitionName(topic, dir.partition), dir.broker)
	segments, err := readSegments(dir.path)
	if err != nil {
		return err
	}
	if len(segments) == 0 {
		d.note(subject, "has %s; run the doctor on its host to see why it is not compacted.", counted(dir.size, "byte"))
		return nil
	}
	ratio, err := strconv.ParseFloat(s["min.cleanable.dirty.ratio"], 64)
	if err != nil {
		return fmt.Errorf("topic %s: min.cleanable.dirty.ratio: %w", topic, err)
	}
	c := compacting{ratio: ratio, minLag: duration(max(0, s.number("min.compaction.lag.ms")), time.Millisecond),
		cleaned: checkpointed(filepath.Join(filepath.Dir(dir.path), "cleaner-offset-checkpoint"), topic, dir.partition)}
	d.note(subject, "%s", uncompacted(segments, c, d.now))
	return d.oldestTransaction(ctx, topic, dir.partition, subject)
}

// oldestTransaction says whether a transaction blocks compaction: nothing after its beginning is compacted.
func (d *doctor) oldestTransaction(ctx context.Context, topic string, partition int32, subject string) error {
	open, err := d.openTransactions(ctx, map[string][]int32{topic: {partition}})
	if err != nil {
		return err
	}
	for _, p := range open {
		if age := d.now.Sub(time.UnixMilli(p.LastTimestamp)); age > time.Hour {
			d.trouble(subject, "see kafka-doctor.sh transactions", "nothing from offset %d on is compacted: a transaction of producer %d has been open since that offset, and its last record came %s ago.",
				p.CurrentTxnStartOffset, p.ProducerID, lasting(age))
		}
	}
	return nil
}

// checkpointed reads a partition's offset from a checkpoint file of a log directory; -1 if there is none.
func checkpointed(file, topic string, partition int32) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != topic || words[1] != number(partition) {
			continue
		}
		if offset, err := strconv.ParseInt(words[2], 10, 64); err == nil {
			return offset
		}
	}
	return -1
}

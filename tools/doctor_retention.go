package tools

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// segmentsTold is how many segments of a partition are reported individually.
const segmentsTold = 20

// retentionPolicy says how long a topic keeps its records.
type retentionPolicy struct {
	ms    int64         // retention.ms; -1: forever
	bytes int64         // retention.bytes of a partition; -1: unlimited
	check time.Duration // how often brokers check
}

// retentionOutcome is what will become of a segment.
type retentionOutcome struct {
	says    string
	do      string
	trouble bool
}

const futureDo = "set message.timestamp.after.max.ms for the topic, so that such records are rejected, or message.timestamp.type=LogAppendTime; " +
	"delete the existing ones with kafka-delete-records.sh or retention.bytes"

// retentionOutcomes determines for each segment of a partition, oldest first, when it will be deleted. Only the oldest
// ones can be: one that stays keeps all that follow.
func retentionOutcomes(segments []segmentSeen, k retentionPolicy, now time.Time) []retentionOutcome {
	var total int64
	for _, s := range segments {
		total += s.size
	}
	list := make([]retentionOutcome, len(segments))
	stays := int64(-1) // base offset of a segment that keeps those after it
	for i, s := range segments {
		due, text := k.due(s)
		total -= s.size
		tooMuch := k.bytes >= 0 && total >= k.bytes
		over := now.UnixMilli() - due
		switch {
		case s.size == 0:
			list[i] = retentionOutcome{says: "is empty."}
			continue
		case stays >= 0 && (tooMuch || due >= 0 && over > 0):
			list[i] = retentionOutcome{says: fmt.Sprintf("is due but stays, since the earlier segment at %d is not due.", stays)}
			continue
		case tooMuch:
			list[i] = retentionOutcome{says: fmt.Sprintf("is deleted at the next check (every %s), since the partition exceeds retention.bytes=%d without it.", lasting(k.check), k.bytes)}
			continue
		case s.largest > now.UnixMilli() && due >= 0:
			list[i] = retentionOutcome{trouble: true, do: futureDo, says: fmt.Sprintf("has a record with a timestamp in the future, %s: it stays until %s, and so do all later segments.", at(s.largest), at(due))}
		case due < 0:
			list[i] = retentionOutcome{says: "stays: " + text}
		case over <= 0:
			list[i] = retentionOutcome{says: fmt.Sprintf("is deleted after %s, in %s: %s", at(due), lasting(duration(-over, time.Millisecond)), text)}
		case duration(over, time.Millisecond) > 2*k.check+time.Minute:
			list[i] = retentionOutcome{trouble: true, says: fmt.Sprintf("should have been deleted at %s: %s", at(due), text),
				do: "is a follower so far behind that the high watermark is below the segment's end (kafka-topics.sh --describe), or has its log directory failed (kafka-log-dirs.sh)? See the broker's log"}
			continue
		default:
			list[i] = retentionOutcome{says: fmt.Sprintf("is deleted at the next check (every %s): %s", lasting(k.check), text)}
			continue
		}
		if stays < 0 {
			stays = s.base
		}
	}
	return list
}

// due returns when a segment's newest record is old enough, in ms, and why; -1: never.
func (k retentionPolicy) due(s segmentSeen) (int64, string) {
	if k.ms < 0 {
		return -1, "retention.ms=-1 keeps records of any age."
	}
	return s.largest + k.ms, fmt.Sprintf("its newest record is from %s, retention.ms=%d.", at(s.largest), k.ms)
}

func (d *doctor) retention(ctx context.Context, topic string) error {
	meta, t, s, err := d.topicAndSettings(ctx, topic)
	if err != nil {
		return err
	}
	d.note(topic, "cleanup.policy=%s, retention.ms=%s, retention.bytes=%s, segment.ms=%s, segment.bytes=%s, message.timestamp.type=%s.",
		s["cleanup.policy"], s["retention.ms"], s["retention.bytes"], s["segment.ms"], s["segment.bytes"], s["message.timestamp.type"])
	if !strings.Contains(s["cleanup.policy"], "delete") {
		d.note(topic, "records are not deleted by age or size, since cleanup.policy does not contain delete; see kafka-doctor.sh cleaner %s.", topic)
		return nil
	}
	k := retentionPolicy{ms: s.number("retention.ms"), bytes: s.number("retention.bytes"), check: 5 * time.Minute}
	var partitions []int32
	leaders := make(map[int32]int32)
	for _, p := range t.Partitions {
		if p.Leader < 0 || !alive(meta, p.Leader) {
			d.trouble(partitionName(topic, p.Partition), "bring one of its replicas back", "has no leader, and nothing is deleted until it has one.")
			continue
		}
		partitions = append(partitions, p.Partition)
		leaders[p.Partition] = p.Leader
	}
	dirs, err := d.replicaDirs(ctx, topic, partitions)
	if err != nil {
		return err
	}
	checks := make(map[int32]time.Duration)
	var elsewhere []int32
	for _, dir := range dirs {
		if dir.broker != leaders[dir.partition] {
			continue
		}
		if _, ok := checks[dir.broker]; !ok {
			b, err := d.brokerSettings(ctx, dir.broker)
			if err != nil {
				return err
			}
			checks[dir.broker] = duration(max(1, b.number("log.retention.check.interval.ms")), time.Millisecond)
		}
		k.check = checks[dir.broker]
		segments, err := readSegments(dir.path)
		if err != nil {
			return err
		}
		if len(segments) == 0 {
			elsewhere = append(elsewhere, dir.partition)
			continue
		}
		d.reportOutcomes(partitionName(topic, dir.partition), segments, k)
	}
	return d.retentionElsewhere(ctx, topic, elsewhere, k)
}

func (d *doctor) reportOutcomes(partition string, segments []segmentSeen, k retentionPolicy) {
	list := retentionOutcomes(segments, k, d.now)
	told := 0
	for i, f := range list {
		if told == segmentsTold && !f.trouble {
			continue
		}
		subject := fmt.Sprintf("%s segment %d (%s)", partition, segments[i].base, counted(segments[i].size, "byte"))
		if i+1 == len(list) {
			subject += ", the active one"
		}
		if f.trouble {
			d.trouble(subject, f.do, "%s", f.says)
			continue
		}
		d.note(subject, "%s", f.says)
		told++
	}
	if more := len(list) - segmentsTold; more > 0 {
		d.note(partition, "%d segments in all, of which only the oldest are listed.", len(list))
	}
}

// retentionElsewhere reports on partitions whose files are on other hosts. Segments are not visible over the network,
// but the newest timestamp is.
func (d *doctor) retentionElsewhere(ctx context.Context, topic string, partitions []int32, k retentionPolicy) error {
	if len(partitions) == 0 {
		return nil
	}
	newest, err := d.adm.ListMaxTimestampOffsets(ctx, topic)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		subject := partitionName(topic, p)
		o, ok := newest.Lookup(topic, p)
		switch {
		case !ok || o.Err != nil || o.Timestamp < 0:
			d.note(subject, "no record with a timestamp was found; run this command on the leader's host to see each segment.")
		case o.Timestamp > d.now.UnixMilli() && k.ms >= 0:
			d.trouble(subject, futureDo, "the record at offset %d has a timestamp in the future, %s: its segment stays until %s, and so do all later ones.", o.Offset, at(o.Timestamp), at(o.Timestamp+k.ms))
		default:
			d.note(subject, "the newest record is from %s; run this command on the leader's host to see each segment.", at(o.Timestamp))
		}
	}
	return nil
}

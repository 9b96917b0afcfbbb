package tools

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// scope returns the partitions that --topic and --all-topics select for a group.
func (g *groupsTool) scope(ctx context.Context, group string) (kadm.TopicsSet, error) {
	wanted := make(kadm.TopicsSet)
	if g.o.has("all-topics") {
		committed, err := g.adm.FetchOffsets(ctx, group)
		if err != nil {
			return nil, err
		}
		committed.Each(func(o kadm.OffsetResponse) { wanted.Add(o.Topic, o.Partition) })
		return wanted, nil
	}
	for _, text := range *g.o.topics {
		topic, list, some := strings.Cut(text, ":")
		if some {
			ids, err := parseIDs(list)
			if err != nil {
				return nil, usagef("%q does not list partitions", text)
			}
			wanted.Add(topic, ids...)
			continue
		}
		found, err := g.adm.ListTopics(ctx, topic)
		if err == nil {
			err = found[topic].Err
		}
		if err != nil {
			return nil, fmt.Errorf("topic %s: %w", topic, err)
		}
		wanted.Add(topic, found[topic].Partitions.Numbers()...)
	}
	return wanted, nil
}

// newOffset is the new offset of a group for a partition.
type newOffset struct {
	topic     string
	partition int32
	offset    int64
}

func (g *groupsTool) reset(ctx context.Context) error {
	if !g.o.has("execute") && !g.o.has("dry-run") {
		g.env.errorf("WARN: nothing is changed without --execute")
	}
	names, err := g.names(ctx)
	if err != nil {
		return err
	}
	described, err := g.adm.DescribeGroups(ctx, names...)
	if err != nil {
		return err
	}
	results := make(map[string]map[string]newOffset)
	for _, name := range names {
		d := described[name]
		if d.Err == nil && d.State != "Empty" && d.State != "Dead" {
			g.env.printf("\nError: Assignments can only be reset if the group '%s' is inactive, but the current state is %s.\n", name, d.State)
			continue
		}
		offsets, err := g.newOffsets(ctx, name)
		if err != nil {
			return err
		}
		if g.o.has("execute") {
			if err := g.commit(ctx, name, offsets); err != nil {
				return err
			}
		}
		results[name] = offsets
	}
	return g.printReset(names, results)
}

func (g *groupsTool) printReset(names []string, results map[string]map[string]newOffset) error {
	if g.o.has("export") {
		out := csv.NewWriter(g.env.Stdout)
		for _, group := range names {
			for _, name := range sortedPartitions(results[group]) {
				o := results[group][name]
				row := []string{group, o.topic, strconv.Itoa(int(o.partition)), strconv.FormatInt(o.offset, 10)}
				if len(names) == 1 {
					row = row[1:]
				}
				if err := out.Write(row); err != nil {
					return err
				}
			}
		}
		out.Flush()
		g.env.println() // as in the original
		return out.Error()
	}
	g.env.printf("\n%-30s %-30s %-10s %-15s\n", "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
	for _, group := range names {
		for _, name := range sortedPartitions(results[group]) {
			o := results[group][name]
			g.env.printf("%-30s %-30s %-10d %-15d\n", group, o.topic, o.partition, o.offset)
		}
	}
	return nil
}

func (g *groupsTool) commit(ctx context.Context, group string, offsets map[string]newOffset) error {
	var all kadm.Offsets
	for _, o := range offsets {
		all.AddOffset(o.topic, o.partition, o.offset, -1)
	}
	return g.adm.CommitAllOffsets(ctx, group, all)
}

// newOffsets returns the offsets according to the scenario on the command line, limited to the range of each log.
func (g *groupsTool) newOffsets(ctx context.Context, group string) (map[string]newOffset, error) {
	if g.o.has("from-file") {
		return g.offsetsOfFile(group)
	}
	wanted, err := g.scope(ctx, group)
	if err != nil {
		return nil, err
	}
	topics := wanted.Topics()
	if len(topics) == 0 {
		return nil, nil
	}
	starts, err := g.adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := listKnown(ctx, g.adm.ListEndOffsets, topics...)
	if err != nil {
		return nil, err
	}
	target, err := g.target(ctx, group, topics)
	if err != nil {
		return nil, err
	}
	offsets := make(map[string]newOffset)
	for topic, partitions := range wanted {
		for partition := range partitions {
			start, ok1 := starts.Lookup(topic, partition)
			end, ok2 := ends.Lookup(topic, partition)
			if !ok1 || !ok2 || errors.Join(start.Err, end.Err) != nil {
				return nil, fmt.Errorf("the log of %s-%d is not known: %w", topic, partition, errors.Join(start.Err, end.Err))
			}
			offset, err := target(topic, partition, start.Offset, end.Offset)
			if err != nil {
				return nil, err
			}
			if kept := min(max(offset, start.Offset), end.Offset); kept != offset {
				g.env.errorf("WARN: offset %d of %s-%d is outside of the log, %d is set", offset, topic, partition, kept)
				offset = kept
			}
			offsets[fmt.Sprintf("%s-%d", topic, partition)] = newOffset{topic, partition, offset}
		}
	}
	return offsets, nil
}

// target returns a partition's new offset, given its log start and end offsets.
type target func(topic string, partition int32, start, end int64) (int64, error)

func (g *groupsTool) target(ctx context.Context, group string, topics []string) (target, error) {
	switch {
	case g.o.has("to-earliest"):
		return func(_ string, _ int32, start, _ int64) (int64, error) { return start, nil }, nil
	case g.o.has("to-latest"):
		return func(_ string, _ int32, _, end int64) (int64, error) { return end, nil }, nil
	case g.o.has("to-offset"):
		return func(string, int32, int64, int64) (int64, error) { return *g.o.toOffset, nil }, nil
	case g.o.has("to-datetime"):
		at, err := parseDatetime(*g.o.toDatetime)
		if err != nil {
			return nil, err
		}
		return g.targetTime(ctx, at, topics)
	case g.o.has("by-duration"):
		ago, err := parseDuration(*g.o.byDuration)
		if err != nil {
			return nil, err
		}
		return g.targetTime(ctx, time.Now().Add(-ago), topics)
	}
	committed, err := g.adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	return func(topic string, partition int32, _, end int64) (int64, error) {
		o, ok := committed.Lookup(topic, partition)
		switch {
		case g.o.has("shift-by") && (!ok || o.At < 0):
			return 0, fmt.Errorf("cannot shift offset for partition %s-%d since there is no current committed offset", topic, partition)
		case g.o.has("shift-by"):
			return o.At + *g.o.shiftBy, nil
		case !ok || o.At < 0: // to-current without an offset: the end
			return end, nil
		}
		return o.At, nil
	}, nil
}

// targetTime returns the first record at or after a time, or the end.
func (g *groupsTool) targetTime(ctx context.Context, at time.Time, topics []string) (target, error) {
	found, err := listKnown(ctx, func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return g.adm.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
	}, topics...)
	if err != nil {
		return nil, err
	}
	return func(topic string, partition int32, _, end int64) (int64, error) {
		if o, ok := found.Lookup(topic, partition); ok && o.Err == nil && o.Offset >= 0 {
			return o.Offset, nil
		}
		return end, nil
	}, nil
}

// offsetsOfFile parses lines of topic,partition,offset or, with several groups, of group,topic,partition,offset.
func (g *groupsTool) offsetsOfFile(group string) (map[string]newOffset, error) {
	f, err := os.Open(*g.o.fromFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.FieldsPerRecord = -1
	rows, err := in.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", *g.o.fromFile, err)
	}
	offsets := make(map[string]newOffset)
	for i, row := range rows {
		if len(row) == 4 {
			if row[0] != group {
				continue
			}
			row = row[1:]
		}
		if len(row) != 3 {
			return nil, fmt.Errorf("%s:%d: not of the form topic,partition,offset", *g.o.fromFile, i+1)
		}
		partition, err1 := strconv.ParseInt(strings.TrimSpace(row[1]), 10, 32)
		offset, err2 := strconv.ParseInt(strings.TrimSpace(row[2]), 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, fmt.Errorf("%s:%d: partition and offset must be numbers from 0", *g.o.fromFile, i+1)
		}
		offsets[fmt.Sprintf("%s-%d", row[0], partition)] = newOffset{row[0], int32(partition), offset}
	}
	return offsets, nil
}

// parseDatetime parses YYYY-MM-DDTHH:mm:SS.sss, with a time zone or in UTC.
func parseDatetime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%q is not of the form YYYY-MM-DDTHH:mm:SS.sss", text)
}

// durationPattern has a group for each of days, hours, minutes, seconds and their fraction.
const durationPattern = `^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?$`

// parseDuration parses PnDTnHnMnS (ISO 8601).
func parseDuration(text string) (time.Duration, error) {
	m := regexp.MustCompile(durationPattern).FindStringSubmatch(strings.ToUpper(text))
	if m == nil || strings.Join(m[1:], "") == "" {
		return 0, usagef("%q is not of the form PnDTnHnMnS", text)
	}
	var total time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if n, err := strconv.ParseInt(m[i+1], 10, 32); err == nil {
			total += time.Duration(n) * unit
		}
	}
	if m[5] != "" {
		ns, _ := strconv.ParseInt((m[5] + "000000000")[:9], 10, 64)
		total += time.Duration(ns)
	}
	return total, nil
}

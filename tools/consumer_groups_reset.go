package tools

import (
	"cmp"
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
	"github.com/twmb/franz-go/pkg/kerr"
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
		found, err := g.partitionsOf(ctx, text)
		if err != nil {
			return nil, err
		}
		wanted.Merge(found)
	}
	return wanted, nil
}

// partitionsOf returns the partitions of topic:0,1, or all of a topic.
func (g *groupsTool) partitionsOf(ctx context.Context, text string) (kadm.TopicsSet, error) {
	topic, list, partly := strings.Cut(text, ":")
	set := make(kadm.TopicsSet)
	if partly {
		ids, err := parseIDs(list)
		if err != nil || len(ids) == 0 {
			return nil, usagef("%q does not list partitions", text)
		}
		set.Add(topic, ids...)
		return set, nil
	}
	found, err := g.adm.ListTopics(ctx, topic)
	if err == nil {
		err = found[topic].Err
	}
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	set.Add(topic, found[topic].Partitions.Numbers()...)
	return set, nil
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
			g.env.failf("Assignments can only be reset if the group '%s' is inactive, but the current state is %s.", name, d.State)
			continue
		}
		offsets, err := g.resetGroup(ctx, name)
		if err != nil {
			if g.o.has("execute") && len(results) > 0 { // those before it are reset
				g.printReset(names, results)
			}
			return fmt.Errorf("group %s: %w", name, err)
		}
		results[name] = offsets
	}
	g.printReset(names, results)
	return nil
}

// resetGroup returns a group's new offsets, and commits them if they are not only to be shown.
func (g *groupsTool) resetGroup(ctx context.Context, name string) (map[string]newOffset, error) {
	offsets, err := g.newOffsets(ctx, name)
	if err == nil && g.o.has("execute") {
		err = g.commit(ctx, name, offsets)
	}
	return offsets, err
}

// oneGroup reports whether the rows of CSV files lack the group, which only --group tells.
func (g *groupsTool) oneGroup() bool { return len(*g.o.groups) == 1 }

// exportCSV prints what --from-file reads.
func (g *groupsTool) exportCSV(names []string, results map[string]map[string]newOffset) {
	for _, group := range names {
		for _, name := range sortedPartitions(results[group]) {
			o := results[group][name]
			if !g.oneGroup() {
				g.env.printf("%s,", csvText(group))
			}
			g.env.printf("%s,%d,%d\n", csvText(o.topic), o.partition, o.offset)
		}
	}
	g.env.println() // as in the original
}

// csvText quotes a field as the original's library does: every long one, whatever it contains.
func csvText(text string) string {
	const longest = 24
	if len(text) <= longest && !strings.ContainsFunc(text, func(r rune) bool { return r < '-' }) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

func (g *groupsTool) printReset(names []string, results map[string]map[string]newOffset) {
	if g.o.has("export") {
		g.exportCSV(names, results)
		return
	}
	if len(names) == 0 {
		return
	}
	g.env.printf("\n%-30s %-30s %-10s %-15s\n", "GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
	for _, group := range names {
		for _, name := range sortedPartitions(results[group]) {
			o := results[group][name]
			g.env.printf("%-30s %-30s %-10d %-15d\n", group, o.topic, o.partition, o.offset)
		}
	}
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
	wanted, planned, err := g.plan(ctx, group)
	if err != nil {
		return nil, err
	}
	topics := wanted.Topics()
	if len(topics) == 0 {
		return nil, nil
	}
	logs, err := g.rangesOf(ctx, topics)
	if err != nil {
		return nil, err
	}
	if planned == nil {
		if planned, err = g.target(ctx, group, topics); err != nil {
			return nil, err
		}
	}
	offsets := make(map[string]newOffset)
	for topic, partitions := range wanted {
		for partition := range partitions {
			start, end, err := logs.of(topic, partition)
			if err != nil {
				return nil, err
			}
			offset, err := planned(topic, partition, start, end)
			if err != nil {
				return nil, err
			}
			if kept := min(max(offset, start), end); kept != offset {
				g.env.errorf("WARN: offset %d of %s-%d is outside of the log, %d is set", offset, topic, partition, kept)
				offset = kept
			}
			offsets[partitionName(topic, partition)] = newOffset{topic, partition, offset}
		}
	}
	return offsets, nil
}

// logRanges are the first and the next offsets of logs.
type logRanges struct{ starts, ends kadm.ListedOffsets }

func (g *groupsTool) rangesOf(ctx context.Context, topics []string) (r logRanges, err error) {
	if r.starts, err = g.adm.ListStartOffsets(ctx, topics...); err != nil {
		return r, err
	}
	r.ends, err = listKnown(ctx, g.adm.ListEndOffsets, topics...)
	return r, err
}

func (r logRanges) of(topic string, partition int32) (start, end int64, err error) {
	first, known := r.starts.Lookup(topic, partition)
	next, alsoKnown := r.ends.Lookup(topic, partition)
	err = cmp.Or(first.Err, next.Err)
	if err == nil && !(known && alsoKnown) {
		err = kerr.UnknownTopicOrPartition
	}
	if err != nil {
		return 0, 0, fmt.Errorf("the log of %s-%d is not known: %w", topic, partition, err)
	}
	return first.Offset, next.Offset, nil
}

// plan returns the partitions to reset, and the target in a file if there is one.
func (g *groupsTool) plan(ctx context.Context, group string) (kadm.TopicsSet, target, error) {
	if !g.o.has("from-file") {
		wanted, err := g.scope(ctx, group)
		return wanted, nil, err
	}
	offsets, err := g.offsetsOfFile(group)
	if err != nil {
		return nil, nil, err
	}
	if offsets == nil {
		g.env.failf("No reset plan for group %s found", group)
	}
	wanted := make(kadm.TopicsSet)
	for _, o := range offsets {
		wanted.Add(o.topic, o.partition)
	}
	return wanted, func(topic string, partition int32, _, _ int64) (int64, error) {
		return offsets[partitionName(topic, partition)].offset, nil
	}, nil
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
			return 0, usagef("cannot shift offset for partition %s-%d since there is no current committed offset", topic, partition)
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
		if o, ok := found.Lookup(topic, partition); ok && o.Err == nil && o.Timestamp >= 0 {
			return o.Offset, nil
		}
		g.env.printf("\nWarn: Partition %d from topic %s is empty. Falling back to latest known offset.\n", partition, topic)
		return end, nil
	}, nil
}

// offsetsOfFile parses lines of topic,partition,offset, or of group,topic,partition,offset. It returns nil if there are
// none for the group. Only the first form is ambiguous with several groups, and is refused then.
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
	var offsets map[string]newOffset
	for i, row := range rows {
		switch {
		case len(row) == 3 && !g.oneGroup():
			return nil, fmt.Errorf("%s:%d: not of the form group,topic,partition,offset", *g.o.fromFile, i+1)
		case len(row) == 4 && row[0] != group:
			continue
		case len(row) == 4:
			row = row[1:]
		}
		o, err := offsetOfRow(row)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", *g.o.fromFile, i+1, err)
		}
		if offsets == nil {
			offsets = make(map[string]newOffset)
		}
		offsets[partitionName(o.topic, o.partition)] = o
	}
	return offsets, nil
}

func offsetOfRow(row []string) (newOffset, error) {
	if len(row) != 3 {
		return newOffset{}, errors.New("not of the form topic,partition,offset")
	}
	partition, err1 := strconv.ParseInt(strings.TrimSpace(row[1]), 10, 32)
	offset, err2 := strconv.ParseInt(strings.TrimSpace(row[2]), 10, 64)
	if err1 != nil || err2 != nil || partition < 0 {
		return newOffset{}, errors.New("partition and offset must be numbers")
	}
	return newOffset{row[0], int32(partition), offset}, nil
}

// parseDatetime parses YYYY-MM-DDTHH:mm:SS.sss, with a time zone or in UTC.
func parseDatetime(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999Z07", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%q is not of the form YYYY-MM-DDTHH:mm:SS.sss", text)
}

// durationPattern has a group for the sign, for each of days, hours, minutes, seconds, and for the fraction of these.
const durationPattern = `^([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:\.(\d{1,9}))?S)?)?$`

// parseDuration parses PnDTnHnMnS (ISO 8601), where each number and the whole may be negative, as java.time.Duration
// does.
func parseDuration(text string) (time.Duration, error) {
	m := regexp.MustCompile(durationPattern).FindStringSubmatch(strings.ToUpper(text))
	if m == nil || strings.Join(m[2:], "") == "" {
		return 0, usagef("%q is not of the form PnDTnHnMnS", text)
	}
	const most = 9_000_000_000 // 285 years, which leaves room for the fraction
	var seconds int64
	for i, unit := range []int64{24 * 3600, 3600, 60, 1} {
		if m[i+2] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+2], 10, 32)
		if err != nil {
			return 0, usagef("%q: %s is too large", text, m[i+2])
		}
		seconds += n * unit
	}
	total := time.Duration(max(-most, min(seconds, most))) * time.Second
	if m[6] != "" {
		ns, _ := strconv.ParseInt((m[6] + "000000000")[:9], 10, 64)
		if strings.HasPrefix(m[5], "-") {
			ns = -ns
		}
		total += time.Duration(ns)
	}
	if m[1] == "-" {
		total = -total
	}
	return total, nil
}

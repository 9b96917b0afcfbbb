package tools

import (
	"cmp"
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// specialTimes are the names of ListOffsets' special timestamps.
var specialTimes = map[string]int64{
	"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5,
}

func getOffsets(ctx context.Context, env *Env) error {
	o := newAdminOptions("kafka-get-offsets", "print offsets of partitions as topic:partition:offset.", "command-config")
	o.String("broker-list", "", "deprecated name of --bootstrap-server, `host:port,...`")
	topic := o.String("topic", "", "a regular expression for whole names of `topics`; all if not given")
	partitions := o.String("partitions", "", "partition `ids`, separated by commas; all if not given")
	patterns := o.String("topic-partitions", "", "instead of the two: `patterns` like topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3,\n"+
		"each with an expression for topics and a partition, or a range without its end")
	at := o.String("time", "latest", "the `time`: a timestamp in ms, or -1 or latest, -2 or earliest, -3 or max-timestamp,\n"+
		"-4 or earliest-local, -5 or latest-tiered. Partitions without such an offset are left out")
	o.Bool("exclude-internal-topics", false, "exclude internal topics")
	if err := o.parse(env); err != nil {
		return err
	}
	var err error
	if *o.bootstrap, err = bootstrapOf(o.options); err != nil {
		return err
	}
	if o.has("topic-partitions") && (o.has("topic") || o.has("partitions")) {
		return usagef("--topic-partitions cannot be used with --topic or --partitions")
	}
	timestamp, err := parseTime(*at)
	if err != nil {
		return err
	}
	var filter partitionFilter
	if o.has("topic-partitions") {
		filter, err = parsePatterns(*patterns)
	} else {
		filter, err = newPartitionFilter(*topic, *partitions)
	}
	if err != nil {
		return err
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		return printOffsets(ctx, env, cl, filter, timestamp, o.has("exclude-internal-topics"))
	})
}

func parseTime(text string) (int64, error) {
	if t, ok := specialTimes[text]; ok {
		return t, nil
	}
	t, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, usagef("malformed time argument %s", text)
	}
	return t, nil
}

// partitionFilter is a list of alternatives.
type partitionFilter []partitionPattern

// partitionPattern matches the partitions from (inclusive) to (exclusive), or those in ids, of matching topics.
type partitionPattern struct {
	topic    *regexp.Regexp // nil: all
	from, to int64
	ids      []int32 // nil: from and to apply
}

func (f partitionFilter) match(topic string, partition int32) bool {
	return slices.ContainsFunc(f, func(p partitionPattern) bool {
		switch {
		case p.topic != nil && !p.topic.MatchString(topic):
			return false
		case p.ids != nil:
			return slices.Contains(p.ids, partition)
		}
		return int64(partition) >= p.from && int64(partition) < p.to
	})
}

func newPartitionFilter(topic, partitions string) (partitionFilter, error) {
	p := partitionPattern{to: math.MaxInt64}
	var err error
	if topic != "" {
		if p.topic, err = topicFilter(topic); err != nil {
			return nil, err
		}
	}
	if partitions == "" {
		return partitionFilter{p}, nil
	}
	for id := range strings.SplitSeq(partitions, ",") {
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil {
			return nil, usagef("--partitions expects a comma separated list of numeric partition ids, but received: %s", partitions)
		}
		p.ids = append(p.ids, int32(n))
	}
	return partitionFilter{p}, nil
}

func parsePatterns(list string) (partitionFilter, error) {
	var f partitionFilter
	for text := range strings.SplitSeq(list, ",") {
		p, err := parsePattern(text)
		if err != nil {
			return nil, err
		}
		f = append(f, p)
	}
	return f, nil
}

func parsePattern(text string) (p partitionPattern, err error) {
	topic, part, _ := strings.Cut(text, ":")
	p = partitionPattern{to: math.MaxInt64}
	if topic != "" {
		if p.topic, err = topicFilter(topic); err != nil {
			return p, err
		}
	}
	if part == "" {
		return p, nil
	}
	low, high, isRange := strings.Cut(part, "-")
	if low != "" {
		if p.from, err = strconv.ParseInt(low, 10, 32); err != nil {
			return p, usagef("invalid rule %q in --topic-partitions", text)
		}
	}
	switch {
	case !isRange:
		p.to = p.from + 1
	case high != "":
		if p.to, err = strconv.ParseInt(high, 10, 32); err != nil {
			return p, usagef("invalid rule %q in --topic-partitions", text)
		}
	}
	return p, nil
}

// partitionOffset is a result of ListOffsets.
type partitionOffset struct {
	topic     string
	partition int32
	offset    int64 // -1: none
	err       error
}

func (p *partitionOffset) name() string { return partitionName(p.topic, p.partition) }

func printOffsets(ctx context.Context, env *Env, cl *kgo.Client, filter partitionFilter, timestamp int64, excludeInternal bool) error {
	meta, err := fetchMetadata(ctx, cl)
	if err != nil {
		return err
	}
	wanted := make(map[string][]int32)
	for _, t := range meta.Topics {
		if excludeInternal && (t.IsInternal || internalTopic(*t.Topic)) {
			continue
		}
		for _, p := range t.Partitions {
			if filter.match(*t.Topic, p.Partition) {
				wanted[*t.Topic] = append(wanted[*t.Topic], p.Partition)
			}
		}
	}
	if len(wanted) == 0 {
		return errors.New("could not match any topic-partitions with the specified filters")
	}
	offsets, err := untilKnown(ctx, func() ([]partitionOffset, error) { return listOffsets(ctx, cl, wanted, timestamp) }, allKnown)
	if err != nil {
		return err
	}
	slices.SortFunc(offsets, func(a, b partitionOffset) int { return cmp.Compare(a.name(), b.name()) })
	for _, p := range offsets {
		switch {
		case p.err != nil:
			env.errorf("Skip getting offsets for topic-partition %s due to error: %s", p.name(), describe(p.err))
		case p.offset >= 0:
			env.printf("%s:%d:%d\n", p.topic, p.partition, p.offset)
		}
	}
	return nil
}

// listOffsets requests the offsets for a time, which may be a special one, from the leaders.
func listOffsets(ctx context.Context, cl *kgo.Client, partitions map[string][]int32, timestamp int64) ([]partitionOffset, error) {
	var found []partitionOffset
	for _, shard := range cl.RequestSharded(ctx, listOffsetsRequest(partitions, timestamp)) {
		if shard.Err != nil {
			found = append(found, unlistedOffsets(shard.Req.(*kmsg.ListOffsetsRequest), shard.Err)...)
			continue
		}
		found = append(found, listedOffsets(shard.Resp.(*kmsg.ListOffsetsResponse))...)
	}
	if len(found) == 0 {
		return nil, errors.New("no broker answered for any partition")
	}
	return found, nil
}

func listOffsetsRequest(partitions map[string][]int32, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	for topic, ids := range partitions {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, id := range ids {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = id, timestamp
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// unlistedOffsets returns the partitions of a request that failed.
func unlistedOffsets(req *kmsg.ListOffsetsRequest, err error) []partitionOffset {
	var all []partitionOffset
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			all = append(all, partitionOffset{t.Topic, p.Partition, -1, err})
		}
	}
	return all
}

func listedOffsets(resp *kmsg.ListOffsetsResponse) []partitionOffset {
	var all []partitionOffset
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			all = append(all, partitionOffset{t.Topic, p.Partition, p.Offset, answered(p.ErrorCode, nil)})
		}
	}
	return all
}

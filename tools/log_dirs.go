package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func logDirs(ctx context.Context, env *Env) error {
	o := newAdminOptions("kafka-log-dirs", "describe the brokers' log directories, as JSON.", "command-config")
	o.Bool("describe", false, "describe the directories (required)")
	topicList := o.String("topic-list", "", "only these `topics`, separated by commas")
	brokerList := o.String("broker-list", "", "only these `brokers`, separated by commas")
	if err := o.open(env, "describe"); err != nil {
		return err
	}
	wanted, err := parseIDs(*brokerList)
	if err != nil {
		return err
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		return printLogDirs(ctx, env, cl, wanted, splitList(*topicList))
	})
}

// printLogDirs queries the wanted brokers, or all of them, about all topics or the named ones.
func printLogDirs(ctx context.Context, env *Env, cl *kgo.Client, wanted []int32, named []string) error {
	meta, err := fetchMetadata(ctx, cl)
	if err != nil {
		return err
	}
	brokers, err := pickBrokers(meta, wanted)
	if err != nil {
		return err
	}
	env.println("Querying brokers for log directories information")
	described := make([]object, len(brokers))
	for i, id := range brokers {
		dirs, err := describeDirs(ctx, cl, id, named)
		if err != nil {
			return fmt.Errorf("broker %d: %w", id, err)
		}
		described[i] = object{{"broker", id}, {"logDirs", dirs}}
	}
	env.printf("Received log directory information from brokers %s\n", joinInts(brokers, ","))
	text, err := marshal(object{{"brokers", described}, {"version", 1}})
	env.println(string(text))
	return err
}

// parseIDs parses comma-separated broker ids.
func parseIDs(list string) ([]int32, error) {
	if list == "" {
		return nil, nil
	}
	var ids []int32
	for text := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil {
			return nil, usagef("%q is not a broker id", text)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// pickBrokers returns the wanted brokers, or all. A missing one is an error.
func pickBrokers(meta *kmsg.MetadataResponse, wanted []int32) ([]int32, error) {
	var all, missing []int32
	for _, b := range meta.Brokers {
		all = append(all, b.NodeID)
	}
	if len(wanted) == 0 {
		return all, nil
	}
	for _, id := range wanted {
		if !slices.Contains(all, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the given brokers do not exist from --broker-list: %s. Current existent brokers: %s", joinInts(missing, ","), joinInts(all, ","))
	}
	slices.Sort(wanted)
	return slices.Compact(wanted), nil
}

// describeDirs queries a broker for its directories, with the replicas of the named topics or of all.
func describeDirs(ctx context.Context, cl *kgo.Client, broker int32, named []string) ([]object, error) {
	req := kmsg.NewPtrDescribeLogDirsRequest() // without topics: all of them
	resp, err := cl.Broker(int(broker)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := resp.(*kmsg.DescribeLogDirsResponse)
	if err := answered(answer.ErrorCode, nil); err != nil {
		return nil, err
	}
	dirs := make([]object, len(answer.Dirs))
	for i, d := range answer.Dirs {
		var failure any
		if err := kerr.TypedErrorForCode(d.ErrorCode); err != nil {
			failure = exceptionName(err)
		}
		dirs[i] = object{{"partitions", replicaObjects(d, named)}, {"error", failure}, {"logDir", d.Dir}}
	}
	return dirs, nil
}

func replicaObjects(d kmsg.DescribeLogDirsResponseDir, named []string) []object {
	slices.SortFunc(d.Topics, func(a, b kmsg.DescribeLogDirsResponseDirTopic) int { return cmp.Compare(a.Topic, b.Topic) })
	replicas := []object{}
	for _, t := range d.Topics {
		if named != nil && !slices.Contains(named, t.Topic) {
			continue
		}
		slices.SortFunc(t.Partitions, func(a, b kmsg.DescribeLogDirsResponseDirTopicPartition) int {
			return cmp.Compare(a.Partition, b.Partition)
		})
		for _, p := range t.Partitions {
			replicas = append(replicas, object{{"partition", partitionName(t.Topic, p.Partition)}, {"size", p.Size},
				{"offsetLag", p.OffsetLag}, {"isFuture", p.IsFuture}})
		}
	}
	return replicas
}

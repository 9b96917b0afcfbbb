package tools

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestTimeoutMs is the time that brokers have for changes.
const requestTimeoutMs = 30_000

// fetchMetadata requests the given topics, or all if there are none. Topics and partitions are sorted. It creates no
// topic.
func fetchMetadata(ctx context.Context, cl *kgo.Client, names ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(resp.Topics, func(a, b kmsg.MetadataResponseTopic) int { return cmp.Compare(*a.Topic, *b.Topic) })
	for _, t := range resp.Topics {
		slices.SortFunc(t.Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int {
			return cmp.Compare(a.Partition, b.Partition)
		})
	}
	slices.SortFunc(resp.Brokers, func(a, b kmsg.MetadataResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return resp, nil
}

// partitionName returns a partition's name in output.
func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// partitionOf returns a partition's metadata, nil if there is no such partition.
func partitionOf(meta *kmsg.MetadataResponse, topic string, partition int32) *kmsg.MetadataResponseTopicPartition {
	for _, t := range meta.Topics {
		if *t.Topic != topic {
			continue
		}
		for i := range t.Partitions {
			if t.Partitions[i].Partition == partition {
				return &t.Partitions[i]
			}
		}
	}
	return nil
}

// alive reports whether a broker is in the metadata: it is registered.
func alive(meta *kmsg.MetadataResponse, id int32) bool {
	return slices.ContainsFunc(meta.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == id })
}

// topicFilter compiles an option's expression for topic names in the syntax of tools that take a list: a comma
// separates alternatives, blanks are ignored, and so are quotes around it. It must match the whole name.
func topicFilter(expr string) (*regexp.Regexp, error) {
	expr = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(expr), ",", "|"), " ", "")
	expr = strings.Trim(expr, `"'`)
	re, err := regexp.Compile("^(?:" + expr + ")$")
	if err != nil {
		return nil, fmt.Errorf("%s is an invalid regex: %w", expr, err)
	}
	return re, nil
}

// internalTopic reports whether a topic is internal to the brokers.
func internalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state"
}

// joinInts joins numbers with a separator.
func joinInts(list []int32, sep string) string {
	var b strings.Builder
	for i, n := range list {
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// describeConfigs requests the configs of resources of one type, by resource name.
func describeConfigs(ctx context.Context, cl *kgo.Client, kind kmsg.ConfigResourceType, synonyms bool, names ...string) (map[string]kmsg.DescribeConfigsResponseResource, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = synonyms
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		req.Resources = append(req.Resources, r)
	}
	found := make(map[string]kmsg.DescribeConfigsResponseResource, len(names))
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, r := range shard.Resp.(*kmsg.DescribeConfigsResponse).Resources {
			if err := answered(r.ErrorCode, r.ErrorMessage); err != nil {
				return nil, err
			}
			slices.SortFunc(r.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return cmp.Compare(a.Name, b.Name) })
			found[r.ResourceName] = r
		}
	}
	return found, nil
}

// configChange sets and deletes settings of one resource.
type configChange struct {
	kind kmsg.ConfigResourceType
	name string
	set  []setting
	del  []string
}

// alterConfigs changes settings; others stay as they are. Brokers change only their own, so such changes are sent
// separately.
func alterConfigs(ctx context.Context, cl *kgo.Client, changes ...configChange) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, c := range changes {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = c.kind, c.name
		for _, s := range c.set {
			rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			rc.Name, rc.Value = s.name, kmsg.StringPtr(s.value)
			r.Configs = append(r.Configs, rc)
		}
		for _, name := range c.del {
			rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			rc.Name, rc.Op = name, kmsg.IncrementalAlterConfigOpDelete
			r.Configs = append(r.Configs, rc)
		}
		req.Resources = append(req.Resources, r)
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return shard.Err
		}
		for _, a := range shard.Resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if err := answered(a.ErrorCode, a.ErrorMessage); err != nil {
				return err
			}
		}
	}
	return nil
}

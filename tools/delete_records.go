package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteRequest is the JSON file of kafka-delete-records.
type deleteRequest struct {
	Version    *int `json:"version"`
	Partitions []struct {
		Topic     *string `json:"topic"`
		Partition *int32  `json:"partition"`
		Offset    *int64  `json:"offset"` // -1: the high watermark
	} `json:"partitions"`
}

func deleteRecords(ctx context.Context, env *Env) error {
	o := newAdminOptions("kafka-delete-records", "delete the records of partitions below given offsets.", "command-config")
	file := o.String("offset-json-file", "", "`file` of the offsets (required), like\n"+
		`{"partitions": [{"topic": "t", "partition": 1, "offset": 1}], "version": 1}; offset -1 is the high watermark`)
	if err := o.open(env, "offset-json-file"); err != nil {
		return err
	}
	offsets, err := readDeleteRequest(*file)
	if err != nil {
		return err
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		env.println("Executing records delete operation")
		if err := env.flush(); err != nil {
			return err
		}
		deleteBelow(ctx, env, cl, offsets)
		return nil
	})
}

func readDeleteRequest(file string) (*deleteRequest, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r deleteRequest
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("the input string is not a valid JSON: %w", err)
	}
	switch {
	case r.Version != nil && *r.Version != 1:
		return nil, fmt.Errorf("not supported version field value %d", *r.Version)
	case r.Partitions == nil:
		return nil, errors.New("missing partitions field")
	}
	seen := make(map[string]bool)
	for _, p := range r.Partitions {
		if err := requireFields(jsonField{"topic", p.Topic != nil}, jsonField{"partition", p.Partition != nil}, jsonField{"offset", p.Offset != nil}); err != nil {
			return nil, err
		}
		name := partitionName(*p.Topic, *p.Partition)
		if seen[name] {
			return nil, fmt.Errorf("offset json file contains duplicate topic partitions: %s", name)
		}
		seen[name] = true
	}
	return &r, nil
}

// request returns the request to the brokers.
func (r *deleteRequest) request() *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = requestTimeoutMs
	index := make(map[string]int)
	for _, p := range r.Partitions {
		i, ok := index[*p.Topic]
		if !ok {
			i = len(req.Topics)
			index[*p.Topic] = i
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = *p.Topic
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = *p.Partition, *p.Offset
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	return req
}

// deleteBelow deletes the records below the offsets, and prints the outcome for each partition.
func deleteBelow(ctx context.Context, env *Env, cl *kgo.Client, offsets *deleteRequest) {
	shards := cl.RequestSharded(ctx, offsets.request())
	env.println("Records delete operation completed:")
	for _, shard := range shards {
		if shard.Err != nil {
			printUndeleted(env, shard)
			continue
		}
		for _, t := range shard.Resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range t.Partitions {
				printDeleted(env, t.Topic, p)
			}
		}
	}
}

func printDeleted(env *Env, topic string, p kmsg.DeleteRecordsResponseTopicPartition) {
	if err := answered(p.ErrorCode, nil); err != nil {
		env.printf("partition: %s-%d\terror: %s\n", topic, p.Partition, describe(err))
		return
	}
	env.printf("partition: %s-%d\tlow_watermark: %d\n", topic, p.Partition, p.LowWatermark)
}

// printUndeleted names the partitions of a request that no broker answered.
func printUndeleted(env *Env, shard kgo.ResponseShard) {
	for _, t := range shard.Req.(*kmsg.DeleteRecordsRequest).Topics {
		for _, p := range t.Partitions {
			env.printf("partition: %s-%d\terror: %s\n", t.Topic, p.Partition, describe(shard.Err))
		}
	}
}

package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// electionFile is the file of --path-to-json-file.
type electionFile struct {
	Partitions []struct {
		Topic     *string `json:"topic"`
		Partition *int32  `json:"partition"`
	} `json:"partitions"`
}

func leaderElection(ctx context.Context, env *Env) error {
	o := newAdminOptions("kafka-leader-election", "elect leaders of partitions: preferred replicas, or replicas that are not in sync.", "admin.config")
	kind := o.String("election-type", "", "preferred or unclean: the `type` (required)")
	topic := o.String("topic", "", "the `topic`, together with --partition")
	partition := o.Int32("partition", 0, "the `partition`, together with --topic")
	file := o.String("path-to-json-file", "", "`file` of partitions, like\n"+`{"partitions": [{"topic": "t", "partition": 1}]}`)
	o.Bool("all-topic-partitions", false, "all partitions that the election can change")
	if err := o.open(env, "election-type"); err != nil {
		return err
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = requestTimeoutMs
	switch strings.ToLower(*kind) {
	case "preferred":
	case "unclean":
		req.ElectionType = 1
	default:
		return usagef("the election type must be preferred or unclean, not %s", *kind)
	}
	if err := checkElectionScope(o.options); err != nil {
		return err
	}
	switch {
	case o.has("topic"):
		addElection(req, *topic, *partition)
	case o.has("path-to-json-file"):
		if err := readElections(req, *file); err != nil {
			return err
		}
		if len(req.Topics) == 0 {
			env.errorf("WARN the replica election data in %s is empty", *file)
			return nil
		}
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		return elect(ctx, env, cl, req, strings.ToLower(*kind))
	})
}

func checkElectionScope(o *options) error {
	if _, err := o.exactlyOne("topic", "all-topic-partitions", "path-to-json-file"); err != nil {
		return usagef("one and only one of --topic, --all-topic-partitions and --path-to-json-file must be specified")
	}
	if o.has("topic") != o.has("partition") {
		return usagef("--topic and --partition go together")
	}
	return nil
}

func addElection(req *kmsg.ElectLeadersRequest, topic string, partition int32) {
	i := slices.IndexFunc(req.Topics, func(t kmsg.ElectLeadersRequestTopic) bool { return t.Topic == topic })
	if i < 0 {
		i = len(req.Topics)
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic = topic
		req.Topics = append(req.Topics, t)
	}
	req.Topics[i].Partitions = append(req.Topics[i].Partitions, partition)
}

func readElections(req *kmsg.ElectLeadersRequest, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list electionFile
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("replica election data in %s is not valid: %w", file, err)
	}
	if list.Partitions == nil {
		return fmt.Errorf("replica election data in %s has no field partitions", file)
	}
	seen := make(map[string]bool)
	for _, p := range list.Partitions {
		if err := requireFields(jsonField{"topic", p.Topic != nil}, jsonField{"partition", p.Partition != nil}); err != nil {
			return fmt.Errorf("replica election data in %s: %w", file, err)
		}
		name := partitionName(*p.Topic, *p.Partition)
		if seen[name] {
			return fmt.Errorf("replica election data contains duplicate partitions: %s", name)
		}
		seen[name] = true
		addElection(req, *p.Topic, *p.Partition)
	}
	return nil
}

func elect(ctx context.Context, env *Env, cl *kgo.Client, req *kmsg.ElectLeadersRequest, kind string) error {
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		env.println("Not authorized to perform leader election")
	}
	if err != nil {
		return err
	}
	var elected, needless, failed []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			name := partitionName(t.Topic, p.Partition)
			err := answered(p.ErrorCode, p.ErrorMessage)
			switch {
			case err == nil:
				elected = append(elected, name)
			case errors.Is(err, kerr.ElectionNotNeeded):
				needless = append(needless, name)
			default:
				failed = append(failed, fmt.Sprintf("Error completing leader election (%s) for partition: %s: %s", strings.ToUpper(kind), name, describe(err)))
			}
		}
	}
	printElected(env, kind, elected, needless, failed)
	if len(failed) > 0 {
		return fmt.Errorf("%d replica(s) could not be elected", len(failed))
	}
	return nil
}

func printElected(env *Env, kind string, elected, needless, failed []string) {
	slices.Sort(elected)
	slices.Sort(needless)
	if len(elected) > 0 {
		env.printf("Successfully completed leader election (%s) for partitions %s\n", strings.ToUpper(kind), strings.Join(elected, ", "))
	}
	if len(needless) > 0 {
		env.printf("Valid replica already elected for partitions %s\n", strings.Join(needless, ", "))
	}
	for _, line := range failed {
		env.println(line)
	}
}

package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"barnabas/internal/uuid"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicsOptions is the command line of kafka-topics.
type topicsOptions struct {
	*adminOptions
	topic, topicID, assignment               *string
	partitions, replicationFactor, pageLimit *int32
	configs, deleteConfigs                   *[]string
}

const (
	underReplicated = "under-replicated-partitions"
	unavailable     = "unavailable-partitions"
	underMinISR     = "under-min-isr-partitions"
	atMinISR        = "at-min-isr-partitions"
	withOverrides   = "topics-with-overrides"
)

var topicReports = []string{underReplicated, unavailable, underMinISR, atMinISR}

func newTopicsOptions() *topicsOptions {
	o := &topicsOptions{adminOptions: newAdminOptions("kafka-topics", "create, list, describe, alter and delete topics.", "command-config")}
	o.Bool("create", false, "create a topic")
	o.Bool("list", false, "list topics")
	o.Bool("describe", false, "describe topics and their partitions")
	o.Bool("alter", false, "increase the number of partitions of topics")
	o.Bool("delete", false, "delete topics")
	o.topic = o.String("topic", "", "the `topic`; except with --create a regular expression that the whole name must match")
	o.topicID = o.String("topic-id", "", "with --describe: the topic's `id`")
	o.partitions = o.Int32("partitions", -1, "`number` of partitions; the brokers' default if not given with --create")
	o.replicationFactor = o.Int32("replication-factor", -1, "`number` of replicas of each partition; the brokers' default if not given")
	o.assignment = o.String("replica-assignment", "", "the brokers of each partition, `0:1,1:2,...`, instead of the two numbers")
	o.configs = o.StringArray("config", nil, "with --create: a setting of the topic, `name=value`; may be repeated")
	o.deleteConfigs = o.StringArray("delete-config", nil, "no longer supported, see kafka-configs; `name`")
	o.Bool("if-exists", false, "with --alter, --delete, --describe: a missing topic is no error")
	o.Bool("if-not-exists", false, "with --create: an existing topic is no error")
	o.Bool("exclude-internal", false, "with --list, --describe: exclude internal topics")
	o.Bool(withOverrides, false, "with --describe: only topics with settings of their own")
	o.Bool(underReplicated, false, "with --describe: only partitions with replicas that are not in sync")
	o.Bool(unavailable, false, "with --describe: only partitions whose leader is not available")
	o.Bool(underMinISR, false, "with --describe: only partitions with fewer replicas in sync than min.insync.replicas")
	o.Bool(atMinISR, false, "with --describe: only partitions with as many replicas in sync as min.insync.replicas")
	o.pageLimit = o.Int32("partition-size-limit-per-response", 2000, "accepted; responses are complete, whatever the `number` of partitions")
	return o
}

func (o *topicsOptions) check(env *Env) error {
	if err := o.parse(env); err != nil {
		return err
	}
	action, err := o.exactlyOne("list", "describe", "create", "alter", "delete")
	if err != nil {
		return err
	}
	if err := o.require("bootstrap-server"); err != nil {
		return err
	}
	if action == "describe" && o.has("if-exists") && !o.has("topic") && !o.has("topic-id") {
		return usagef("--topic or --topic-id is required to describe a topic")
	}
	if action != "list" && action != "describe" {
		if err := o.require("topic"); err != nil {
			return err
		}
	}
	if err := o.checkAlter(action); err != nil {
		return err
	}
	return o.checkCombinations(action)
}

func (o *topicsOptions) checkAlter(action string) error {
	if action != "alter" {
		return nil
	}
	if o.has("delete-config") {
		return usagef("option \"delete-config\" can't be used with option \"bootstrap-server\": kafka-configs alters the settings of topics")
	}
	if o.has("config") {
		return usagef("option \"config\" can't be used with option \"alter\": kafka-configs alters the settings of topics")
	}
	return o.require("partitions")
}

// topicOptionActions are the options that only some actions accept.
var topicOptionActions = []optionActions{
	{"config", "create"}, {"delete-config", "alter"}, {"partitions", "alter create"}, {"replication-factor", "create"},
	{"replica-assignment", "alter create"}, {"if-exists", "alter delete describe"}, {"if-not-exists", "create"},
	{"exclude-internal", "list describe"}, {withOverrides, "describe"}, {underReplicated, "describe"},
	{unavailable, "describe"}, {underMinISR, "describe"}, {atMinISR, "describe"}, {"topic-id", "describe"},
}

func (o *topicsOptions) checkCombinations(action string) error {
	if err := o.checkActions(action, topicOptionActions); err != nil {
		return err
	}
	if action == "create" {
		if err := o.exclude("replica-assignment", "partitions", "replication-factor"); err != nil {
			return err
		}
	}
	for _, report := range topicReports {
		if err := o.exclude(report, withOverrides); err != nil {
			return err
		}
	}
	return nil
}

func topics(ctx context.Context, env *Env) error {
	o := newTopicsOptions()
	if err := o.check(env); err != nil {
		return err
	}
	err := o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error { return (&topicsTool{o: o, env: env, cl: cl}).run(ctx) })
	if err == nil {
		return nil
	}
	env.printf("Error while executing topic command : %s\n", message(err))
	env.errorf("ERROR %s", describe(err))
	return exitCode(1)
}

type topicsTool struct {
	o   *topicsOptions
	env *Env
	cl  *kgo.Client
}

func (t *topicsTool) run(ctx context.Context) error {
	switch {
	case t.o.has("create"):
		return t.create(ctx)
	case t.o.has("alter"):
		return t.alter(ctx)
	case t.o.has("list"):
		return t.list(ctx)
	case t.o.has("delete"):
		return t.delete(ctx)
	}
	return t.describe(ctx)
}

// parseAssignment parses --replica-assignment: a list of brokers for each partition.
func parseAssignment(text string) ([][]int32, error) {
	var all [][]int32
	for i, list := range strings.Split(text, ",") {
		var replicas []int32
		for id := range strings.SplitSeq(list, ":") {
			n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%q in the replica assignment is not a broker id", id)
			}
			if slices.Contains(replicas, int32(n)) {
				return nil, fmt.Errorf("partition replica lists may not contain duplicate entries: %d", n)
			}
			replicas = append(replicas, int32(n))
		}
		if i > 0 && len(replicas) != len(all[0]) {
			return nil, fmt.Errorf("partition %d has different replication factor: [%s]", i, joinInts(replicas, ", "))
		}
		all = append(all, replicas)
	}
	return all, nil
}

// newTopic returns the topic requested by --create.
func (t *topicsTool) newTopic() (kmsg.CreateTopicsRequestTopic, error) {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = *t.o.topic, -1, -1
	for _, kv := range *t.o.configs {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || strings.TrimSpace(value) == "" {
			return rt, fmt.Errorf("invalid topic config %q: it must be name=value", kv)
		}
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = strings.TrimSpace(name), kmsg.StringPtr(strings.TrimSpace(value))
		rt.Configs = append(rt.Configs, c)
	}
	if t.o.has("partitions") {
		if rt.NumPartitions = *t.o.partitions; rt.NumPartitions < 1 {
			return rt, errors.New("the partitions must be greater than 0")
		}
	}
	if t.o.has("replication-factor") {
		n := *t.o.replicationFactor
		if n < 1 || n > math.MaxInt16 {
			return rt, fmt.Errorf("the replication factor must be between 1 and %d inclusive", math.MaxInt16)
		}
		rt.ReplicationFactor = int16(n)
	}
	if !t.o.has("replica-assignment") {
		return rt, nil
	}
	assignment, err := parseAssignment(*t.o.assignment)
	if err != nil {
		return rt, err
	}
	for i, replicas := range assignment {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), replicas
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	return rt, nil
}

func (t *topicsTool) create(ctx context.Context) error {
	topic, err := t.newTopic()
	if err != nil {
		return err
	}
	if strings.ContainsAny(topic.Topic, "._") {
		t.env.println("WARNING: '.' and '_' in names of topics are one and the same in names of metrics and could collide. It is best to use only one of them.")
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = requestTimeoutMs
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return errors.New("the broker did not answer for the topic")
	}
	err = answered(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
	if errors.Is(err, kerr.TopicAlreadyExists) && t.o.has("if-not-exists") {
		return nil
	}
	if err != nil {
		return err
	}
	t.env.printf("Created topic %s.\n", topic.Topic)
	return nil
}

// matching returns the topics selected by the options. If mustExist is true, it is an error if a named topic does not
// exist.
func (t *topicsTool) matching(ctx context.Context, mustExist bool) ([]kmsg.MetadataResponseTopic, []kmsg.MetadataResponseBroker, error) {
	resp, err := fetchMetadata(ctx, t.cl)
	if err != nil {
		return nil, nil, err
	}
	keep := func(kmsg.MetadataResponseTopic) bool { return true }
	switch {
	case t.o.has("topic-id") && *t.o.topicID != zeroTopicID:
		id, err := uuid.Parse(*t.o.topicID)
		if err != nil {
			return nil, nil, fmt.Errorf("--topic-id: %w", err)
		}
		keep = func(m kmsg.MetadataResponseTopic) bool { return m.TopicID == id }
	case t.o.has("topic"):
		filter, err := topicFilter(*t.o.topic)
		if err != nil {
			return nil, nil, err
		}
		keep = func(m kmsg.MetadataResponseTopic) bool { return filter.MatchString(*m.Topic) }
	default:
		mustExist = false
	}
	var found []kmsg.MetadataResponseTopic
	for _, m := range resp.Topics {
		if keep(m) && !(t.o.has("exclude-internal") && (m.IsInternal || internalTopic(*m.Topic))) {
			found = append(found, m)
		}
	}
	if len(found) == 0 && mustExist {
		if t.o.has("topic-id") {
			return nil, nil, fmt.Errorf("topic id '%s' does not exist as expected", *t.o.topicID)
		}
		return nil, nil, fmt.Errorf("topic '%s' does not exist as expected", *t.o.topic)
	}
	return found, resp.Brokers, nil
}

func (t *topicsTool) list(ctx context.Context) error {
	found, _, err := t.matching(ctx, false)
	if err != nil {
		return err
	}
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = *m.Topic
	}
	t.env.println(strings.Join(names, "\n"))
	return nil
}

func (t *topicsTool) delete(ctx context.Context) error {
	found, _, err := t.matching(ctx, !t.o.has("if-exists"))
	if err != nil || len(found) == 0 {
		return err
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = requestTimeoutMs
	for _, m := range found {
		req.TopicNames = append(req.TopicNames, *m.Topic)
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = m.Topic
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Topics {
		if err := answered(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func (t *topicsTool) alter(ctx context.Context) error {
	found, _, err := t.matching(ctx, !t.o.has("if-exists"))
	if err != nil || len(found) == 0 {
		return err
	}
	var assignment [][]int32
	if t.o.has("replica-assignment") {
		if assignment, err = parseAssignment(*t.o.assignment); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = requestTimeoutMs
	for _, m := range found {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = *m.Topic, *t.o.partitions
		for _, replicas := range assignment[min(len(m.Partitions), len(assignment)):] {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = replicas
			rt.Assignment = append(rt.Assignment, a)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return err
	}
	for _, r := range resp.Topics {
		if err := answered(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// zeroTopicID is the id that stands for none.
const zeroTopicID = "AAAAAAAAAAAAAAAAAAAAAA"

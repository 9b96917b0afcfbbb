package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"barnabas/internal/placement"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reassignOptions is the command line of kafka-reassign-partitions.
type reassignOptions struct {
	*adminOptions
	plan, topics, brokers  *string
	throttle, dirsThrottle *int64
}

func newReassignOptions() *reassignOptions {
	o := &reassignOptions{adminOptions: newAdminOptions("kafka-reassign-partitions",
		"move partitions between brokers and between their log directories.", "command-config")}
	o.Bool("generate", false, "propose a plan without changing anything")
	o.Bool("execute", false, "execute a plan")
	o.Bool("verify", false, "report the progress of a plan; remove throttles when it is complete")
	o.Bool("cancel", false, "cancel the moves of a plan that are in progress")
	o.Bool("list", false, "list the moves in progress")
	o.plan = o.String("reassignment-json-file", "", "`file` with the plan, like\n"+
		`{"version": 1, "partitions": [{"topic": "t", "partition": 1, "replicas": [1,2,3], "log_dirs": ["dir1","dir2","any"]}]}`)
	o.topics = o.String("topics-to-move-json-file", "", "with --generate: `file` of topics, like\n"+`{"version": 1, "topics": [{"topic": "foo"}]}`)
	o.brokers = o.String("broker-list", "", "with --generate: the `brokers` to use, 0,1,2")
	o.Bool("disable-rack-aware", false, "with --generate: do not spread replicas over racks")
	o.throttle = o.Int64("throttle", -1, "maximum `bytes` per second between brokers")
	o.dirsThrottle = o.Int64("replica-alter-log-dirs-throttle", -1, "maximum `bytes` per second between directories of a broker")
	o.Bool("additional", false, "with --execute: even if other moves are in progress")
	o.Bool("preserve-throttles", false, "with --verify, --cancel: leave throttles as they are")
	o.Int64("timeout", 10_000, "with --execute and log directories: `ms` to wait until the replicas exist")
	return o
}

func (o *reassignOptions) check(env *Env) error {
	if err := o.parse(env); err != nil {
		return err
	}
	action, err := o.exactlyOne("generate", "execute", "verify", "cancel", "list")
	if err != nil {
		return err
	}
	needed := []string{"bootstrap-server"}
	switch action {
	case "generate":
		needed = append(needed, "topics-to-move-json-file", "broker-list")
	case "execute", "verify", "cancel":
		needed = append(needed, "reassignment-json-file")
	}
	if err := o.require(needed...); err != nil {
		return err
	}
	return o.checkActions(action, reassignOptionActions)
}

// reassignOptionActions are the options that only some actions accept.
var reassignOptionActions = []optionActions{
	{"topics-to-move-json-file", "generate"}, {"broker-list", "generate"}, {"disable-rack-aware", "generate"},
	{"reassignment-json-file", "execute verify cancel"}, {"throttle", "execute"}, {"replica-alter-log-dirs-throttle", "execute"},
	{"additional", "execute"}, {"preserve-throttles", "verify cancel"}, {"timeout", "execute cancel"},
}

// anyDir is a log directory chosen by the broker.
const anyDir = "any"

// move is one partition of a plan.
type move struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Replicas  []int32  `json:"replicas"`
	LogDirs   []string `json:"log_dirs,omitempty"`
}

func (m *move) name() string { return partitionName(m.Topic, m.Partition) }

// plan is the content of --reassignment-json-file.
type plan struct {
	Version    int    `json:"version"`
	Partitions []move `json:"partitions"`
}

func readPlan(file string) (*plan, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var raw struct {
		Version    *int `json:"version"`
		Partitions []struct {
			Topic     *string  `json:"topic"`
			Partition *int32   `json:"partition"`
			Replicas  *[]int32 `json:"replicas"`
			LogDirs   []string `json:"log_dirs"`
		} `json:"partitions"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%s is not a plan: %w", file, err)
	}
	if raw.Version != nil && *raw.Version != 1 {
		return nil, fmt.Errorf("not supported version field value %d", *raw.Version)
	}
	p := &plan{Version: 1}
	for _, m := range raw.Partitions {
		if err := requireFields(jsonField{"topic", m.Topic != nil}, jsonField{"partition", m.Partition != nil}, jsonField{"replicas", m.Replicas != nil}); err != nil {
			return nil, err
		}
		if len(m.LogDirs) > 0 && len(m.LogDirs) != len(*m.Replicas) {
			return nil, fmt.Errorf("%s has %d log dirs for %d replicas", partitionName(*m.Topic, *m.Partition), len(m.LogDirs), len(*m.Replicas))
		}
		p.Partitions = append(p.Partitions, move{*m.Topic, *m.Partition, *m.Replicas, m.LogDirs})
	}
	slices.SortStableFunc(p.Partitions, func(a, b move) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return p, nil
}

// check checks a plan that is to be executed.
func (p *plan) check() error {
	if len(p.Partitions) == 0 {
		return errors.New("partition reassignment list cannot be empty")
	}
	seen := make(map[string]bool)
	for _, m := range p.Partitions {
		switch {
		case seen[m.name()]:
			return fmt.Errorf("partition reassignment contains duplicate topic partitions: %s", m.name())
		case len(m.Replicas) == 0:
			return fmt.Errorf("partition replica list cannot be empty: %s", m.name())
		}
		seen[m.name()] = true
		for i, id := range m.Replicas {
			if slices.Contains(m.Replicas[:i], id) {
				return fmt.Errorf("partition replica lists may not contain duplicate entries: %s contains multiple entries for %d", m.name(), id)
			}
		}
	}
	return nil
}

// names lists the partitions.
func (p *plan) names() string {
	list := make([]string, len(p.Partitions))
	for i := range p.Partitions {
		list[i] = p.Partitions[i].name()
	}
	return strings.Join(list, ",")
}

// topicNames returns the topics, each once.
func (p *plan) topicNames() []string {
	var list []string
	for _, m := range p.Partitions {
		list = append(list, m.Topic)
	}
	return slices.Compact(list)
}

// text returns the plan as JSON, with explicit directories.
func (p *plan) text() string {
	full := plan{Version: 1, Partitions: make([]move, len(p.Partitions))}
	for i, m := range p.Partitions {
		for len(m.LogDirs) < len(m.Replicas) {
			m.LogDirs = append(m.LogDirs, anyDir)
		}
		full.Partitions[i] = m
	}
	b, _ := marshal(full) // strings and numbers: it cannot fail
	return string(b)
}

func reassignPartitions(ctx context.Context, env *Env) error {
	o := newReassignOptions()
	if err := o.check(env); err != nil {
		return err
	}
	err := o.reassign(ctx, env)
	switch {
	case err == nil || errors.As(err, new(*permanentError)):
		return err
	case errors.As(err, new(terseError)):
		env.println(err)
	default:
		env.printf("Error: %s\n", describe(err))
	}
	return exitCode(1)
}

// terseError is printed without a prefix, as by the original.
type terseError string

func (e terseError) Error() string { return string(e) }

func (o *reassignOptions) reassign(ctx context.Context, env *Env) error {
	wanted := &plan{Version: 1}
	if *o.plan != "" {
		var err error
		if wanted, err = readPlan(*o.plan); err != nil {
			return err
		}
	}
	if o.has("execute") {
		if err := wanted.check(); err != nil {
			return err
		}
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		r := &reassigner{o: o, env: env, cl: cl, plan: wanted}
		var err error
		if r.meta, err = fetchMetadata(ctx, cl); err != nil {
			return err
		}
		return r.run(ctx)
	})
}

// reassigner executes a plan.
type reassigner struct {
	o    *reassignOptions
	env  *Env
	cl   *kgo.Client
	plan *plan
	meta *kmsg.MetadataResponse
}

func (r *reassigner) run(ctx context.Context) error {
	switch {
	case r.o.has("generate"):
		return r.generate()
	case r.o.has("execute"):
		return r.execute(ctx)
	case r.o.has("verify"):
		return r.verify(ctx)
	case r.o.has("cancel"):
		return r.cancel(ctx)
	}
	return r.list(ctx)
}

// replicas returns a partition's current replicas, nil if there is no such partition.
func (r *reassigner) replicas(topic string, partition int32) []int32 {
	if p := partitionOf(r.meta, topic, partition); p != nil {
		return p.Replicas
	}
	return nil
}

// current returns the current state of the plan's partitions, all of which must exist.
func (r *reassigner) current() (*plan, error) {
	now := &plan{Version: 1}
	for _, m := range r.plan.Partitions {
		replicas := r.replicas(m.Topic, m.Partition)
		if replicas == nil {
			return nil, &brokerError{kerr.UnknownTopicOrPartition, "there is no partition " + m.name()}
		}
		now.Partitions = append(now.Partitions, move{Topic: m.Topic, Partition: m.Partition, Replicas: replicas})
	}
	return now, nil
}

func (r *reassigner) generate() error {
	brokers, err := parseIDs(*r.o.brokers)
	if err != nil {
		return err
	}
	for i, id := range brokers {
		if slices.Contains(brokers[:i], id) {
			return fmt.Errorf("broker list contains duplicate entries: %d", id)
		}
	}
	names, err := readTopicsToMove(*r.o.topics)
	if err != nil {
		return err
	}
	racks, err := r.racksOf(brokers)
	if err != nil {
		return err
	}
	before, after := &plan{Version: 1}, &plan{Version: 1}
	for _, name := range names {
		i := slices.IndexFunc(r.meta.Topics, func(t kmsg.MetadataResponseTopic) bool { return *t.Topic == name })
		if i < 0 || len(r.meta.Topics[i].Partitions) == 0 {
			return &brokerError{kerr.UnknownTopicOrPartition, fmt.Sprintf("topic %s not found", name)}
		}
		partitions := r.meta.Topics[i].Partitions
		factor := len(partitions[0].Replicas)
		if factor > len(racks) {
			return &brokerError{kerr.InvalidReplicationFactor, fmt.Sprintf("replication factor: %d larger than available brokers: %d", factor, len(racks))}
		}
		spread, err := placement.Assign(racks, len(partitions), factor, placement.Random(len(racks)))
		if err != nil {
			return err
		}
		for _, p := range partitions {
			before.Partitions = append(before.Partitions, move{Topic: name, Partition: p.Partition, Replicas: p.Replicas})
			after.Partitions = append(after.Partitions, move{Topic: name, Partition: p.Partition, Replicas: spread[p.Partition]})
		}
	}
	r.env.printf("Current partition replica assignment\n%s\n\nProposed partition reassignment configuration\n%s\n", before.text(), after.text())
	return nil
}

func readTopicsToMove(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list := struct {
		Version int `json:"version"`
		Topics  []struct {
			Topic string `json:"topic"`
		} `json:"topics"`
	}{Version: 1}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s is not a list of topics: %w", file, err)
	}
	if list.Version != 1 {
		return nil, fmt.Errorf("not supported version field value %d", list.Version)
	}
	var names []string
	for _, t := range list.Topics {
		if slices.Contains(names, t.Topic) {
			return nil, fmt.Errorf("list of topics to reassign contains duplicate entries: %s", t.Topic)
		}
		names = append(names, t.Topic)
	}
	slices.Sort(names)
	return names, nil
}

// racksOf returns those of the brokers that are alive, with their racks unless these are to be ignored.
func (r *reassigner) racksOf(brokers []int32) ([]placement.Broker, error) {
	var found []placement.Broker
	without := 0
	for _, b := range r.meta.Brokers {
		if !slices.Contains(brokers, b.NodeID) {
			continue
		}
		rb := placement.Broker{ID: b.NodeID}
		switch {
		case r.o.has("disable-rack-aware"):
		case b.Rack == nil:
			without++
		default:
			rb.Rack = *b.Rack
		}
		found = append(found, rb)
	}
	if without > 0 && without < len(found) {
		return nil, errors.New("not all brokers have rack information: add --disable-rack-aware to ignore racks")
	}
	if len(found) == 0 {
		return nil, errors.New("no broker is alive")
	}
	return found, nil
}

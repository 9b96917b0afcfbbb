package tools

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsResetOptions is the command line of kafka-streams-application-reset. The scenarios have the names of those of
// kafka-consumer-groups, which implements them.
type streamsResetOptions struct {
	*groupsOptions
	app, bootstrapServers                         *string
	inputTopics, intermediateTopics, internalOnes *string
}

// streamsScenarios are the options that say where to reset the offsets of input topics; the first one is the default.
var streamsScenarios = []string{"to-earliest", "to-latest", "to-offset", "to-datetime", "by-duration", "from-file", "shift-by"}

func newStreamsResetOptions() *streamsResetOptions {
	o := &streamsResetOptions{groupsOptions: &groupsOptions{adminOptions: newAdminOptions("kafka-streams-application-reset",
		"reset a Kafka Streams application: its offsets, and its internal topics, which are deleted.\n"+
			"Its instances must be stopped, and their local state cleaned up. See what would happen with --dry-run first.", "config-file")}}
	o.app = o.String("application-id", "", "the application's `id` (required)")
	o.bootstrapServers = o.String("bootstrap-servers", "", "deprecated name of --bootstrap-server, `host:port,...`")
	o.inputTopics = o.String("input-topics", "", "the `topics` that it reads, separated by commas: they go to the start or to where one of the options below says")
	o.intermediateTopics = o.String("intermediate-topics", "", "the `topics` that it writes and reads, separated by commas: they go to the end")
	o.internalOnes = o.String("internal-topics", "", "delete only these of its internal `topics`, separated by commas")
	o.Bool("to-earliest", false, "to the first offset")
	o.Bool("to-latest", false, "to the end")
	o.toOffset = o.Int64("to-offset", 0, "to an `offset`")
	o.shiftBy = o.Int64("shift-by", 0, "by a `number` of records, forward or, below 0, back")
	o.toDatetime = o.String("to-datetime", "", "to a `time`, YYYY-MM-DDTHH:mm:SS.sss")
	o.byDuration = o.String("by-duration", "", "to a `duration` ago, PnDTnHnMnS")
	o.fromFile = o.String("from-file", "", "to what a CSV `file` says")
	o.Bool("force", false, "remove members that are left in the group")
	o.Bool("dry-run", false, "only show")
	return o
}

func streamsReset(ctx context.Context, env *Env) error {
	o := newStreamsResetOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.require("application-id"); err != nil {
		return err
	}
	for i, s := range streamsScenarios {
		if err := o.exclude(s, streamsScenarios[i+1:]...); err != nil {
			return err
		}
	}
	switch {
	case o.has("bootstrap-server"):
	case o.has("bootstrap-servers"):
		*o.bootstrap = *o.bootstrapServers
	default:
		*o.bootstrap = "localhost:9092"
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		adm := kadm.NewClient(cl)
		t := &streamsResetTool{o: o, env: env, cl: cl, adm: adm, groups: &groupsTool{o: o.groupsOptions, env: env, adm: adm}}
		return t.run(ctx)
	})
}

// streamsResetTool runs kafka-streams-application-reset.
type streamsResetTool struct {
	o        *streamsResetOptions
	env      *Env
	cl       *kgo.Client
	adm      *kadm.Client
	groups   *groupsTool
	existing kadm.TopicDetails
}

func (t *streamsResetTool) run(ctx context.Context) error {
	if err := awaitCoordinatorOf(ctx, t.cl, *t.o.app); err != nil {
		return err
	}
	if err := t.removeMembers(ctx); err != nil {
		return err
	}
	var err error
	if t.existing, err = t.adm.ListTopics(ctx); err != nil {
		return err
	}
	if t.o.has("dry-run") {
		t.env.println("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
	}
	allThere, err := t.resetOffsets(ctx)
	if err != nil {
		return err
	}
	if err := t.deleteInternal(ctx); err != nil {
		return err
	}
	if !allThere {
		return exitCode(1)
	}
	return nil
}

// removeMembers ends the run if the group has members, unless they are to be removed.
func (t *streamsResetTool) removeMembers(ctx context.Context) error {
	described, err := t.adm.DescribeGroups(ctx, *t.o.app)
	if err != nil {
		return err
	}
	members := described[*t.o.app].Members
	if len(members) == 0 {
		return nil
	}
	if !t.o.has("force") {
		return fmt.Errorf("consumer group '%s' is still active and has %d members; stop all instances of the application, "+
			"or remove members with --force", *t.o.app, len(members))
	}
	t.env.printf("Force deleting all active members in the group: %s\n", *t.o.app)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = *t.o.app
	for _, m := range members {
		leaving := kmsg.NewLeaveGroupRequestMember()
		leaving.MemberID, leaving.InstanceID = m.MemberID, m.InstanceID
		req.Members = append(req.Members, leaving)
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	for _, m := range resp.Members {
		if err := answered(m.ErrorCode, nil); err != nil {
			return fmt.Errorf("member %s could not be removed: %w", m.MemberID, err)
		}
	}
	return nil
}

// existingOf removes missing topics from names, and reports them.
func (t *streamsResetTool) existingOf(names []string, what, format string) []string {
	missing := slices.DeleteFunc(slices.Clone(names), t.existing.Has)
	if len(missing) == 0 {
		return names
	}
	t.env.printf("Following %s topics are not found, skipping them\n", what)
	for _, name := range missing {
		t.env.printf(format, name)
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !t.existing.Has(n) })
}

// resetOffsets returns whether all topics named by the options exist.
func (t *streamsResetTool) resetOffsets(ctx context.Context) (allThere bool, err error) {
	inputs, intermediates := splitList(*t.o.inputTopics), splitList(*t.o.intermediateTopics)
	if len(inputs)+len(intermediates) == 0 {
		t.env.println("No input or intermediate topics specified. Skipping seek.")
		return true, nil
	}
	if len(inputs) > 0 {
		t.env.printf("Reset-offsets for input topics [%s]\n", strings.Join(inputs, ", "))
	}
	if len(intermediates) > 0 {
		t.env.printf("Seek-to-end for intermediate topics [%s]\n", strings.Join(intermediates, ", "))
	}
	asked := len(inputs) + len(intermediates)
	inputs = t.existingOf(inputs, "input", "Topic: %s\n")
	intermediates = t.existingOf(intermediates, "intermediate", "Topic:%s\n")
	allThere = len(inputs)+len(intermediates) == asked
	if len(inputs)+len(intermediates) == 0 {
		return allThere, nil
	}
	offsets, err := t.inputOffsets(ctx, inputs)
	if err != nil {
		return false, err
	}
	if err := t.addEnds(ctx, intermediates, offsets); err != nil {
		return false, err
	}
	if !t.o.has("dry-run") {
		if err := t.groups.commit(ctx, *t.o.app, offsets); err != nil {
			return false, err
		}
	}
	t.env.println("Done.")
	return allThere, nil
}

// inputOffsets returns the new offsets of input topics.
func (t *streamsResetTool) inputOffsets(ctx context.Context, inputs []string) (map[string]newOffset, error) {
	if len(inputs) == 0 {
		return map[string]newOffset{}, nil
	}
	if !slices.ContainsFunc(streamsScenarios, t.o.has) {
		t.o.given[streamsScenarios[0]]++
	}
	t.o.topics = &inputs
	offsets, err := t.groups.newOffsets(ctx, *t.o.app)
	if err != nil {
		return nil, err
	}
	t.env.printf("Following input topics offsets will be reset to (for consumer group %s)\n", *t.o.app)
	for _, name := range sortedPartitions(offsets) {
		o := offsets[name]
		if !slices.Contains(inputs, o.topic) { // a file may name others
			delete(offsets, name)
			continue
		}
		t.env.printf("Topic: %s Partition: %d Offset: %d\n", o.topic, o.partition, o.offset)
	}
	return offsets, nil
}

// addEnds adds the end offsets of intermediate topics to offsets.
func (t *streamsResetTool) addEnds(ctx context.Context, topics []string, offsets map[string]newOffset) error {
	if len(topics) == 0 {
		return nil
	}
	t.env.printf("Following intermediate topics offsets will be reset to end (for consumer group %s)\n", *t.o.app)
	for _, topic := range topics {
		for range t.existing[topic].Partitions {
			t.env.printf("Topic: %s\n", topic) // once per partition, as in the original
		}
	}
	ends, err := listKnown(ctx, t.adm.ListEndOffsets, topics...)
	if err == nil {
		err = ends.Error()
	}
	ends.Each(func(o kadm.ListedOffset) {
		offsets[partitionName(o.Topic, o.Partition)] = newOffset{o.Topic, o.Partition, o.Offset}
	})
	return err
}

// streamsInternal matches the names of topics that Kafka Streams creates for itself.
var streamsInternal = regexp.MustCompile(`-changelog$|-repartition$|-subscription-registration-topic$|-subscription-response-topic$` +
	`|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic$`)

// deleteInternal deletes the topics that the application has created for itself.
func (t *streamsResetTool) deleteInternal(ctx context.Context) error {
	users := slices.Concat(splitList(*t.o.inputTopics), splitList(*t.o.intermediateTopics))
	var inferred []string
	for _, name := range t.existing.Names() {
		if !slices.Contains(users, name) && strings.HasPrefix(name, *t.o.app+"-") && streamsInternal.MatchString(name) {
			inferred = append(inferred, name)
		}
	}
	doomed, what := inferred, "inferred"
	if given := splitList(*t.o.internalOnes); len(given) > 0 {
		doomed, what = given, "specified"
		if i := slices.IndexFunc(given, func(n string) bool { return !slices.Contains(inferred, n) }); i >= 0 {
			return fmt.Errorf("--internal-topics names %s, which is not an internal topic of the application; a dry run without the option lists them", given[i])
		}
	}
	t.env.printf("Deleting %s internal topics [%s]\n", what, strings.Join(doomed, ", "))
	if !t.o.has("dry-run") && len(doomed) > 0 {
		deleted, err := t.adm.DeleteTopics(ctx, doomed...)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			return err
		}
	}
	t.env.println("Done.")
	return nil
}

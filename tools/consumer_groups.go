package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupsOptions is the command line of kafka-consumer-groups.
type groupsOptions struct {
	*adminOptions
	groups, topics         *[]string
	state, kind            *string
	toDatetime, byDuration *string
	toOffset, shiftBy      *int64
	timeoutMs              *int64
	fromFile               *string
}

// resetScenarios are the options that say where to reset offsets to.
var resetScenarios = []string{"to-offset", "to-current", "to-datetime", "from-file", "by-duration", "to-earliest", "to-latest", "shift-by"}

func newGroupsOptions() *groupsOptions {
	o := &groupsOptions{adminOptions: newAdminOptions("kafka-consumer-groups", "list, describe, reset and delete consumer groups.", "command-config")}
	o.Bool("list", false, "list groups")
	o.Bool("describe", false, "describe groups")
	o.Bool("delete", false, "delete groups without members")
	o.Bool("reset-offsets", false, "change the offsets of groups without members")
	o.Bool("delete-offsets", false, "delete offsets of a group")
	o.groups = o.StringArray("group", nil, "the `group`; may be repeated")
	o.Bool("all-groups", false, "all groups")
	o.topics = o.StringArray("topic", nil, "the `topic`, or some of its partitions as topic:0,1,2; may be repeated")
	o.Bool("all-topics", false, "all topics for which the group has offsets")
	o.Bool("offsets", false, "with --describe: offsets and lag, the default")
	o.Bool("members", false, "with --describe: members")
	o.Bool("verbose", false, "with --describe --members: also assignments")
	o.state = o.String("state", "", "with --describe: the state; with --list: states, or only groups in these `states`")
	o.valueOptional("state", "")
	o.kind = o.String("type", "", "with --list: types, or only groups of these `types`")
	o.valueOptional("type", "")
	o.Bool("dry-run", false, "with --reset-offsets: only show, the default")
	o.Bool("execute", false, "with --reset-offsets: do it")
	o.Bool("export", false, "with --reset-offsets: print CSV")
	o.Bool("to-earliest", false, "to the first offset")
	o.Bool("to-latest", false, "to the end")
	o.Bool("to-current", false, "to the current offset")
	o.toOffset = o.Int64("to-offset", 0, "to an `offset`")
	o.shiftBy = o.Int64("shift-by", 0, "by a `number` of records, forward or, below 0, back")
	o.toDatetime = o.String("to-datetime", "", "to a `time`, YYYY-MM-DDTHH:mm:SS.sss")
	o.byDuration = o.String("by-duration", "", "to a `duration` ago, PnDTnHnMnS")
	o.fromFile = o.String("from-file", "", "to what a CSV `file` says")
	o.timeoutMs = o.Int64("timeout", 5000, "how long to wait for the answer to a request, in `ms`")
	return o
}

func (o *groupsOptions) check(env *Env) error {
	if err := o.parse(env); err != nil {
		return err
	}
	action, err := o.exactlyOne("list", "describe", "delete", "reset-offsets", "delete-offsets")
	if err != nil {
		return err
	}
	if err := o.require("bootstrap-server"); err != nil {
		return err
	}
	if err := o.checkCombinations(action); err != nil {
		return err
	}
	switch action {
	case "list":
		return o.checkFilters()
	case "delete-offsets":
		return o.require("group", "topic")
	}
	if o.has("group") == o.has("all-groups") {
		return usagef("option %q takes one of these options: group, all-groups", action)
	}
	if action == "reset-offsets" {
		return o.checkReset()
	}
	return nil
}

// groupOptionActions are the options that only some actions accept. The options of --reset-offsets are ignored elsewhere,
// as in the original.
var groupOptionActions = []optionActions{
	{"members", "describe"}, {"offsets", "describe"}, {"verbose", "describe"}, {"state", "describe list"}, {"type", "list"},
	{"group", "describe delete reset-offsets delete-offsets"}, {"topic", "reset-offsets delete-offsets"},
}

func (o *groupsOptions) checkCombinations(action string) error {
	if err := o.checkActions(action, groupOptionActions); err != nil || action != "describe" {
		return err
	}
	if o.has("state") && *o.state != "" {
		return usagef("option \"describe\" does not take a value for \"state\"")
	}
	for _, view := range []string{"members", "offsets", "state"} {
		if err := o.exclude(view, "members", "offsets", "state"); err != nil {
			return err
		}
	}
	return nil
}

// checkFilters checks the states and types of --list. A misspelled one would silently match no group.
func (o *groupsOptions) checkFilters() error {
	for _, f := range []struct {
		option, value string
		known         []string
	}{
		{"state", *o.state, []string{"PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling"}},
		{"type", *o.kind, []string{"Consumer", "Classic"}},
	} {
		if f.value == "" {
			continue
		}
		for word := range strings.SplitSeq(f.value, ",") {
			if !slices.ContainsFunc(f.known, func(k string) bool { return strings.EqualFold(k, strings.TrimSpace(word)) }) {
				return usagef("invalid %s list '%s': valid ones are %s", f.option, f.value, strings.Join(f.known, ", "))
			}
		}
	}
	return nil
}

func (o *groupsOptions) checkReset() error {
	if o.has("dry-run") && o.has("execute") {
		return usagef("option \"reset-offsets\" only accepts one of \"execute\" and \"dry-run\"")
	}
	given := slices.DeleteFunc(slices.Clone(resetScenarios), func(s string) bool { return !o.has(s) })
	if len(given) != 1 {
		return usagef("option \"reset-offsets\" requires one of the following scenarios: %s", strings.Join(resetScenarios, ", "))
	}
	if !o.has("from-file") && !o.has("topic") && !o.has("all-topics") {
		return usagef("one of \"topic\" and \"all-topics\" says what to reset")
	}
	return nil
}

func consumerGroups(ctx context.Context, env *Env) error {
	o := newGroupsOptions()
	if err := o.check(env); err != nil {
		return err
	}
	o.requestTimeout = duration(*o.timeoutMs, time.Millisecond)
	err := o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		g := &groupsTool{o: o, env: env, cl: cl, adm: kadm.NewClient(cl)}
		return g.run(ctx)
	})
	if err == nil || ctx.Err() != nil || errors.As(err, new(usageError)) || errors.As(err, new(*permanentError)) {
		return err
	}
	env.failf("Executing consumer group command failed due to %s", describe(err)) // the original exits successfully then: scripts look at what it prints
	return nil
}

// failf prints an error where scripts look for it.
func (e *Env) failf(format string, args ...any) { e.printf("\nError: "+format+"\n", args...) }

type groupsTool struct {
	o   *groupsOptions
	env *Env
	cl  *kgo.Client
	adm *kadm.Client
}

func (g *groupsTool) run(ctx context.Context) error {
	switch {
	case g.o.has("list"):
		return g.list(ctx)
	case g.o.has("describe"):
		return g.describe(ctx)
	case g.o.has("delete"):
		return g.delete(ctx)
	case g.o.has("delete-offsets"):
		return g.deleteOffsets(ctx)
	}
	return g.reset(ctx)
}

// names returns the groups that the options select, sorted.
func (g *groupsTool) names(ctx context.Context) ([]string, error) {
	if !g.o.has("all-groups") {
		names := slices.Compact(slices.Sorted(slices.Values(*g.o.groups)))
		g.awaitCoordinators(ctx, names)
		return names, nil
	}
	listed, err := g.adm.ListGroups(ctx)
	return listed.Groups(), err
}

// awaitCoordinators waits until the groups have coordinators: the first group of a cluster waits for its topic to be
// created. Errors are left to the requests that follow.
func (g *groupsTool) awaitCoordinators(ctx context.Context, groups []string) {
	for _, group := range groups {
		err := whileCoordinatorComes(ctx, g.o.requestTimeout, func(ctx context.Context) error { return findCoordinator(ctx, g.cl, group) })
		if err != nil {
			return
		}
	}
}

// upperFirst formats states and types as the original does.
func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (g *groupsTool) list(ctx context.Context) error {
	listed, err := g.adm.ListGroups(ctx)
	if err != nil {
		return err
	}
	wanted := func(filter, value string) bool {
		return filter == "" || slices.ContainsFunc(strings.Split(filter, ","), func(f string) bool {
			return strings.EqualFold(strings.TrimSpace(f), value)
		})
	}
	width := 15
	var shown []kadm.ListedGroup
	for _, l := range listed.Sorted() {
		if l.GroupType == "" {
			l.GroupType = "classic"
		}
		if wanted(*g.o.state, l.State) && wanted(*g.o.kind, l.GroupType) {
			shown = append(shown, l)
			width = max(width, len(l.Group))
		}
	}
	states, types := g.o.has("state"), g.o.has("type")
	if !states && !types {
		for _, l := range shown {
			g.env.println(l.Group)
		}
		return nil
	}
	row := func(group, kind, state string) {
		g.env.printf("%-*s", width+10, group)
		if types {
			g.env.printf(" %-20s", kind)
		}
		if states {
			g.env.printf(" %-20s", state)
		}
		g.env.println()
	}
	row("GROUP", "TYPE", "STATE")
	for _, l := range shown {
		row(l.Group, upperFirst(l.GroupType), l.State)
	}
	return nil
}

func (g *groupsTool) describe(ctx context.Context) error {
	names, err := g.names(ctx)
	if err != nil {
		return err
	}
	described, err := g.adm.DescribeGroups(ctx, names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		d := described[name]
		if errors.Is(d.Err, kerr.GroupIDNotFound) || d.Err == nil && d.State == "Dead" {
			g.env.failf("Consumer group '%s' does not exist.", name)
			continue
		}
		if d.Err != nil {
			return fmt.Errorf("group %s: %w", name, d.Err)
		}
		if err := g.describeOne(ctx, &d); err != nil {
			return err
		}
	}
	return nil
}

func (g *groupsTool) describeOne(ctx context.Context, d *kadm.DescribedGroup) error {
	if err := g.env.flush(); err != nil {
		return err
	}
	switch d.State {
	case "Empty":
		g.env.errorf("\nConsumer group '%s' has no active members.", d.Group)
	case "PreparingRebalance", "CompletingRebalance":
		g.env.errorf("\nWarning: Consumer group '%s' is rebalancing.", d.Group)
	}
	switch {
	case g.o.has("members"):
		g.printMembers(d)
	case g.o.has("state"):
		g.printState(d)
	default:
		return g.printOffsets(ctx, d)
	}
	return nil
}

func (g *groupsTool) printState(d *kadm.DescribedGroup) {
	coordinator := fmt.Sprintf("%s:%d  (%d)", d.Coordinator.Host, d.Coordinator.Port, d.Coordinator.NodeID)
	width := max(25, len(coordinator))
	format := "%-*s %-25s %-20s %-15s %s\n"
	g.env.printf("\n"+format, width, "GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
	g.env.printf(format, width, d.Group, coordinator, d.Protocol, d.State, strconv.Itoa(len(d.Members)))
}

// widest returns the width of a column: that of its widest value, but at least 15.
func widest(values ...string) int {
	width := 15
	for _, v := range values {
		width = max(width, len(v))
	}
	return width
}

func (g *groupsTool) printMembers(d *kadm.DescribedGroup) {
	ids, hosts, clients, instances := []string{}, []string{}, []string{}, []string{}
	static := false
	for _, m := range d.Members {
		ids, hosts, clients = append(ids, m.MemberID), append(hosts, m.ClientHost), append(clients, m.ClientID)
		instance := ""
		if m.InstanceID != nil {
			instance, static = *m.InstanceID, true
		}
		instances = append(instances, instance)
	}
	row := func(group, id, instance, host, client, count, assignment string) {
		g.env.printf("%-*s %-*s ", widest(d.Group), group, widest(ids...), id)
		if static {
			g.env.printf("%-*s ", max(17, widest(instances...)), instance)
		}
		g.env.printf("%-*s %-*s %-15s ", widest(hosts...), host, widest(clients...), client, count)
		if g.o.has("verbose") {
			g.env.printf("%s", assignment)
		}
		g.env.println()
	}
	g.env.println()
	row("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT")
	for i, m := range d.Members {
		count, assignment := assignmentOf(&m)
		row(d.Group, ids[i], instances[i], hosts[i], clients[i], strconv.Itoa(count), assignment)
	}
}

// assignmentOf returns the number of a member's partitions, and lists them: topic(0,1), other(2).
func assignmentOf(m *kadm.DescribedGroupMember) (int, string) {
	assigned, ok := m.Assigned.AsConsumer()
	if !ok || len(assigned.Topics) == 0 {
		return 0, "-"
	}
	count := 0
	var parts []string
	for _, t := range assigned.Topics {
		slices.Sort(t.Partitions)
		count += len(t.Partitions)
		parts = append(parts, fmt.Sprintf("%s(%s)", t.Topic, joinInts(t.Partitions, ",")))
	}
	slices.Sort(parts)
	return count, strings.Join(parts, ", ")
}

// offsetRow is a row in the description of a group's offsets, as text: "-" is unknown.
type offsetRow struct {
	topic             string
	partition         int32
	current, end, lag string
	id, host, client  string
}

func (g *groupsTool) printOffsets(ctx context.Context, d *kadm.DescribedGroup) error {
	rows, err := g.offsetRows(ctx, d)
	if err != nil || len(rows) == 0 {
		return err
	}
	topics, ids, hosts := []string{}, []string{}, []string{}
	for _, r := range rows {
		topics, ids, hosts = append(topics, r.topic), append(ids, r.id), append(hosts, r.host)
	}
	row := func(group, topic, partition, current, end, lag, id, host, client string) {
		g.env.printf("%-*s %-*s %-10s %-15s %-15s %-15s %-*s %-*s %s\n", widest(d.Group), group, widest(topics...), topic, partition,
			current, end, lag, widest(ids...), id, widest(hosts...), host, client)
	}
	g.env.println()
	row("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
	for _, r := range rows {
		row(d.Group, r.topic, strconv.Itoa(int(r.partition)), r.current, r.end, r.lag, r.id, r.host, r.client)
	}
	return nil
}

// rowsOf returns rows by partition with what is known of the group, and the topics. Ends and lags are missing.
func rowsOf(committed kadm.OffsetResponses, members []kadm.DescribedGroupMember) (rows map[string]*offsetRow, topics map[string]bool) {
	rows, topics = make(map[string]*offsetRow), make(map[string]bool)
	at := func(topic string, partition int32) *offsetRow {
		name := partitionName(topic, partition)
		if rows[name] == nil {
			rows[name] = &offsetRow{topic: topic, partition: partition, current: "-", end: "-", lag: "-", id: "-", host: "-", client: "-"}
		}
		return rows[name]
	}
	committed.Each(func(o kadm.OffsetResponse) {
		topics[o.Topic] = true
		if o.At >= 0 {
			at(o.Topic, o.Partition).current = strconv.FormatInt(o.At, 10)
		}
	})
	for _, m := range members {
		assigned, _ := m.Assigned.AsConsumer()
		if assigned == nil {
			continue
		}
		for _, t := range assigned.Topics {
			topics[t.Topic] = true
			for _, p := range t.Partitions {
				r := at(t.Topic, p)
				r.id, r.host, r.client = m.MemberID, m.ClientHost, m.ClientID
			}
		}
	}
	return rows, topics
}

// offsetRows returns rows for the partitions that the group has offsets for or that its members read.
func (g *groupsTool) offsetRows(ctx context.Context, d *kadm.DescribedGroup) ([]offsetRow, error) {
	committed, err := g.adm.FetchOffsets(ctx, d.Group)
	if err != nil {
		return nil, err
	}
	rows, topics := rowsOf(committed, d.Members)
	if len(topics) == 0 {
		return nil, nil
	}
	ends, err := listKnown(ctx, g.adm.ListEndOffsets, slices.Collect(maps.Keys(topics))...)
	if err != nil {
		return nil, err
	}
	var all []offsetRow
	for _, name := range sortedPartitions(rows) {
		r := rows[name]
		if end, ok := ends.Lookup(r.topic, r.partition); ok && end.Err == nil {
			r.end = strconv.FormatInt(end.Offset, 10)
			if current, err := strconv.ParseInt(r.current, 10, 64); err == nil {
				r.lag = strconv.FormatInt(end.Offset-current, 10)
			}
		}
		all = append(all, *r)
	}
	slices.SortStableFunc(all, func(a, b offsetRow) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return all, nil
}

func (g *groupsTool) delete(ctx context.Context) error {
	names, err := g.names(ctx)
	if err != nil {
		return err
	}
	results, err := g.adm.DeleteGroups(ctx, names...)
	if err != nil && len(results) == 0 {
		if !isRefusal(err) {
			return err
		}
		results = make(kadm.DeleteGroupResponses)
		for _, name := range names { // clients without authorization are not told which broker coordinates
			results[name] = kadm.DeleteGroupResponse{Group: name, Err: err}
		}
	}
	var done, failed []string
	for _, r := range results.Sorted() {
		if r.Err != nil {
			failed = append(failed, fmt.Sprintf("* Group '%s' could not be deleted due to: %s", r.Group, describe(r.Err)))
		} else {
			done = append(done, r.Group)
		}
	}
	if len(failed) == 0 {
		g.env.printf("Deletion of requested consumer groups ('%s') was successful.\n", strings.Join(done, ", "))
		return nil
	}
	g.env.failf("Deletion of some consumer groups failed:\n%s", strings.Join(failed, "\n"))
	if len(done) > 0 {
		g.env.printf("\nThese consumer groups were deleted successfully: '%s'\n", strings.Join(done, ", "))
	}
	return nil
}

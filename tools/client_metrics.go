package tools

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"barnabas/internal/uuid"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clientMetricsOptions is the command line of kafka-client-metrics.
type clientMetricsOptions struct {
	*adminOptions
	name, match, metrics *string
	interval             *int32
}

func newClientMetricsOptions() *clientMetricsOptions {
	o := &clientMetricsOptions{adminOptions: newAdminOptions("kafka-client-metrics",
		"list, describe, alter and delete subscriptions to client metrics (KIP-714); clusters with ZooKeeper have no such settings.", "command-config")}
	o.Bool("list", false, "list the resources")
	o.Bool("describe", false, "print the settings of one resource, or of all")
	o.Bool("alter", false, "change the settings of a resource")
	o.Bool("delete", false, "delete the settings of a resource")
	o.name = o.String("name", "", "the resource's `name`")
	o.Bool("generate-name", false, "with --alter: generate a name")
	o.interval = o.Int32("interval", 0, "with --alter: the interval between reports in `ms`")
	o.match = o.String("match", "", "with --alter: only clients with `k1=v1,k2=v2`, of client_id, client_instance_id, client_software_name,\n"+
		"client_software_version, client_source_address, client_source_port")
	o.metrics = o.String("metrics", "", "with --alter: prefixes of the metrics' names, `m1,m2`")
	return o
}

func clientMetrics(ctx context.Context, env *Env) error {
	o := newClientMetricsOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	action, err := o.exactlyOne("alter", "delete", "describe", "list")
	if err != nil {
		return err
	}
	if err := o.check(action); err != nil {
		return err
	}
	t := &clientMetricsTool{o: o, env: env}
	err = o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		t.cl = cl
		switch action {
		case "alter":
			return t.alter(ctx)
		case "delete":
			return t.delete(ctx)
		case "describe":
			return t.describe(ctx)
		}
		return t.list(ctx)
	})
	if err != nil {
		env.printf("Error while executing client metrics command : %s\n", message(err)) // on standard output, as in the original
		return exitCode(1)
	}
	return nil
}

// check rejects invalid combinations of options.
func (o *clientMetricsOptions) check(action string) error {
	if err := o.require("bootstrap-server"); err != nil {
		return err
	}
	changes := []string{"generate-name", "interval", "match", "metrics"}
	switch {
	case action == "alter" && o.has("name") == o.has("generate-name"):
		return usagef("one of --name or --generate-name must be specified with --alter")
	case action == "alter":
		return nil
	case action == "delete" && !o.has("name"):
		return usagef("a client metrics resource name must be specified with --delete")
	case action == "list":
		changes = append(changes, "name")
	}
	return o.exclude(action, changes...)
}

// clientMetricsTool runs kafka-client-metrics.
type clientMetricsTool struct {
	o   *clientMetricsOptions
	env *Env
	cl  *kgo.Client
}

var errNoClientMetrics = errors.New("the node does not support LIST_CLIENT_METRICS_RESOURCES")

// names returns those of the resources.
func (t *clientMetricsTool) names(ctx context.Context) ([]string, error) {
	req := kmsg.NewPtrListConfigResourcesRequest()
	switch ok, err := serves(ctx, t.cl, req.Key()); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errNoClientMetrics
	}
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = answered(resp.ErrorCode, nil)
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, len(resp.ConfigResources))
	for i, r := range resp.ConfigResources {
		names[i] = r.Name
	}
	slices.Sort(names)
	return names, nil
}

func (t *clientMetricsTool) list(ctx context.Context) error {
	names, err := t.names(ctx)
	for _, name := range names {
		t.env.println(name)
	}
	return err
}

func (t *clientMetricsTool) describe(ctx context.Context) error {
	names := []string{*t.o.name}
	if !t.o.has("name") {
		var err error
		if names, err = t.names(ctx); err != nil {
			return err
		}
	}
	for _, name := range names {
		t.env.printf("Client metrics configs for %s are:\n", name)
		found, err := describeConfigs(ctx, t.cl, kmsg.ConfigResourceTypeClientMetrics, false, name)
		if err != nil {
			return err
		}
		for _, c := range found[name].Configs {
			t.env.printf("  %s=%s\n", c.Name, textOrNull(c.Value))
		}
	}
	return nil
}

func (t *clientMetricsTool) alter(ctx context.Context) error {
	change := configChange{kind: kmsg.ConfigResourceTypeClientMetrics, name: *t.o.name}
	if t.o.has("generate-name") {
		change.name = uuid.Text(uuid.New())
	}
	for _, s := range []struct{ option, name, value string }{
		{"interval", "interval.ms", strconv.Itoa(int(*t.o.interval))}, {"match", "match", *t.o.match}, {"metrics", "metrics", *t.o.metrics},
	} {
		switch {
		case !t.o.has(s.option):
		case s.value == "":
			change.del = append(change.del, s.name)
		default:
			change.set = append(change.set, setting{s.name, s.value})
		}
	}
	if err := alterConfigs(ctx, t.cl, change); err != nil {
		return err
	}
	t.env.printf("Altered client metrics config for %s.\n", change.name)
	return nil
}

func (t *clientMetricsTool) delete(ctx context.Context) error {
	found, err := describeConfigs(ctx, t.cl, kmsg.ConfigResourceTypeClientMetrics, false, *t.o.name)
	if err != nil {
		return err
	}
	change := configChange{kind: kmsg.ConfigResourceTypeClientMetrics, name: *t.o.name}
	for _, c := range found[*t.o.name].Configs {
		change.del = append(change.del, c.Name)
	}
	if err := alterConfigs(ctx, t.cl, change); err != nil {
		return err
	}
	t.env.printf("Deleted client metrics config for %s.\n", *t.o.name)
	return nil
}

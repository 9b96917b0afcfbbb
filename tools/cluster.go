package tools

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func cluster(ctx context.Context, env *Env) error {
	o := &adminOptions{options: newOptions("kafka-cluster", "cluster-id prints the cluster's id; unregister --id N is for clusters without ZooKeeper.")}
	o.operands = "COMMAND"
	o.bootstrap = o.StringP("bootstrap-server", "b", "", "brokers to connect to, `host:port,...` (required)")
	o.config = o.StringP("config", "c", "", "`file` of client properties")
	id := o.Int32P("id", "i", -1, "with unregister: the broker's `id`")
	o.BoolP("h", "h", false, "as --help")
	if err := o.parse(env); err != nil {
		return err
	}
	if o.has("h") {
		o.usage(env)
		return exitCode(0)
	}
	if len(o.args) != 1 || o.args[0] != "cluster-id" && o.args[0] != "unregister" {
		return usagef("the command must be cluster-id or unregister")
	}
	if err := o.require("bootstrap-server"); err != nil {
		return err
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		if o.args[0] == "cluster-id" {
			return printClusterID(ctx, env, cl)
		}
		return unregister(ctx, env, cl, *id)
	})
}

func printClusterID(ctx context.Context, env *Env, cl *kgo.Client) error {
	meta, err := fetchMetadata(ctx, cl)
	switch {
	case err != nil:
		return err
	case meta.ClusterID == nil:
		env.println("No cluster ID found. The Kafka version is probably too old.")
		return nil
	}
	env.printf("Cluster ID: %s\n", *meta.ClusterID)
	return nil
}

// unregister unregisters a broker from a KRaft cluster, if this is one.
func unregister(ctx context.Context, env *Env, cl *kgo.Client, id int32) error {
	if id < 0 {
		return usagef("missing required argument %q", "id")
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	ok, err := serves(ctx, cl, req.Key())
	if err != nil {
		return err
	}
	if !ok {
		env.println("The target cluster does not support the broker unregistration API.")
		return nil
	}
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = answered(resp.ErrorCode, resp.ErrorMessage)
	}
	if err == nil {
		env.printf("Broker %d is no longer registered.\n", id)
	}
	return err
}

// serves reports whether the brokers offer an API.
func serves(ctx context.Context, cl *kgo.Client, key int16) (bool, error) {
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(versions.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key }), nil
}

package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"barnabas/config"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// aclsOptions is the command line of kafka-acls.
type aclsOptions struct {
	*adminOptions
	pattern                               *string
	topics, groups, txnIDs, tokens, users *[]string
	operations, allow, deny, principals   *[]string
	allowHosts, denyHosts                 *[]string
	authorizer, zkTLSOf                   *string
	authorizerProperties                  *[]string
}

func newACLsOptions() *aclsOptions {
	o := &aclsOptions{adminOptions: newAdminOptions("kafka-acls", "list, add and remove ACLs.", "command-config")}
	o.insteadOfBrokers("authorizer-properties")
	o.Bool("list", false, "print the ACLs of the resources given, or all")
	o.Bool("add", false, "add ACLs")
	o.Bool("remove", false, "remove ACLs")
	o.Bool("force", false, "do not ask for confirmation")
	o.topics = o.StringArray("topic", nil, "the `topic`; '*' for all")
	o.groups = o.StringArray("group", nil, "the consumer `group`; '*' for all")
	o.Bool("cluster", false, "the cluster")
	o.txnIDs = o.StringArray("transactional-id", nil, "the transactional `id`; '*' for all")
	o.tokens = o.StringArray("delegation-token", nil, "the delegation `token`; '*' for all")
	o.users = o.StringArray("user-principal", nil, "the user as a resource, for CreateTokens and DescribeTokens: a `principal`")
	o.pattern = o.String("resource-pattern-type", "LITERAL", "literal or prefixed, and with --list and --remove also any and match: the `type`")
	o.operations = o.StringArray("operation", nil, "the `operation`, All if not given: Read, Write, Create, Delete, Alter, Describe, ClusterAction, "+
		"DescribeConfigs, AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens, All")
	o.allow = o.StringArray("allow-principal", nil, "who is allowed, as User:name: a `principal`; User:* for everyone")
	o.deny = o.StringArray("deny-principal", nil, "who is denied, as User:name: a `principal`; takes precedence over what is allowed")
	o.allowHosts = o.StringArray("allow-host", nil, "the `host` that --allow-principal may connect from, '*' if not given")
	o.denyHosts = o.StringArray("deny-host", nil, "the `host` that --deny-principal may not connect from, '*' if not given")
	o.principals = o.StringArray("principal", nil, "with --list: only ACLs of this `principal`")
	o.Bool("producer", false, "the operations that a producer needs: Write, Describe and Create of --topic, Write and Describe of --transactional-id")
	o.Bool("consumer", false, "the operations that a consumer needs: Read and Describe of --topic, Read of --group")
	o.Bool("idempotent", false, "with --producer: also IdempotentWrite of the cluster")
	o.authorizer = o.String("authorizer", config.ACLAuthorizer, "deprecated, with --authorizer-properties: whose ACLs, a `class`")
	o.authorizerProperties = o.StringArray("authorizer-properties", nil, "deprecated: change the ACLs directly in ZooKeeper: zookeeper.connect=localhost:2181, a `key=value`")
	o.zkTLSOf = o.String("zk-tls-config-file", "", "with --authorizer-properties: settings zookeeper.ssl.* of an encrypted connection; `file`")
	return o
}

// check rejects invalid combinations of options (AclCommandOptions.checkArgs, 3.9).
func (o *aclsOptions) check() error {
	if err := o.checkWhere(); err != nil {
		return err
	}
	if _, err := o.exactlyOne("list", "add", "remove"); err != nil {
		return err
	}
	if err := o.exclude("list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"); err != nil {
		return err
	}
	for _, role := range []string{"producer", "consumer"} {
		if err := o.exclude(role, "operation", "deny-principal", "deny-host"); err != nil {
			return err
		}
	}
	switch {
	case o.has("principal") && !o.has("list"):
		return usagef("the --principal option is only available if --list is set")
	case o.has("producer") && !o.has("topic"):
		return usagef("with --producer you must specify a --topic")
	case o.has("idempotent") && !o.has("producer"):
		return usagef("the --idempotent option is only available if --producer is set")
	case o.has("consumer") && (!o.has("topic") || !o.has("group") || !o.has("producer") && (o.has("cluster") || o.has("transactional-id"))):
		return usagef("with --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be specified")
	}
	return nil
}

// checkWhere checks the options that say where the ACLs are: on brokers, or in ZooKeeper.
func (o *aclsOptions) checkWhere() error {
	switch {
	case o.has("bootstrap-server") && o.has("authorizer"):
		return usagef("only one of --bootstrap-server or --authorizer must be specified")
	case o.has("bootstrap-server") && o.has("authorizer-properties"):
		return usagef("the --authorizer-properties option can only be used without --bootstrap-server")
	case o.has("bootstrap-server"):
		return nil
	case o.has("command-config"):
		return usagef("the --command-config option can only be used with --bootstrap-server option")
	}
	return o.require("authorizer-properties")
}

func acls(ctx context.Context, env *Env) error {
	o := newACLsOptions()
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	t := &aclsTool{env: env}
	work, err := t.plan(o)
	if err == nil {
		err = o.withStore(ctx, env, func(ctx context.Context, k aclStore) error {
			t.store = k
			return work(ctx)
		})
	}
	if _, usage := err.(usageError); err == nil || usage {
		return err
	}
	env.printf("Error while executing ACL command: %s\n", describe(err)) // on standard output, as in the original
	return exitCode(1)
}

// aclStore is where the ACLs are.
type aclStore interface {
	describe(context.Context, aclResource) ([]aclRules, error)
	create(context.Context, aclRules) error
	delete(context.Context, []kmsg.DeleteACLsRequestFilter) error
}

// withStore calls work with the place of the ACLs: brokers, or ZooKeeper itself.
func (o *aclsOptions) withStore(ctx context.Context, env *Env, work func(context.Context, aclStore) error) error {
	if !o.has("bootstrap-server") {
		return o.storedACLs(ctx, env, work)
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error { return work(ctx, brokersACLs{cl}) })
}

// aclsTool runs kafka-acls.
type aclsTool struct {
	env   *Env
	store aclStore
}

// plan parses what has to be done, so that incorrect usage is reported without a broker.
func (t *aclsTool) plan(o *aclsOptions) (func(context.Context) error, error) {
	if o.has("list") {
		resources, err := o.resources()
		if err != nil {
			return nil, err
		}
		principals, err := parsePrincipals(*o.principals)
		return func(ctx context.Context) error { return t.list(ctx, resources, principals) }, err
	}
	rules, err := o.rules()
	if err != nil {
		return nil, err
	}
	if o.has("remove") {
		return func(ctx context.Context) error { return t.remove(ctx, rules, o.has("force")) }, nil
	}
	if slices.ContainsFunc(rules, func(r aclRules) bool { return len(r.entries) == 0 }) {
		return nil, usagef("you must specify one of: --allow-principal, --deny-principal when trying to add ACLs")
	}
	return func(ctx context.Context) error { return t.add(ctx, rules) }, nil
}

func (t *aclsTool) list(ctx context.Context, resources []aclResource, principals []string) error {
	if len(resources) == 0 {
		resources = []aclResource{anyACLResource}
	}
	var found []aclRules
	for _, r := range resources {
		more, err := t.store.describe(ctx, r)
		if err != nil {
			return err
		}
		found = mergeRules(found, more)
	}
	if len(principals) == 0 {
		t.printRules(found, "")
		return nil
	}
	for _, p := range principals {
		t.env.printf("ACLs for principal `%s`\n", p)
		t.printRules(found, p)
	}
	return nil
}

// printRules prints the entries of each resource, only those of one principal if given.
func (t *aclsTool) printRules(found []aclRules, principal string) {
	for _, r := range found {
		if principal != "" {
			r.entries = slices.DeleteFunc(slices.Clone(r.entries), func(e aclEntry) bool { return e.principal != principal })
		}
		if len(r.entries) > 0 {
			t.env.printf("Current ACLs for resource `%s`: \n %s \n\n", r.resource, entryLines(r.entries))
		}
	}
}

func (t *aclsTool) add(ctx context.Context, rules []aclRules) error {
	for _, r := range rules {
		t.env.printf("Adding ACLs for resource `%s`: \n %s \n\n", r.resource, entryLines(r.entries))
		if err := t.store.create(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (t *aclsTool) remove(ctx context.Context, rules []aclRules, force bool) error {
	lines := newLineScanner(t.env.Stdin)
	for _, r := range rules {
		if !force {
			if yes, err := t.confirmed(lines, r); err != nil {
				return err
			} else if !yes {
				continue
			}
		}
		if err := t.store.delete(ctx, r.filters()); err != nil {
			return err
		}
	}
	return nil
}

// filters returns filters that match the entries of the rules or, without entries, all of the resource's.
func (r *aclRules) filters() []kmsg.DeleteACLsRequestFilter {
	if len(r.entries) == 0 {
		f := r.resource.filter()
		f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		return []kmsg.DeleteACLsRequestFilter{f}
	}
	filters := make([]kmsg.DeleteACLsRequestFilter, len(r.entries))
	for i := range r.entries {
		e, f := &r.entries[i], r.resource.filter()
		f.Principal, f.Host, f.Operation, f.PermissionType = &e.principal, &e.host, e.operation, e.permission
		filters[i] = f
	}
	return filters
}

// confirmed asks the user whether to remove the rules. Without an answer nothing is removed, which is an error: a script
// that lacks --force must not take it for a removal.
func (t *aclsTool) confirmed(lines *lineScanner, r aclRules) (bool, error) {
	if len(r.entries) == 0 {
		t.env.printf("Are you sure you want to delete all ACLs for resource filter `%s`? (y/n)\n", r.resource)
	} else {
		t.env.printf("Are you sure you want to remove ACLs: \n %s \n from resource filter `%s`? (y/n)\n", entryLines(r.entries), r.resource)
	}
	if err := t.env.flush(); err != nil {
		return false, err
	}
	line, err := lines.next()
	if err != nil {
		return false, fmt.Errorf("no answer to the question, nothing was removed (--force does not ask): %w", err)
	}
	return strings.EqualFold(strings.TrimSpace(string(line)), "y"), nil
}

package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"barnabas/broker/acl"
	"barnabas/config"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// storedACLs describes and changes ACLs directly in ZooKeeper, for what must exist before brokers run, such as the ACLs
// of the user that they log in as (AclCommand with --authorizer, 3.9). Running brokers are notified.
type storedACLs struct {
	env  *Env
	acls *acl.Authorizer
}

const authorizerDeprecated = "Warning: ACLs are changed past the brokers, which is deprecated; use --bootstrap-server instead."

// storedACLs calls work with the ACLs in ZooKeeper.
func (o *aclsOptions) storedACLs(ctx context.Context, env *Env, work func(context.Context, aclStore) error) error {
	env.errorf("%s", authorizerDeprecated)
	if *o.authorizer != config.ACLAuthorizer {
		return fmt.Errorf("--authorizer %s: no class can be loaded here, only %s is available", *o.authorizer, config.ACLAuthorizer)
	}
	given, err := o.authorizerSettings()
	if err != nil {
		return err
	}
	connect := cmp.Or(given[config.AuthorizerZookeeperURL], given["zookeeper.connect"])
	if connect == "" {
		return errors.New("--authorizer-properties: zookeeper.connect is missing")
	}
	access, err := zooKeeperAccess(env, *o.zkTLSOf)
	if err != nil {
		return err
	}
	secure := access.login != nil // a certificate alone does not imply that nodes are secured
	if setting, ok := given["zookeeper.set.acl"]; ok {
		secure = strings.EqualFold(setting, "true")
	}
	zk, err := access.connectZooKeeper(ctx, "zookeeper.connect=", connect, false, secure)
	if err != nil {
		return err
	}
	defer zk.Close()
	k := storedACLs{env, acl.New(acl.Config{Store: zk, Failed: func(error) {}, APIName: func(int16) string { return "" }, Logger: silence()})}
	if err := k.acls.Start(ctx); err != nil {
		return err
	}
	defer k.acls.Close()
	return work(ctx, k)
}

// authorizerSettings returns those in --authorizer-properties. To the original, a malformed one is no mistake in the
// command line but an error of the tool.
func (o *aclsOptions) authorizerSettings() (map[string]string, error) {
	given := make(map[string]string)
	for _, property := range *o.authorizerProperties {
		key, value, ok := strings.Cut(property, "=")
		if !ok {
			return nil, fmt.Errorf("--authorizer-properties %s: it must be key=value", property)
		}
		given[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return given, nil
}

func (k storedACLs) describe(_ context.Context, r aclResource) ([]aclRules, error) {
	var found []aclRules
	for _, b := range k.acls.Bindings(acl.Filter{
		Type: r.kind, Name: r.name, Pattern: r.pattern, Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAny,
	}) { // sorted by resource
		name := b.Name
		resource := aclResource{b.Type, &name, b.Pattern}
		if n := len(found); n == 0 || found[n-1].resource.String() != resource.String() {
			found = append(found, aclRules{resource: resource})
		}
		last := &found[len(found)-1]
		last.entries = append(last.entries, aclEntry{b.Principal, b.Host, b.Operation, b.Permission})
	}
	return found, nil
}

func (k storedACLs) create(ctx context.Context, r aclRules) error {
	bindings := make([]acl.Binding, len(r.entries))
	for i, e := range r.entries {
		bindings[i] = acl.Binding{
			Resource: acl.Resource{Type: r.resource.kind, Pattern: r.resource.pattern, Name: *r.resource.name},
			Entry:    acl.Entry{Principal: e.principal, Host: e.host, Operation: e.operation, Permission: e.permission},
		}
	}
	for _, err := range k.acls.Create(ctx, bindings) {
		if err != nil {
			k.env.printf("Error while adding ACLs: %v\n", err)
		}
	}
	return nil
}

func (k storedACLs) delete(ctx context.Context, wanted []kmsg.DeleteACLsRequestFilter) error {
	filters := make([]acl.Filter, len(wanted))
	for i, f := range wanted {
		filters[i] = acl.FilterOf(f)
	}
	for _, d := range k.acls.Delete(ctx, filters) {
		if d.Err != nil {
			k.env.printf("Error while removing ACLs: %v\n", d.Err)
		}
		for _, m := range d.Matched {
			if m.Err != nil {
				k.env.printf("Error while removing ACLs: %v\n", m.Err)
			}
		}
	}
	return nil
}

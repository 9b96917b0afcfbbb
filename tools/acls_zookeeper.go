package tools

import (
	"context"
	"fmt"
	"strings"

	"barnabas/broker/acl"
	"barnabas/config"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// storedACLs describes and changes ACLs in ZooKeeper itself, for what must be there before brokers run: the rights of the user that
// they log in as, for one (AclCommand with --authorizer, 3.9). Brokers that run hear of it.
type storedACLs struct {
	env  *Env
	acls *acl.Authorizer
}

const authorizerDeprecated = "Warning: ACLs are changed past the brokers, which is deprecated; use --bootstrap-server instead."

// storedACLs opens the ACLs in ZooKeeper for some work.
func (o *aclsOptions) storedACLs(ctx context.Context, env *Env, work func(context.Context, aclKeeper) error) error {
	env.errorf("%s", authorizerDeprecated)
	if *o.authorizer != config.ACLAuthorizer {
		return fmt.Errorf("--authorizer %s: no class can be loaded here, there is only %s", *o.authorizer, config.ACLAuthorizer)
	}
	connect, err := o.zookeeper()
	if err != nil {
		return err
	}
	zk, err := connectZooKeeper(ctx, "zookeeper.connect=", connect, *o.zkTLSOf, false)
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

// zookeeper is the place that --authorizer-properties name.
func (o *aclsOptions) zookeeper() (string, error) {
	given := make(map[string]string)
	for _, property := range *o.authorizerProperties {
		key, value, ok := strings.Cut(property, "=")
		if !ok {
			return "", fmt.Errorf("--authorizer-properties %s: it is no key=value", property)
		}
		given[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if url := given[config.AuthorizerZookeeperURL]; url != "" {
		return url, nil
	}
	if connect := given["zookeeper.connect"]; connect != "" {
		return connect, nil
	}
	return "", fmt.Errorf("--authorizer-properties: zookeeper.connect is missing")
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
		filters[i] = acl.Filter{
			Type: f.ResourceType, Name: f.ResourceName, Pattern: f.ResourcePatternType, Principal: f.Principal, Host: f.Host,
			Operation: f.Operation, Permission: f.PermissionType,
		}
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

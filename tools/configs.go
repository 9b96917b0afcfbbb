package tools

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"barnabas/config"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// entity identifies whose configs are meant: a type, and a name, the default of the type (empty name) or all of the
// type (nil).
type entity struct {
	kind string // topics, brokers, broker-loggers, users, clients, ips
	name *string
}

// shortOptions are the options that select a type and an entity at once, with the option for the type's default.
var shortOptions = []struct{ option, defaults, kind string }{
	{"topic", "", "topics"}, {"client", "client-defaults", "clients"}, {"user", "user-defaults", "users"},
	{"broker", "broker-defaults", "brokers"}, {"broker-logger", "", "broker-loggers"}, {"ip", "ip-defaults", "ips"},
}

// singular are the words for an entity of a type.
var singular = map[string]string{
	"topics": "topic", "brokers": "broker", "broker-loggers": "broker-logger", "users": "user", "clients": "client", "ips": "ip",
}

// configsOptions is the command line of kafka-configs.
type configsOptions struct {
	*adminOptions
	kinds, names, dels *[]string
	add, addFile       *string
	zookeeper          *string
	zkTLSFile          *string
	short              map[string]*string
	entities           []entity
}

func newConfigsOptions() *configsOptions {
	o := &configsOptions{short: map[string]*string{}}
	o.adminOptions = newAdminOptions("kafka-configs", "describe and alter configs of topics, brokers, clients, users and ips.", "command-config")
	o.insteadOfBrokers("zookeeper")
	o.String("bootstrap-controller", "", "not supported: clusters with ZooKeeper have no such `address`")
	o.zookeeper = o.String("zookeeper", "", "ZooKeeper, `host:port[/chroot]`, instead of --bootstrap-server: for SCRAM credentials of users, and for brokers that are not running")
	o.zkTLSFile = o.String("zk-tls-config-file", "", "with --zookeeper: settings zookeeper.ssl.* of an encrypted connection; `file`")
	o.Bool("describe", false, "print configs")
	o.Bool("alter", false, "change configs")
	o.kinds = o.StringArray("entity-type", nil, "topics, clients, users, brokers, broker-loggers or ips: a `type`; users and clients go together")
	o.names = o.StringArray("entity-name", nil, "the `name` of an entity of the type before or after it")
	o.Bool("entity-default", false, "the default of clients, users, brokers or ips")
	for _, s := range shortOptions {
		o.short[s.kind] = o.String(s.option, "", "the `name` of one of "+s.kind)
		if s.defaults != "" {
			o.Bool(s.defaults, false, "the default of "+s.kind)
		}
	}
	o.add = o.String("add-config", "", "settings to add, `k1=v1,k2=[v1,v2],...`; for users also SCRAM-SHA-256=[iterations=8192,password=p]")
	o.addFile = o.String("add-config-file", "", "`file` of settings to add")
	o.dels = o.StringArray("delete-config", nil, "settings to remove, `k1,k2,...`")
	o.Bool("all", false, "with --describe: also defaults and what the server's file sets")
	o.Bool("force", false, "accepted; there is no confirmation")
	return o
}

// read parses the command line. It examines the arguments once more for the pairs of types and names, whose order
// determines which belong together.
func (o *configsOptions) read(env *Env) error {
	if err := o.parse(env); err != nil {
		return err
	}
	if _, err := o.exactlyOne("describe", "alter"); err != nil {
		return err
	}
	if err := o.collectEntities(env.Args); err != nil {
		return err
	}
	if err := o.checkServer(); err != nil {
		return err
	}
	check := o.checkAlter
	if o.has("describe") {
		check = o.checkDescribe
	}
	if err := check(); err != nil {
		return err
	}
	return o.checkEntities()
}

// checkServer checks the options that say where settings are read and changed.
func (o *configsOptions) checkServer() error {
	if o.has("zookeeper") {
		return o.checkStored()
	}
	if err := o.require("bootstrap-server"); err != nil {
		return err
	}
	if o.has("zk-tls-config-file") {
		return usagef("only the --zookeeper option can be used with the --zk-tls-config-file option")
	}
	return nil
}

func (o *configsOptions) checkDescribe() error {
	for _, other := range []string{"add-config", "add-config-file", "delete-config"} {
		if err := o.exclude("describe", other); err != nil {
			return err
		}
	}
	return nil
}

func (o *configsOptions) checkAlter() error {
	switch {
	case !o.has("add-config") && !o.has("add-config-file") && !o.has("delete-config"):
		return usagef("at least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
	case o.has("add-config") && o.has("add-config-file"):
		return usagef("only one of --add-config or --add-config-file must be specified")
	}
	for _, e := range o.entities {
		if e.name == nil || *e.name == "" && (e.kind == "topics" || e.kind == "broker-loggers") {
			return usagef("an entity name must be specified with --alter of %s", e.kind)
		}
	}
	return nil
}

func (o *configsOptions) collectEntities(args []string) error {
	for _, s := range shortOptions {
		if o.has(s.option) {
			o.entities = append(o.entities, entity{s.kind, o.short[s.kind]})
		}
	}
	for _, s := range shortOptions {
		if s.defaults != "" && o.has(s.defaults) {
			o.entities = append(o.entities, entity{s.kind, kmsg.StringPtr("")})
		}
	}
	if len(o.entities) > 0 && len(*o.kinds)+len(*o.names)+o.given["entity-default"] > 0 {
		return usagef("--entity-{type,name,default} should not be used together with --topic, --user and the like")
	}
	names := entityNames(args)
	for i, kind := range *o.kinds {
		if _, ok := singular[kind]; !ok {
			return usagef("invalid entity type %s: it must be one of topics, clients, users, brokers, broker-loggers, ips", kind)
		}
		e := entity{kind: kind}
		if i < len(names) {
			e.name = kmsg.StringPtr(names[i])
		}
		o.entities = append(o.entities, e)
	}
	if len(o.entities) == 0 {
		return usagef("at least one entity type must be specified")
	}
	return nil
}

// entityNames returns the values of --entity-name in order, "" for each --entity-default.
func entityNames(args []string) []string {
	var names []string
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case !strings.HasPrefix(args[i], "-"):
		case name == "entity-default":
			names = append(names, "")
		case name == "entity-name" && ok:
			names = append(names, value)
		case name == "entity-name" && i+1 < len(args):
			i++
			names = append(names, args[i])
		}
	}
	return names
}

func (o *configsOptions) checkEntities() error {
	if len(o.entities) > 1 {
		for _, e := range o.entities {
			if e.kind != "users" && e.kind != "clients" {
				return usagef("only 'users' and 'clients' entity types may be specified together")
			}
		}
	}
	for i, e := range o.entities {
		if slices.ContainsFunc(o.entities[:i], func(other entity) bool { return other.kind == e.kind }) {
			return usagef("duplicate entity type(s) specified: %s", e.kind)
		}
		if err := o.checkEntity(e); err != nil {
			return err
		}
	}
	return nil
}

func (o *configsOptions) checkEntity(e entity) error {
	named := e.name != nil && *e.name != ""
	switch {
	case e.kind == "broker-loggers" && !named:
		return usagef("an entity name must be specified with --describe of %s", e.kind)
	case named && (e.kind == "brokers" || e.kind == "broker-loggers"):
		if _, err := strconv.ParseInt(*e.name, 10, 32); err != nil {
			return usagef("the entity name for %s must be a valid integer broker id, but it is: %s", e.kind, *e.name)
		}
	case named && e.kind == "ips":
		if _, err := net.LookupHost(*e.name); err != nil {
			return usagef("the entity name for ips must be a valid IP or resolvable host, but it is: %s", *e.name)
		}
	}
	return nil
}

// additions returns the settings to add, in the given order.
func (o *configsOptions) additions() ([]setting, error) {
	if o.has("add-config-file") {
		props, err := config.ReadProperties(*o.addFile)
		if err != nil {
			return nil, err
		}
		var all []setting
		for name, value := range props {
			all = append(all, setting{name, value})
		}
		slices.SortFunc(all, func(a, b setting) int { return strings.Compare(a.name, b.name) })
		return all, nil
	}
	return parseSettings(*o.add)
}

// deletions returns the settings to delete. If only blanks were given, that is a setting which no entity has.
func (o *configsOptions) deletions() []string {
	var all []string
	for _, list := range *o.dels {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				all = append(all, name)
			}
		}
	}
	if o.has("delete-config") && len(all) == 0 {
		return []string{""}
	}
	return all
}

type setting struct{ name, value string }

// parseSettings parses k1=v1,k2=[v1,v2]: commas within brackets do not separate.
func parseSettings(text string) ([]setting, error) {
	var all []setting
	for rest := text; rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.Contains(name, ",") {
			return nil, usagef("invalid entity config: all configs to be added must be in the format \"key=val\"")
		}
		var value string
		if list, isList := strings.CutPrefix(strings.TrimLeft(after, " "), "["); isList {
			if value, rest, ok = strings.Cut(list, "]"); !ok {
				return nil, usagef("the list of %s has no end", name)
			}
			if rest = strings.TrimLeft(rest, " "); rest != "" && rest[0] != ',' {
				return nil, usagef("the list of %s is followed by %q", name, rest)
			}
			rest = strings.TrimPrefix(rest, ",")
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		all = append(all, setting{name, strings.TrimSpace(value)})
	}
	return all, nil
}

func configs(ctx context.Context, env *Env) error {
	o := newConfigsOptions()
	if err := o.read(env); err != nil {
		return err
	}
	if o.has("zookeeper") {
		return o.runStored(ctx, env)
	}
	return o.connect(ctx, env, func(ctx context.Context, cl *kgo.Client) error {
		c := &configsTool{o: o, env: env, cl: cl}
		return c.run(ctx)
	})
}

// configsTool describes and alters the configs of topics, brokers and loggers.
type configsTool struct {
	o   *configsOptions
	env *Env
	cl  *kgo.Client
}

func (c *configsTool) run(ctx context.Context) error {
	switch kind := c.o.entities[0].kind; {
	case kind != "topics" && kind != "brokers" && kind != "broker-loggers":
		q := &quotaTool{configsTool: c}
		if c.o.has("alter") {
			return q.alter(ctx)
		}
		return q.describe(ctx)
	case c.o.has("alter"):
		return c.alter(ctx)
	}
	return c.describe(ctx)
}

var resourceTypes = map[string]kmsg.ConfigResourceType{
	"topics": kmsg.ConfigResourceTypeTopic, "brokers": kmsg.ConfigResourceTypeBroker, "broker-loggers": kmsg.ConfigResourceTypeBrokerLogger,
}

func (c *configsTool) alter(ctx context.Context) error {
	e := c.o.entities[0]
	add, err := c.o.additions()
	if err != nil {
		return err
	}
	if err := c.checkBroker(ctx, e); err != nil {
		return err
	}
	if err := c.refuseMissing(ctx, e); err != nil {
		return err
	}
	if err := alterConfigs(ctx, c.cl, configChange{resourceTypes[e.kind], *e.name, add, c.o.deletions()}); err != nil {
		return err
	}
	c.printUpdated(e)
	return nil
}

func (c *configsTool) printUpdated(e entity) {
	if *e.name == "" {
		c.env.printf("Completed updating default config for %s in the cluster.\n", e.kind)
	} else {
		c.env.printf("Completed updating config for %s %s.\n", singular[e.kind], *e.name)
	}
}

// checkBroker checks that the broker whose configs are meant is alive: only it can be asked.
func (c *configsTool) checkBroker(ctx context.Context, e entity) error {
	if *e.name == "" || e.kind != "brokers" && e.kind != "broker-loggers" {
		return nil
	}
	meta, err := fetchMetadata(ctx, c.cl)
	if err != nil {
		return err
	}
	there := make([]int32, len(meta.Brokers))
	for i, b := range meta.Brokers {
		there[i] = b.NodeID
		if strconv.Itoa(int(b.NodeID)) == *e.name {
			return nil
		}
	}
	return fmt.Errorf("broker %s is not running; the brokers are %s", *e.name, joinInts(there, ", "))
}

// refuseMissing refuses to delete settings that the entity does not have, which is probably a mistake.
func (c *configsTool) refuseMissing(ctx context.Context, e entity) error {
	deletions := c.o.deletions()
	if len(deletions) == 0 {
		return nil
	}
	found, err := describeConfigs(ctx, c.cl, resourceTypes[e.kind], true, *e.name)
	if err != nil {
		return err
	}
	present := make(map[string]bool)
	for _, entry := range found[*e.name].Configs {
		if e.kind == "broker-loggers" || isOwn(e, entry) || entry.IsSensitive {
			present[entry.Name] = true
		}
	}
	return refuseAbsent(deletions, present)
}

// refuseAbsent refuses to delete settings that are not present.
func refuseAbsent[V any](deletions []string, present map[string]V) error {
	missing := slices.DeleteFunc(slices.Clone(deletions), func(name string) bool { _, there := present[name]; return there })
	if len(missing) > 0 {
		return fmt.Errorf("invalid config(s): %s", strings.Join(missing, ","))
	}
	return nil
}

// isOwn reports whether a config was set for the entity itself.
func isOwn(e entity, c kmsg.DescribeConfigsResponseResourceConfig) bool {
	own := kmsg.ConfigSourceDynamicTopicConfig
	switch {
	case e.kind == "broker-loggers":
		return true
	case e.kind == "brokers" && *e.name == "":
		own = kmsg.ConfigSourceDynamicDefaultBrokerConfig
	case e.kind == "brokers":
		own = kmsg.ConfigSourceDynamicBrokerConfig
	}
	return c.Source == own
}

func (c *configsTool) describe(ctx context.Context) error {
	e := c.o.entities[0]
	targets := []entity{e}
	if e.name == nil {
		var err error
		if targets, err = c.allOf(ctx, e.kind); err != nil {
			return err
		}
	}
	for _, t := range targets {
		if err := c.describeOne(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// allOf returns the entities of a type, and its default if there is one.
func (c *configsTool) allOf(ctx context.Context, kind string) ([]entity, error) {
	meta, err := fetchMetadata(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	var all []entity
	if kind == "topics" {
		for _, t := range meta.Topics {
			all = append(all, entity{kind, t.Topic})
		}
		return all, nil
	}
	for _, b := range meta.Brokers {
		all = append(all, entity{kind, kmsg.StringPtr(strconv.Itoa(int(b.NodeID)))})
	}
	if kind == "brokers" {
		all = append(all, entity{kind, kmsg.StringPtr("")})
	}
	return all, nil
}

func (c *configsTool) describeOne(ctx context.Context, e entity) error {
	all := c.o.has("all")
	switch {
	case *e.name == "":
		c.env.printf("Default configs for %s in the cluster are:\n", e.kind)
	case all:
		c.env.printf("All configs for %s %s are:\n", singular[e.kind], *e.name)
	default:
		c.env.printf("Dynamic configs for %s %s are:\n", singular[e.kind], *e.name)
	}
	if err := c.checkBroker(ctx, e); err != nil {
		return err
	}
	found, err := describeConfigs(ctx, c.cl, resourceTypes[e.kind], true, *e.name)
	if err != nil {
		return err
	}
	for _, entry := range found[*e.name].Configs {
		if !all && !isOwn(e, entry) {
			continue
		}
		synonyms := make([]string, len(entry.ConfigSynonyms))
		for i, s := range entry.ConfigSynonyms {
			synonyms[i] = fmt.Sprintf("%s:%s=%s", s.Source, s.Name, textOrNull(s.Value))
		}
		c.env.printf("  %s=%s sensitive=%t synonyms={%s}\n", entry.Name, textOrNull(entry.Value), entry.IsSensitive, strings.Join(synonyms, ", "))
	}
	return nil
}

func textOrNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

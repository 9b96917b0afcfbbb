package zkcoord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"barnabas/internal/logx"
)

// EntityKind is a kind of entity with a configuration.
type EntityKind string

// The kinds of entities.
const (
	Topics  EntityKind = "topics"
	Brokers EntityKind = "brokers"
	Users   EntityKind = "users"
	Clients EntityKind = "clients"
	IPs     EntityKind = "ips"
)

// entityKinds are in the order in which Apache Kafka reads them at its start.
var entityKinds = []EntityKind{Topics, Clients, Users, IPs, Brokers}

// DefaultEntity is the name of the entity whose configuration applies to those without one.
const DefaultEntity = "<default>"

// Entity is what a configuration belongs to. Names of users and client ids are encoded (SanitizeName); the entity for a
// user's client id is created by UserClient.
type Entity struct {
	Kind EntityKind
	Name string
}

const userClientsLevel = "/clients/"

// UserClient returns the entity of a user's client id; both must be encoded, or DefaultEntity.
func UserClient(user, client string) Entity { return Entity{Users, user + userClientsLevel + client} }

// UserAndClient returns the user and client id of an entity from UserClient; ok is false for any other.
func (e Entity) UserAndClient() (user, client string, ok bool) {
	if e.Kind != Users {
		return "", "", false
	}
	return strings.Cut(e.Name, userClientsLevel)
}

// quota reports whether the entity's node is removed when it gets empty.
func (e Entity) quota() bool { return e.Kind == Users || e.Kind == Clients || e.Kind == IPs }

// Path returns the node with the entity's configuration, relative to the chroot.
func (e Entity) Path() string { return entityPath(string(e.Kind), e.Name) }

// SanitizeName encodes a user's name or a client id for an Entity: URL encoding, which includes blanks, asterisks and
// tildes (Sanitizer, 3.9).
func SanitizeName(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// DesanitizeName decodes what SanitizeName has encoded. Anything else is returned as it is.
func DesanitizeName(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '%' && i+2 < len(name) {
			hi, lo := unhex(name[i+1]), unhex(name[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", upper(c)) }

func upper(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}

type configJSON struct {
	Version int               `json:"version"`
	Config  map[string]string `json:"config"`
}

func encodeConfig(config map[string]string) []byte {
	if config == nil {
		config = map[string]string{}
	}
	return marshal(configJSON{Version: 1, Config: config})
}

// DecodeConfig decodes an entity's configuration; that of an empty node is empty.
func DecodeConfig(data []byte) (map[string]string, error) {
	if len(data) == 0 {
		return map[string]string{}, nil
	}
	var in struct {
		Config map[string]any `json:"config"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	config := make(map[string]string, len(in.Config))
	for key, value := range in.Config {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("configuration: value of %q is not a string", key)
		}
		config[key] = text
	}
	return config, nil
}

// EntityConfig reads an entity's configuration. It is empty if there is no node, or if the node cannot be decoded,
// which is logged (ConfigEntityZNode.decode, 3.9).
func (c *Client) EntityConfig(ctx context.Context, e Entity) (map[string]string, error) {
	n, _, err := c.find(ctx, e.Path())
	if err != nil {
		return nil, err
	}
	return c.decodeOrEmpty(e.Path(), n.data), nil
}

func (c *Client) decodeOrEmpty(path string, data []byte) map[string]string {
	config, err := DecodeConfig(data)
	if err != nil {
		c.log.WithError(err).WithField(logx.Znode, path).Error("cannot decode settings, ignoring them")
		return map[string]string{}
	}
	return config
}

// AllEntityConfigs reads the configurations of all entities of a kind, by name; for Users also those of their clients.
// One that cannot be decoded is logged and counts as empty.
func (c *Client) AllEntityConfigs(ctx context.Context, kind EntityKind) (map[string]map[string]string, error) {
	names, err := c.children(ctx, configPath+"/"+string(kind))
	if err = ignoreNoNode(err); err != nil {
		return nil, err
	}
	if kind == Users {
		clients, err := c.userClients(ctx, names)
		if err != nil {
			return nil, err
		}
		names = append(names, clients...)
	}
	return c.EntityConfigs(ctx, kind, names)
}

// EntityConfigs reads the configurations of the named entities of a kind. One that cannot be decoded is logged and
// counts as empty.
func (c *Client) EntityConfigs(ctx context.Context, kind EntityKind, names []string) (map[string]map[string]string, error) {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = entityPath(string(kind), name)
	}
	found, err := readAll(ctx, c, paths, c.get, func(i int, n node) (map[string]string, error) {
		return c.decodeOrEmpty(paths[i], n.data), nil
	})
	if err != nil {
		return nil, err
	}
	configs := make(map[string]map[string]string, len(names))
	for i, config := range found {
		if config != nil {
			configs[names[i]] = *config
		}
	}
	return configs, nil
}

// NewestEntityConfigs is EntityConfigs up to date, rather than as known to a server that lags behind the others.
func (c *Client) NewestEntityConfigs(ctx context.Context, kind EntityKind, names []string) (map[string]map[string]string, error) {
	if err := c.sync(ctx, configPath); err != nil {
		return nil, err
	}
	return c.EntityConfigs(ctx, kind, names)
}

func (c *Client) userClients(ctx context.Context, users []string) ([]string, error) {
	clients := make([][]string, len(users))
	err := c.parallel(ctx, len(users), func(ctx context.Context, i int) error {
		names, err := c.children(ctx, entityPath(string(Users), users[i])+"/clients")
		for _, name := range names {
			clients[i] = append(clients[i], UserClient(users[i], name).Name)
		}
		return ignoreNoNode(err)
	})
	return slices.Concat(clients...), err
}

// errNoController reports that a configuration cannot be written because there is no controller, or a KRaft controller.
var errNoController = errors.New("zkcoord: no controller to write a configuration under")

// UpdateEntityConfig replaces an entity's configuration with the result of change and notifies all brokers, even if
// nothing has changed: brokers then look again at what settings point to. The node of a quota entity is removed when it
// gets empty. After a concurrent change, change is called again with the newer configuration; its error is returned.
func (c *Client) UpdateEntityConfig(ctx context.Context, e Entity, change func(current map[string]string) (map[string]string, error)) error {
	return c.updateEntityConfig(ctx, e, func(ctx context.Context) ([]any, error) { return c.sameController(ctx, true) }, change)
}

// UpdateTopicConfig is UpdateEntityConfig for a topic, as long as it exists; otherwise the error is ErrNoTopic. What is
// written after a deletion would stay behind: brokers list a topic for a moment longer than it exists.
func (c *Client) UpdateTopicConfig(ctx context.Context, name string, change func(current map[string]string) (map[string]string, error)) error {
	return c.updateEntityConfig(ctx, Entity{Topics, name}, func(ctx context.Context) ([]any, error) {
		found, err := c.exists(ctx, topicPath(name))
		if err == nil && !found { // a new topic may not have got to this server yet
			_, found, err = c.findNewest(ctx, topicPath(name))
		}
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, ErrNoTopic
		}
		check, err := c.sameController(ctx, true)
		return append(check, c.opCheck(topicPath(name), anyVersion)), err
	}, change)
}

// UpdateEntityConfigEarly is UpdateEntityConfig for callers that may run when there is no controller yet: a broker that
// is starting, or a tool used before the first one starts.
func (c *Client) UpdateEntityConfigEarly(ctx context.Context, e Entity, change func(current map[string]string) (map[string]string, error)) error {
	return c.updateEntityConfig(ctx, e, func(ctx context.Context) ([]any, error) { return c.sameController(ctx, false) }, change)
}

func (c *Client) updateEntityConfig(ctx context.Context, e Entity, conditions func(context.Context) ([]any, error), change func(map[string]string) (map[string]string, error)) error {
	at := notifications{configChangesPath, configChangePrefix}
	return c.rewrite(ctx, e.Path(), at, encodeConfigChange(e), func(n node, found bool) (decision, error) {
		next, err := change(c.decodeOrEmpty(e.Path(), n.data))
		if err != nil {
			return decision{}, err
		}
		d := decision{data: encodeConfig(next)}
		if len(next) == 0 && e.quota() {
			if d, err = c.withoutQuota(ctx, e, d); err != nil {
				return decision{}, err
			}
		}
		checks, err := conditions(ctx)
		d.with = append(d.with, checks...)
		return d, err
	})
}

// sameController returns the condition under which configurations are written, that the controller does not change:
// with a KRaft controller, the node would not be ours to write (KIP-866). If wanted is false, there may also be no
// controller, and then there is no condition.
func (c *Client) sameController(ctx context.Context, wanted bool) (check []any, err error) {
	n, found, err := c.find(ctx, controllerPath)
	switch {
	case err != nil:
		return nil, err
	case !found && wanted:
		return nil, errNoController
	case !found:
		return nil, nil
	}
	controller, err := decodeController(n.data)
	if err != nil {
		return nil, err
	}
	if controller.KRaftEpoch != nil && *controller.KRaftEpoch > 0 {
		return nil, errNoController
	}
	return []any{c.opCheck(controllerPath, n.stat.Version)}, nil
}

// withoutQuota removes the node of an entity without children instead of leaving it empty, and the levels above a
// user's client that would be left empty (AdminZkClient.tryCleanQuotaNodes, 3.9).
func (c *Client) withoutQuota(ctx context.Context, e Entity, empty decision) (decision, error) {
	below, err := c.children(ctx, e.Path())
	if ignoreNoNode(err) != nil || len(below) > 0 {
		return empty, err
	}
	d := decision{remove: true}
	if user, client, ok := e.UserAndClient(); ok {
		d.with, err = c.emptiedBy(ctx, user, client)
	}
	return d, ignoreNoNode(err)
}

// emptiedBy returns the removal of the nodes above a user's client that have nothing else below them.
func (c *Client) emptiedBy(ctx context.Context, user, client string) (removal []any, err error) {
	userPath := entityPath(string(Users), user)
	clients, err := c.children(ctx, userPath+"/clients")
	if err != nil || !slices.Equal(clients, []string{client}) {
		return nil, err
	}
	removal = []any{c.opDelete(userPath + "/clients")}
	n, err := c.get(ctx, userPath)
	if err != nil {
		return nil, err
	}
	below, err := c.children(ctx, userPath)
	if err != nil || len(c.decodeOrEmpty(userPath, n.data)) > 0 || len(below) > 1 {
		return removal, err
	}
	return append(removal, c.opDeleteIf(userPath, n.stat.Version)), nil
}

type configChangeJSON struct {
	Version    int    `json:"version"`
	EntityPath string `json:"entity_path,omitempty"`
	EntityType string `json:"entity_type,omitempty"` // version 1
	EntityName string `json:"entity_name,omitempty"` // version 1
}

func encodeConfigChange(e Entity) []byte {
	return marshal(configChangeJSON{Version: 2, EntityPath: string(e.Kind) + "/" + e.Name})
}

// DecodeConfigChange decodes a node below /config/changes, and returns the entity whose settings have changed: from a
// path, or from a type and a name as written by releases before 0.9.
func DecodeConfigChange(data []byte) (Entity, error) {
	var in configChangeJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return Entity{}, fmt.Errorf("configuration change: %w", err)
	}
	kind, name := in.EntityType, in.EntityName
	switch in.Version {
	case 1:
	case 2:
		kind, name, _ = strings.Cut(in.EntityPath, "/")
	default:
		return Entity{}, fmt.Errorf("configuration change: version %d is not known", in.Version)
	}
	e := Entity{EntityKind(kind), name}
	if !slices.Contains(entityKinds, e.Kind) || name == "" {
		return Entity{}, fmt.Errorf("configuration change: it names no settings: %q", kind+"/"+name)
	}
	return e, nil
}

// WatchConfigChanges calls changed for every entity whose configuration was written, until ctx is done; the callee then
// reads it. It begins with all existing notifications. After the session was lost it calls all instead: changes in
// between may have no notification any more, since they are removed after changeExpiry. ready, if not nil, is called
// when the watch is in place, so that no change after a read is missed.
func (c *Client) WatchConfigChanges(ctx context.Context, ready func(), changed func(Entity), all func()) error {
	last := int64(-1)
	return c.followNotifications(ctx, ConfigNotificationsAdded, ready, func(lost bool) error {
		notes, err := c.newNotifications(ctx, notifications{configChangesPath, configChangePrefix}, &last)
		switch {
		case err != nil:
			return err
		case lost:
			all()
		default:
			c.reportConfigChanges(notes, changed)
		}
		return nil
	})
}

// reportConfigChanges reports each entity once.
func (c *Client) reportConfigChanges(notes []notification, changed func(Entity)) {
	reported := make(map[Entity]struct{})
	for _, n := range notes {
		e, err := DecodeConfigChange(n.data)
		if err != nil {
			c.log.WithError(err).WithField(logx.Znode, n.path).Error("notification ignored")
			continue
		}
		if _, again := reported[e]; !again {
			reported[e] = struct{}{}
			changed(e)
		}
	}
}

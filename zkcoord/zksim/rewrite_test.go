package zksim

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"barnabas/internal/testlog"
	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is an ensemble with a controller and two clients.
type cluster struct {
	e             *Ensemble
	client, other *zkcoord.Client
	conn          *Conn // the client's
	direct        *Conn // the other's
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	e := New()
	c := &cluster{e: e}
	c.client, c.conn = connect(t, e)
	c.other, c.direct = connect(t, e)
	for _, create := range []func(context.Context) error{c.client.EnsureTopNodes, c.client.EnsureACLNodes, c.client.EnsureTokenNodes} {
		if err := create(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.direct.Create("/controller", []byte(`{"brokerid":1}`), zk.FlagEphemeral, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// afterLoss loses the response to the first request after which the node is as wanted, and lets others act before the
// client knows. It returns whether that has happened.
func (c *cluster) afterLoss(wanted func() bool, act func()) (happened *bool) {
	happened = new(bool)
	c.conn.Wait = func() {
		if !*happened && wanted() {
			*happened = true
			c.conn.Break()
			act()
		}
		c.conn.Restore()
	}
	return happened
}

func (c *cluster) version(path string) int32 {
	found, stat, err := c.direct.Exists(path)
	if err != nil || !found {
		return -1
	}
	return stat.Version
}

func (c *cluster) notes(path string) int {
	names, _, _ := c.direct.Children(path)
	return len(names)
}

// with sets one setting.
func with(key, value string) func(map[string]string) (map[string]string, error) {
	return func(settings map[string]string) (map[string]string, error) {
		settings[key] = value
		return settings, nil
	}
}

func none(map[string]string) (map[string]string, error) { return nil, nil }

var (
	topic = zkcoord.Entity{Kind: zkcoord.Topics, Name: "t"}
	pair  = zkcoord.UserClient("alice", "app")
	token = zkcoord.DelegationToken{ID: "a", Owner: "User:alice", Requester: "User:alice", ExpiresMs: 1, MaxMs: 9}
	acls  = zkcoord.ACLResource{Type: kmsg.ACLResourceTypeTopic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Name: "t"}
	reads = zkcoord.ACLEntry{Principal: "User:alice", Host: "*", Operation: kmsg.ACLOperationRead, Permission: kmsg.ACLPermissionTypeAllow}
)

// announced are the writes that brokers announce to each other.
var announced = []struct {
	name, node, notes string
	first             func(context.Context, *zkcoord.Client) error // brings about what is changed; may be nil
	change            func(context.Context, *zkcoord.Client) error
}{
	{"new settings", topic.Path(), "/config/changes", nil, func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateEntityConfig(ctx, topic, with("k", "v"))
	}},
	{"changed settings", topic.Path(), "/config/changes", func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateEntityConfig(ctx, topic, with("k", "v"))
	}, func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateEntityConfig(ctx, topic, with("k", "w"))
	}},
	{"removed quotas", pair.Path(), "/config/changes", func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateEntityConfig(ctx, pair, with("k", "v"))
	}, func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateEntityConfig(ctx, pair, none)
	}},
	{"new token", token.Path(), "/delegation_token/token_changes", nil, func(ctx context.Context, c *zkcoord.Client) error {
		return c.CreateDelegationToken(ctx, token)
	}},
	{"renewed token", token.Path(), "/delegation_token/token_changes", func(ctx context.Context, c *zkcoord.Client) error {
		return c.CreateDelegationToken(ctx, token)
	}, func(ctx context.Context, c *zkcoord.Client) error {
		_, err := c.SetTokenExpiry(ctx, token.ID, 2)
		return err
	}},
	{"removed token", token.Path(), "/delegation_token/token_changes", func(ctx context.Context, c *zkcoord.Client) error {
		return c.CreateDelegationToken(ctx, token)
	}, func(ctx context.Context, c *zkcoord.Client) error {
		return c.DeleteDelegationToken(ctx, token.ID)
	}},
	{"new ACL", acls.Path(), "/kafka-acl-changes", nil, func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateACLs(ctx, acls, func([]zkcoord.ACLEntry) []zkcoord.ACLEntry { return []zkcoord.ACLEntry{reads} })
	}},
	{"removed ACL", acls.Path(), "/kafka-acl-changes", func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateACLs(ctx, acls, func([]zkcoord.ACLEntry) []zkcoord.ACLEntry { return []zkcoord.ACLEntry{reads} })
	}, func(ctx context.Context, c *zkcoord.Client) error {
		return c.UpdateACLs(ctx, acls, func([]zkcoord.ACLEntry) []zkcoord.ACLEntry { return nil })
	}},
}

// TestWritesAreAnnouncedAtOnce: there is no time at which a change is written and not announced, so that a broker that
// dies does not leave others uninformed. A lost response causes neither a second write nor a second announcement.
func TestWritesAreAnnouncedAtOnce(t *testing.T) {
	ctx := context.Background()
	for _, test := range announced {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			if test.first != nil {
				if err := test.first(ctx, c.client); err != nil {
					t.Fatal(err)
				}
			}
			version, notes := c.version(test.node), c.notes(test.notes)
			changed := func() bool { return c.version(test.node) != version }
			lost := c.afterLoss(changed, func() {
				if c.notes(test.notes) == notes {
					t.Error("the change is not announced")
				}
			})
			if err := test.change(ctx, c.client); err != nil || !*lost {
				t.Errorf("%v, a response was lost: %v", err, *lost)
			}
			if got := c.notes(test.notes); got != notes+1 {
				t.Errorf("%d announcements", got-notes)
			}
			if now := c.version(test.node); now != -1 && now != version+1 {
				t.Errorf("version %d after %d", now, version)
			}
		})
	}
}

// TestEmptiedQuotaNodesGoTogether: with a client's quotas the levels above it vanish that have nothing else.
func TestEmptiedQuotaNodesGoTogether(t *testing.T) {
	ctx := context.Background()
	second := zkcoord.UserClient("alice", "second")
	user := zkcoord.Entity{Kind: zkcoord.Users, Name: "alice"}
	for _, test := range []struct {
		name   string
		others []zkcoord.Entity
		left   []string // of the user, its clients, and the client
		gone   []string
	}{
		{"nothing else", nil, nil, []string{user.Path()}},
		{"the user has settings", []zkcoord.Entity{user}, []string{user.Path()}, []string{user.Path() + "/clients"}},
		{"another client", []zkcoord.Entity{second}, []string{second.Path()}, []string{pair.Path()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			for _, e := range append(test.others, pair) {
				if err := c.client.UpdateEntityConfig(ctx, e, with("k", "v")); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.client.UpdateEntityConfig(ctx, pair, none); err != nil {
				t.Fatal(err)
			}
			for _, path := range test.left {
				if c.version(path) < 0 {
					t.Errorf("%s is gone", path)
				}
			}
			for _, path := range test.gone {
				if c.version(path) >= 0 {
					t.Errorf("%s is still there", path)
				}
			}
		})
	}
}

// TestNewerSettingsStay: what others write after an attempt whose response was lost, or between the read and the write,
// is not overwritten.
func TestNewerSettingsStay(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct {
		name string
		at   int32 // version of the node when others write
		want map[string]string
	}{
		{"between the read and the write", 0, map[string]string{"first": "1", "ours": "1", "theirs": "1"}},
		{"after a lost response", 1, map[string]string{"first": "1", "ours": "1", "theirs": "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			if err := c.client.UpdateEntityConfig(ctx, topic, with("first", "1")); err != nil {
				t.Fatal(err)
			}
			reads := 0
			wrote := c.afterLoss(func() bool { return c.version(topic.Path()) == test.at && reads > 0 }, func() {
				if err := c.other.UpdateEntityConfig(ctx, topic, with("theirs", "1")); err != nil {
					t.Error(err)
				}
			})
			err := c.client.UpdateEntityConfig(ctx, topic, func(settings map[string]string) (map[string]string, error) {
				reads++
				return with("ours", "1")(maps.Clone(settings))
			})
			if err != nil || !*wrote {
				t.Fatalf("%v, others wrote: %v", err, *wrote)
			}
			got, err := c.client.EntityConfig(ctx, topic)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

// lagging is a connection to a server that does not have the nodes of topics until it is asked to sync.
type lagging struct {
	*Conn
	synced bool
}

func (c *lagging) hides(path string) bool {
	return !c.synced && strings.HasPrefix(path, "/brokers/topics/")
}

func (c *lagging) Exists(path string) (bool, *zk.Stat, error) {
	if c.hides(path) {
		return false, &zk.Stat{}, nil
	}
	return c.Conn.Exists(path)
}

func (c *lagging) Get(path string) ([]byte, *zk.Stat, error) {
	if c.hides(path) {
		return nil, nil, zk.ErrNoNode
	}
	return c.Conn.Get(path)
}

func (c *lagging) Sync(path string) (string, error) {
	c.synced = true
	return c.Conn.Sync(path)
}

// TestSettingsOfANewTopic: settings of a topic that the controller has just created are stored, even if the ZooKeeper
// server that the broker is connected to does not have it yet.
func TestSettingsOfANewTopic(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	if _, err := c.other.CreateTopic(ctx, topic.Name, map[int32][]int32{0: {1}}, nil); err != nil {
		t.Fatal(err)
	}
	behind, _ := c.e.ConnectBy(zkcoord.Config{Logger: testlog.Quiet()}, func(conn *Conn) zkcoord.Conn { return &lagging{Conn: conn} })
	if err := behind.UpdateTopicConfig(ctx, topic.Name, with("k", "v")); err != nil {
		t.Error(err)
	}
	if settings, err := c.other.EntityConfig(ctx, topic); err != nil || settings["k"] != "v" {
		t.Errorf("the settings are %v, %v", settings, err)
	}
}

// TestSettingsOfADeletedTopic: a topic that is deleted while its settings are changed, leaves none behind.
func TestSettingsOfADeletedTopic(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	if err := c.client.UpdateTopicConfig(ctx, topic.Name, with("k", "v")); !errors.Is(err, zkcoord.ErrNoTopic) {
		t.Errorf("no topic: %v", err)
	}
	if _, err := c.client.CreateTopic(ctx, topic.Name, map[int32][]int32{0: {1}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.client.UpdateTopicConfig(ctx, topic.Name, with("k", "v")); err != nil {
		t.Fatal(err)
	}
	err := c.client.UpdateTopicConfig(ctx, topic.Name, func(map[string]string) (map[string]string, error) {
		for _, path := range []string{"/brokers/topics/t", topic.Path()} { // in the order of the controller
			if err := c.direct.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
		}
		return with("k", "w")(map[string]string{})
	})
	if !errors.Is(err, zkcoord.ErrNoTopic) || c.version(topic.Path()) != -1 {
		t.Errorf("deleted meanwhile: %v, the settings have version %d", err, c.version(topic.Path()))
	}
}

// TestRemovedTokenStaysRemoved: a renewal does not bring back a token that others remove meanwhile.
func TestRemovedTokenStaysRemoved(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	if err := c.client.CreateDelegationToken(ctx, token); err != nil {
		t.Fatal(err)
	}
	removed := c.afterLoss(func() bool { return c.version(token.Path()) == 1 }, func() {
		if err := c.other.DeleteDelegationToken(ctx, token.ID); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.client.SetTokenExpiry(ctx, token.ID, 2); !errors.Is(err, kerr.DelegationTokenNotFound) || !*removed {
		t.Errorf("%v, removed: %v", err, *removed)
	}
	if _, found, err := c.client.DelegationToken(ctx, token.ID); found || err != nil {
		t.Errorf("it is back: %v, %v", found, err)
	}
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"barnabas/broker/quota"
	"barnabas/config"
	"barnabas/internal/testwait"
	"barnabas/logstore"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zksim"
	"barnabas/zkcoord/zktest"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// TestSettingsOfAFormerTopic: settings that were read while a topic was being deleted, after it had been forgotten, are
// not those of the next topic with its name.
func TestSettingsOfAFormerTopic(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := rawZooKeeper(t, connect)
	former := []byte(`{"version":1,"config":{"retention.ms":"1234"}}`)
	if _, err := direct.Create("/config/topics/t", former, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if err := s.topics.reload(t.Context(), "t"); err != nil { // as after its notification, which comes late
		t.Fatal(err)
	}
	if _, err := s.zk.CreateTopic(t.Context(), "t", map[int32][]int32{0: {1}}, map[string]string{"retention.ms": "5678"}); err != nil {
		t.Fatal(err)
	}
	tp := logstore.TopicPartition{Topic: "t"}
	testwait.Until(t, "the log", func() bool { _, ok := s.logs.Log(tp); return ok })
	if l, _ := s.logs.Log(tp); l.Config().RetentionTime != 5678*time.Millisecond {
		t.Errorf("the log keeps records for %v", l.Config().RetentionTime)
	}
}

// TestSettingsAfterANotificationThatCannotBeRead: settings take effect although notifications could not be read for a
// while.
func TestSettingsAfterANotificationThatCannotBeRead(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := rawZooKeeper(t, connect)
	if err := direct.AddAuth("digest", []byte("u:p")); err != nil {
		t.Fatal(err)
	}
	secret, err := direct.Create("/config/changes/config_change_", nil, zk.FlagSequence, zk.DigestACL(zk.PermAll, "u", "p"))
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", map[string]string{"max.connections": "77"})
	testwait.Until(t, "what is read again", func() bool { return s.config.Current().MaxConnections == 77 })
	if err := direct.Delete(secret, -1); err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", map[string]string{"max.connections": "78"})
	testwait.Until(t, "what is announced afterwards", func() bool { return s.config.Current().MaxConnections == 78 })
}

// TestSettingsAreReadAgain: settings that could not be read when they changed, because ZooKeeper refused to answer, are
// in force a little later.
func TestSettingsAreReadAgain(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.zk.CreateTopic(t.Context(), "t", map[int32][]int32{0: {1}}, nil); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the topic", func() bool { return s.metadata.Current().Topics["t"] != nil && s.topics.has("t") })
	secret := secretNodes(t, connect)
	limited := func() bool { return s.quotas.Any(quota.Produce) }
	for _, c := range []struct {
		kind, name, setting string
		value               string
		inForce             func() bool
	}{
		{"topics", "t", "retention.ms", "5678", func() bool { return s.topics.get("t").Retention == 5678*time.Millisecond }},
		{"brokers", "1", "max.connections", "77", func() bool { return s.config.Current().MaxConnections == 77 }},
		{"users", "alice", "producer_byte_rate", "1024", limited},
	} {
		t.Run(c.kind, func(t *testing.T) {
			path := "/config/" + c.kind + "/" + c.name
			reveal := secret(path, fmt.Sprintf(`{"version":1,"config":{"%s":"%s"}}`, c.setting, c.value))
			s.entityChanged(entity(c.kind, c.name)) // as after its notification
			if c.inForce() {
				t.Fatal("the settings could be read")
			}
			reveal()
			testwait.Until(t, "the settings", c.inForce)
		})
	}
}

// TestAllSettingsAreReadAgain: the same for changes that are read because notifications may have been missed.
func TestAllSettingsAreReadAgain(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	reveal := secretNodes(t, connect)("/config/topics/t", `{"version":1,"config":{"retention.ms":"5678"}}`)
	s.settingsMissed()
	reveal()
	testwait.Until(t, "the settings", func() bool { return s.topics.get("t").Retention == 5678*time.Millisecond })
}

// TestSettingsOfANewTopicAreReadAgain: a topic whose settings could not be read when its first log was created gets
// them a little later.
func TestSettingsOfANewTopicAreReadAgain(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	reveal := secretNodes(t, connect)("/config/topics/t", `{"version":1,"config":{"retention.ms":"5678"}}`)
	direct := rawZooKeeper(t, connect)
	if _, err := direct.Create("/brokers/topics/t", []byte(`{"version":3,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}`), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	tp := logstore.TopicPartition{Topic: "t"}
	testwait.Until(t, "the log", func() bool { _, ok := s.logs.Log(tp); return ok })
	reveal()
	testwait.Until(t, "the settings", func() bool {
		l, _ := s.logs.Log(tp)
		return l.Config().RetentionTime == 5678*time.Millisecond
	})
}

// TestFeaturesAreReadAgain: the same for the cluster's finalized features.
func TestFeaturesAreReadAgain(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	reveal := secretNodes(t, connect)("/feature", `{"version":1,"status":1,"features":{"x":{"min_version_level":1,"max_version_level":3}}}`)
	testwait.Until(t, "the failed read", func() bool { return s.isPending("finalized features") })
	reveal()
	testwait.Until(t, "the features", func() bool { return s.features.Load().Levels["x"] == 3 })
}

// isPending reports whether a change could not be applied yet.
func (s *Server) isPending(what string) bool {
	s.pending.Lock()
	defer s.pending.Unlock()
	_, is := s.pending.again[what]
	return is
}

// secretNodes returns a function that writes a node which the broker may not read until reveal is called.
func secretNodes(t *testing.T, connect string) func(path, content string) (reveal func()) {
	t.Helper()
	direct := rawZooKeeper(t, connect)
	if err := direct.AddAuth("digest", []byte("u:p")); err != nil {
		t.Fatal(err)
	}
	return func(path, content string) func() {
		t.Helper()
		_, err := direct.Create(path, nil, 0, zk.DigestACL(zk.PermAll, "u", "p"))
		if errors.Is(err, zk.ErrNodeExists) {
			_, err = direct.SetACL(path, zk.DigestACL(zk.PermAll, "u", "p"), -1)
		}
		if err == nil {
			_, err = direct.Set(path, []byte(content), -1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if _, err := direct.SetACL(path, zk.WorldACL(zk.PermAll), -1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// behind is a connection to a server that does not know any settings until it has caught up with the others.
type behind struct {
	*zksim.Conn
	caughtUp int // how often
}

func (b *behind) Get(path string) ([]byte, *zk.Stat, error) {
	if b.caughtUp == 0 && strings.HasPrefix(path, "/config/") {
		return nil, nil, zk.ErrNoNode
	}
	return b.Conn.Get(path)
}

func (b *behind) Sync(path string) (string, error) {
	b.caughtUp++
	return b.Conn.Sync(path)
}

// TestSettingsOfNewTopicsAtAServerBehind: new topics have their settings although this broker's ZooKeeper server lags
// behind that of the controller, and it has to catch up only once for all of them.
func TestSettingsOfNewTopicsAtAServerBehind(t *testing.T) {
	dynamic, log := defaultSettings(t), zktest.Logger(t)
	servers := zksim.New()
	there, direct := servers.Connect(zkcoord.Config{Logger: log})
	if err := there.EnsureTopNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Create("/controller", []byte(`{"brokerid":1}`), zk.FlagEphemeral, nil); err != nil {
		t.Fatal(err)
	}
	server := new(behind)
	here, _ := servers.ConnectBy(zkcoord.Config{Logger: log}, func(c *zksim.Conn) zkcoord.Conn { server.Conn = c; return server })
	configs := newTopicConfigs(dynamic, here, log)
	wanted := make(map[string]bool)
	for _, topic := range []string{"a", "b", "c"} {
		if _, err := there.CreateTopic(t.Context(), topic, map[int32][]int32{0: {1}}, map[string]string{"retention.ms": "5678"}); err != nil {
			t.Fatal(err)
		}
		wanted[topic] = true
	}
	configs.readNew(t.Context(), wanted)
	for topic := range wanted {
		if got := configs.logConfig(topic).RetentionTime; got != 5678*time.Millisecond {
			t.Errorf("%s keeps records for %v", topic, got)
		}
	}
	if server.caughtUp != 1 {
		t.Errorf("the server had to catch up %d times", server.caughtUp)
	}
	configs.forget("a")
	if got := configs.logConfigOfNew(t.Context(), "a").RetentionTime; got != 5678*time.Millisecond {
		t.Errorf("a log that is created after its topic was forgotten keeps records for %v", got)
	}
}

// refusing is a connection that may not read settings of topics.
type refusing struct{ *zksim.Conn }

func (r refusing) Get(path string) ([]byte, *zk.Stat, error) {
	if strings.HasPrefix(path, "/config/topics/") {
		return nil, nil, zk.ErrNoAuth
	}
	return r.Conn.Get(path)
}

// TestRefusedSettingsOfNewTopics: a topic of many partitions whose settings may not be read costs one log line a second.
func TestRefusedSettingsOfNewTopics(t *testing.T) {
	log, lines := test.NewNullLogger()
	here, _ := zksim.New().ConnectBy(zkcoord.Config{Logger: logrus.NewEntry(log)}, func(c *zksim.Conn) zkcoord.Conn { return refusing{c} })
	configs := newTopicConfigs(defaultSettings(t), here, logrus.NewEntry(log))
	configs.lines.Interval = time.Hour
	unread := 0
	configs.unread = func(string) { unread++ }
	for range 100 {
		configs.logConfigOfNew(t.Context(), "t")
	}
	if got := len(lines.AllEntries()); got != 1 || unread != 100 {
		t.Errorf("%d lines, the topic was reported %d times", got, unread)
	}
}

// TestUnreadSettingsOfNewTopicsAtAStop: a broker that stops does not complain about settings that it no longer reads, and
// still reports the topic.
func TestUnreadSettingsOfNewTopicsAtAStop(t *testing.T) {
	log, lines := test.NewNullLogger()
	here, _ := zksim.New().ConnectBy(zkcoord.Config{Logger: logrus.NewEntry(log)}, func(c *zksim.Conn) zkcoord.Conn { return refusing{c} })
	configs := newTopicConfigs(defaultSettings(t), here, logrus.NewEntry(log))
	unread := 0
	configs.unread = func(string) { unread++ }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	configs.logConfigOfNew(ctx, "t")
	if got := lines.AllEntries(); len(got) != 0 || unread != 1 {
		t.Errorf("%d lines, the topic was reported %d times", len(got), unread)
	}
}

func defaultSettings(t *testing.T) *config.Dynamic {
	t.Helper()
	c, err := config.Parse(map[string]string{"zookeeper.connect": "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	return config.NewDynamic(c, zktest.Logger(t))
}

package broker

import (
	"fmt"
	"testing"
	"time"

	"barnabas/broker/quota"
	"barnabas/internal/testwait"
	"barnabas/logstore"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zkserver"
	"barnabas/zkcoord/zktest"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSettingsThatChangedWhileTheSessionWasLost: such settings take effect although their notifications, which are
// deleted after 15 minutes, no longer exist.
func TestSettingsThatChangedWhileTheSessionWasLost(t *testing.T) {
	connect := zookeeper(t)
	proxy := zktest.NewProxy(t, connect)
	s := newServer(t, proxy.Connect, map[string]string{"zookeeper.session.timeout.ms": "3000"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := connectTo(t, s.Addr("PLAINTEXT"))
	makeTopic(t, root, "t")
	makeTopic(t, root, "u")
	m := mechanism(t)
	salted, err := m.Salt("pw", []byte("salt"), 4096)
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "topics", "u", map[string]string{"min.insync.replicas": "3"})
	set(t, s, "users", "alice", map[string]string{sha256: m.Credential([]byte("salt"), salted, 4096), "producer_byte_rate": "1000"})
	testwait.Until(t, "what is set first", func() bool {
		_, has := s.credentials.User(sha256, "alice")
		return has && s.quotas.Any(quota.Produce) && s.topics.get("u").MinInsyncReplicas == 3
	})

	direct := rawZooKeeper(t, connect)
	_, _, gone, err := direct.ExistsW("/brokers/ids/1")
	if err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	<-gone // the session has expired
	for path, data := range map[string]string{
		"/config/topics/t":          `{"version":1,"config":{"min.insync.replicas":"2","retention.ms":"1234"}}`,
		"/config/topics/u":          `{"version":1,"config":{}}`,
		"/config/users/alice":       "",
		"/config/clients/c":         `{"version":1,"config":{"consumer_byte_rate":"1000"}}`,
		"/config/brokers/<default>": `{"version":1,"config":{"log.retention.bytes":"5678"}}`,
	} {
		err := direct.Delete(path, -1)
		if data != "" {
			_, err = direct.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
		}
		if err != nil {
			t.Fatal(path, err)
		}
	}
	finalized := func(level int) {
		data := fmt.Sprintf(`{"features":{"f":{"max_version_level":%d}},"version":2,"status":1}`, level)
		if _, err := direct.Set("/feature", []byte(data), -1); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, fmt.Sprintf("feature level %d", level), func() bool { return s.features.Load().Levels["f"] == int16(level) })
	}
	proxy.Heal()
	testwait.Until(t, "what was changed meanwhile", func() bool {
		_, has := s.credentials.User(sha256, "alice")
		l, _ := s.logs.Log(logstore.TopicPartition{Topic: "t"})
		return !has && !s.quotas.Any(quota.Produce) && s.quotas.Any(quota.Fetch) && s.topics.get("t").MinInsyncReplicas == 2 &&
			s.topics.get("u").MinInsyncReplicas == 1 && l.Config().RetentionTime == 1234*time.Millisecond && s.config.Current().LogRetentionBytes == 5678
	})
	testwait.Until(t, "a controller", func() bool {
		_, _, err := direct.Get("/controller") // the earlier node vanished with its session
		return err == nil
	})
	finalized(1)
	finalized(2)
	set(t, s, string(zkcoord.Topics), "t", map[string]string{"min.insync.replicas": "1"})
	testwait.Until(t, "what is changed afterwards", func() bool { return s.topics.get("t").MinInsyncReplicas == 1 })
}

// TestTopicsForgottenWhileSettingsAreRead: settings read for a topic that was deleted meanwhile are not kept for the
// next topic of that name.
func TestTopicsForgottenWhileSettingsAreRead(t *testing.T) {
	proxy := zktest.NewProxy(t, zookeeper(t))
	s := newServer(t, proxy.Connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := connectTo(t, s.Addr("PLAINTEXT"))
	makeTopic(t, root, "t")
	for what, read := range map[string]func() error{
		"all": func() error { _, err := s.topics.loadAll(t.Context()); return err },
		"one": func() error { return s.topics.reload(t.Context(), "t") },
	} {
		t.Run(what, func(t *testing.T) {
			if err := s.topics.reload(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			proxy.Hold()
			done := make(chan error)
			go func() { done <- read() }()
			testwait.Until(t, "reading", func() bool {
				idle := s.topics.loading.TryLock()
				if idle {
					s.topics.loading.Unlock()
				}
				return !idle
			})
			s.topics.forget("t")
			proxy.Heal()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if s.topics.has("t") {
				t.Error("the settings are still known")
			}
		})
	}
}

// TestSettingsWhoseNodeIsGone: a missing znode means no settings, and new ones can be added.
func TestSettingsWhoseNodeIsGone(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := rawZooKeeper(t, connect)
	if err := direct.Delete("/config/topics", -1); err != nil {
		t.Fatal(err)
	}
	s.settingsMissed()
	if err := s.topics.reload(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
}

// TestStopWhileSettingsAreRead: a broker stops although ZooKeeper, which it asks for the settings of a new topic, does not
// answer.
func TestStopWhileSettingsAreRead(t *testing.T) {
	ensemble, err := zkserver.Open(zkserver.Config{TickTime: 200 * time.Millisecond})
	if err == nil {
		err = ensemble.Listen("127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, ensemble.Addr().String(), nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := connectTo(t, s.Addr("PLAINTEXT"))
	if err := ensemble.Close(); err != nil {
		t.Fatal(err)
	}
	partition := kmsg.NewLeaderAndISRRequestTopicPartition()
	partition.Leader, partition.ISR, partition.Replicas, partition.IsNew = s.id, []int32{s.id}, []int32{s.id}, true
	topic := kmsg.NewLeaderAndISRRequestTopicState()
	topic.Topic, topic.PartitionStates = "new", append(topic.PartitionStates, partition)
	req := kmsg.NewPtrLeaderAndISRRequest()
	req.Version = 2
	req.ControllerID, req.ControllerEpoch, req.BrokerEpoch, req.TopicStates = s.id, 1, s.epoch.Load(), append(req.TopicStates, topic)
	answered, stopped := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := client.Do(t.Context(), req)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("answered without settings: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	go func() { s.Close(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(time.Minute): // it waits for ZooKeeper
		t.Fatal("the broker does not stop")
	}
}

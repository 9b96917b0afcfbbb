package broker

import (
	"testing"
	"time"

	"barnabas/logstore"

	"github.com/go-zookeeper/zk"
)

// TestSettingsOfAFormerTopic: settings that were read while a topic was being deleted, after it had been forgotten, are
// not those of the next topic with its name.
func TestSettingsOfAFormerTopic(t *testing.T) {
	connect := zookeeper(t)
	s := newServer(t, connect, nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct, _, err := zk.Connect([]string{connect}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
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
	eventually(t, "the log", func() bool { _, ok := s.logs.Log(tp); return ok })
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
	direct, _, err := zk.Connect([]string{connect}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.Close)
	if err := direct.AddAuth("digest", []byte("u:p")); err != nil {
		t.Fatal(err)
	}
	secret, err := direct.Create("/config/changes/config_change_", nil, zk.FlagSequence, zk.DigestACL(zk.PermAll, "u", "p"))
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", map[string]string{"max.connections": "77"})
	eventually(t, "what is read again", func() bool { return s.config.Current().MaxConnections == 77 })
	if err := direct.Delete(secret, -1); err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", map[string]string{"max.connections": "78"})
	eventually(t, "what is announced afterwards", func() bool { return s.config.Current().MaxConnections == 78 })
}

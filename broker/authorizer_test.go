package broker

import (
	"strings"
	"testing"
	"time"

	"barnabas/config"

	"github.com/go-zookeeper/zk"
)

// rawZooKeeper returns a session of its own, beside the broker's.
func rawZooKeeper(t *testing.T, address string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// TestUnreadableACLsEndTheStart: the start fails with a line that names the znode, since what those ACLs deny would
// otherwise be allowed.
func TestUnreadableACLsEndTheStart(t *testing.T) {
	address := zookeeper(t)
	conn := rawZooKeeper(t, address)
	for _, path := range []string{"/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Topic/a", "/kafka-acl/Topic/b"} {
		if _, err := conn.Create(path, []byte("{"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	settings := map[string]string{"authorizer.class.name": config.ACLAuthorizer, "allow.everyone.if.no.acl.found": "true"}
	for _, want := range []string{"1 other nodes", "/kafka-acl/Topic/a"} {
		err := newServer(t, address, settings).Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "/kafka-acl/Topic/") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
		_ = conn.Delete("/kafka-acl/Topic/b", -1)
	}
	if _, err := conn.Set("/kafka-acl/Topic/a", []byte(`{"version":1,"acls":[]}`), -1); err != nil {
		t.Fatal(err)
	}
	if err := newServer(t, address, settings).Start(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestACLsOfTheirOwnPlace: authorizer.zookeeper.url names the ZooKeeper that stores the ACLs.
func TestACLsOfTheirOwnPlace(t *testing.T) {
	address := zookeeper(t)
	s := newServer(t, address+"/cluster", map[string]string{"authorizer.class.name": config.ACLAuthorizer, "authorizer.zookeeper.url": address + "/acls"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := rawZooKeeper(t, address)
	for path, want := range map[string]bool{"/acls/kafka-acl/Topic": true, "/cluster/kafka-acl": false, "/acls/brokers": false} {
		if found, _, err := conn.Exists(path); err != nil || found != want {
			t.Errorf("%s: %v, %v", path, found, err)
		}
	}
}

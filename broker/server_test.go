package broker

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zkserver"
)

func zookeeper(t *testing.T) string {
	t.Helper()
	zk, err := zkserver.Open(zkserver.Config{TickTime: 200 * time.Millisecond})
	if err == nil {
		err = zk.Listen("127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zk.Close() })
	return zk.Addr().String()
}

func newServer(t *testing.T, zk string, settings map[string]string) *Server {
	t.Helper()
	props := map[string]string{"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": t.TempDir(), "zookeeper.connect": zk,
		"zookeeper.session.timeout.ms": "6000"}
	maps.Copy(props, settings)
	cfg, err := config.Parse(props)
	if err != nil {
		t.Fatal(err)
	}
	s := New(cfg, testlog.Quiet().Logger)
	t.Cleanup(s.Close)
	return s
}

func TestStartIsRefusedWithOneClearLine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	tests := []struct {
		name     string
		settings map[string]string
		want     []string // the setting and its value
	}{
		{"znode protection", map[string]string{"zookeeper.set.acl": "true"}, []string{"zookeeper.set.acl=true"}},
		{"ZooKeeper over TLS", map[string]string{"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": "/nowhere/ca.pem"},
			[]string{"zookeeper.ssl.truststore.location=/nowhere/ca.pem"}},
		{"revoked certificates", map[string]string{"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.crl.enable": "true"}, []string{"zookeeper.ssl.crl.enable=true"}},
		{"policy", map[string]string{"create.topic.policy.class.name": "org.example.Policy"}, []string{"create.topic.policy.class.name=org.example.Policy"}},
		{"tiered storage", map[string]string{"remote.log.storage.system.enable": "true"}, []string{"remote.log.storage.system.enable=true"}},
		{"SASL by Kerberos", map[string]string{"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"},
			[]string{"listener.name.sasl_plaintext.gssapi.sasl.jaas.config", "SASL_PLAINTEXT", "Krb5LoginModule"}},
		{"SASL by Kerberos without its configuration", map[string]string{"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "security.inter.broker.protocol": "SASL_PLAINTEXT",
			"java.security.krb5.conf": "/nowhere/krb5.conf", "sasl.kerberos.service.name": "kafka",
			"listener.name.sasl_plaintext.gssapi.sasl.jaas.config": `com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/nowhere/keytab" principal="kafka/x@Y";`},
			[]string{"java.security.krb5.conf", "/nowhere/krb5.conf"}},
		{"a log directory twice", map[string]string{"log.dirs": "/nowhere/a,/nowhere/a"}, []string{"log.dirs", "/nowhere/a"}},
		{"no ZooKeeper", map[string]string{"zookeeper.connect": ""}, []string{"zookeeper.connect=: no host is given"}},
		{"no place for an embedded ZooKeeper", map[string]string{"log.dirs": "/proc/x", "zookeeper.embedded": "true", "zookeeper.connect": "127.0.0.1:0"},
			[]string{"log.dirs=/proc/x", "/proc/zookeeper"}},
		{"port in use", map[string]string{"listeners": "PLAINTEXT://" + busy.Addr().String()}, []string{"listeners", busy.Addr().String()}},
	}
	zk := zookeeper(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := newServer(t, zk, test.settings).Start(t.Context())
			if err == nil {
				t.Fatal("the start succeeded")
			}
			for _, part := range test.want {
				if text := err.Error(); !strings.Contains(text, part) || strings.Contains(text, "\n") {
					t.Errorf("%q does not mention %s in one line", text, part)
				}
			}
		})
	}
}

func TestSecondBrokerWithTheSameID(t *testing.T) {
	zk := zookeeper(t)
	first := newServer(t, zk, nil)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := newServer(t, zk, nil)
	err := second.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1") {
		t.Fatalf("a second broker 1: %v", err)
	}
}

func TestGeneratedBrokerIDIsKept(t *testing.T) {
	zk, dir := zookeeper(t), t.TempDir()
	settings := map[string]string{"broker.id": "-1", "log.dirs": dir}
	for range 2 {
		s := newServer(t, zk, settings)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.ID() != 1001 {
			t.Fatalf("the id is %d", s.ID())
		}
		s.Close()
	}
}

func TestSettingsFromZooKeeperTakeEffectWithoutRestart(t *testing.T) {
	s := newServer(t, zookeeper(t), nil)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.zk.CreateTopic(t.Context(), "t", map[int32][]int32{0: {1}}, nil); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the topic", func() bool { return s.metadata.Current().Topics["t"] != nil })
	testwait.Until(t, "the topic's retention", func() bool { return s.topics.get("t").Retention == 7*24*time.Hour })
	set(t, s, "brokers", "<default>", map[string]string{"log.retention.ms": "1000"})
	testwait.Until(t, "a default for all brokers", func() bool { return s.topics.get("t").Retention == time.Second })
	set(t, s, "brokers", "1", map[string]string{"log.retention.ms": "2000"})
	testwait.Until(t, "this broker's own", func() bool { return s.topics.get("t").Retention == 2*time.Second })
	set(t, s, "topics", "t", map[string]string{"retention.ms": "3000"})
	testwait.Until(t, "the topic's own", func() bool { return s.topics.get("t").Retention == 3*time.Second })
	set(t, s, "brokers", "1", map[string]string{"max.connections": "77"})
	testwait.Until(t, "a limit", func() bool { return s.config.Current().MaxConnections == 77 })
}

func set(t *testing.T, s *Server, kind, name string, values map[string]string) {
	t.Helper()
	err := s.zk.UpdateEntityConfig(t.Context(), entity(kind, name), func(map[string]string) (map[string]string, error) { return values, nil })
	if err != nil {
		t.Fatal(err)
	}
}

func entity(kind, name string) zkcoord.Entity {
	return zkcoord.Entity{Kind: zkcoord.EntityKind(kind), Name: name}
}

// TestGeneratedIDIsThatOfTheLogDirectories: without broker.id, the id found in log.dirs is used, and the start fails if
// they disagree.
func TestGeneratedIDIsThatOfTheLogDirectories(t *testing.T) {
	zk := zookeeper(t)
	first := newServer(t, zk, nil) // creates the cluster's znodes
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster := first.clusterID
	first.Close()
	directory := func(id string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte("version=0\ncluster.id="+cluster+"\n"+id), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, tt := range []struct {
		name    string
		dirs    []string
		id      int32
		problem string
	}{
		{"no directory", []string{t.TempDir()}, 1001, ""},
		{"one that does not say", []string{directory("")}, 1002, ""},
		{"the second one says", []string{directory(""), directory("broker.id=7\n")}, 7, ""},
		{"they disagree", []string{directory("broker.id=7\n"), directory("broker.id=8\n")}, 0, "disagree"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, zk, map[string]string{"broker.id": "-1", "log.dirs": strings.Join(tt.dirs, ",")})
			err := s.Start(t.Context())
			switch {
			case tt.problem == "" && (err != nil || s.id != tt.id):
				t.Errorf("id %d, %v; want %d", s.id, err, tt.id)
			case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
				t.Errorf("started with id %d: %v", s.id, err)
			}
			s.Close()
		})
	}
}

// TestSocketBuffers: sockets get the default send buffer, as in Apache Kafka, but receive buffers only if they are set.
func TestSocketBuffers(t *testing.T) {
	for _, c := range []struct {
		set           map[string]string
		send, receive int
	}{
		{nil, 102400, 0},
		{map[string]string{"socket.send.buffer.bytes": "-1", "socket.receive.buffer.bytes": "-1"}, 0, 0},
		{map[string]string{"socket.send.buffer.bytes": "5000", "socket.receive.buffer.bytes": "6000"}, 5000, 6000},
	} {
		props := map[string]string{"zookeeper.connect": "localhost"}
		maps.Copy(props, c.set)
		cfg, err := config.Parse(props)
		if err != nil {
			t.Fatal(err)
		}
		if n := new(Server).networkConfig(cfg); n.SendBuffer != c.send || n.ReceiveBuffer != c.receive {
			t.Errorf("with %v: send buffer %d, receive buffer %d", c.set, n.SendBuffer, n.ReceiveBuffer)
		}
	}
}

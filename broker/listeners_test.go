package broker

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"barnabas/config"
	"barnabas/internal/testport"
	"barnabas/internal/testwait"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestListenersChangeWithoutRestart(t *testing.T) {
	s := newServer(t, zookeeper(t), map[string]string{"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain, extra := s.Addr("PLAINTEXT"), testport.Address(t)
	reachable := func(addr string) bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	// known returns what the controller has told all brokers about this broker's listener.
	known := func(listener string) string {
		e, ok := s.metadata.Current().Brokers[s.id].Endpoints[listener]
		if !ok {
			return ""
		}
		return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	epoch := s.epoch.Load()
	set(t, s, "brokers", "1", map[string]string{"listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:0,EXTRA://%s", extra)})
	testwait.Until(t, "the new listener", func() bool { return reachable(extra) && known("EXTRA") == extra })
	if got := s.Addr("PLAINTEXT"); got != plain || !reachable(plain) {
		t.Errorf("the listener that should stay is at %s, was at %s", got, plain)
	}
	moved := testport.Address(t)
	set(t, s, "brokers", "1", map[string]string{"listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:0,EXTRA://%s", moved)})
	testwait.Until(t, "the listener's new address", func() bool { return reachable(moved) && !reachable(extra) && known("EXTRA") == moved })
	set(t, s, "brokers", "1", nil)
	testwait.Until(t, "the end of the listener", func() bool { return !reachable(moved) && known("EXTRA") == "" })
	if now := s.epoch.Load(); now != epoch || !reachable(plain) {
		t.Errorf("the broker epoch was %d and is %d", epoch, now)
	}
}

// TestListenerOnAPortInUse: adding such a listener is refused, and if it is stored nevertheless, the next start fails
// with a line that names the place.
func TestListenerOnAPortInUse(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	zk, dir := zookeeper(t), t.TempDir()
	settings := map[string]string{"log.dirs": dir, "listeners": "PLAINTEXT://" + testport.Address(t), "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"}
	s := newServer(t, zk, settings)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	alter := func(listeners string) error {
		_, err := s.config.AlterBroker(nil, []config.Op{{Key: "listeners", Value: &listeners}})
		return err
	}
	wanted := settings["listeners"] + ",EXTRA://" + busy.Addr().String()
	err = alter(wanted)
	if !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), "listeners=EXTRA://"+busy.Addr().String()) {
		t.Errorf("a port in use: %v", err)
	}
	host, port, _ := net.SplitHostPort(s.Addr("PLAINTEXT"))
	for _, listeners := range []string{settings["listeners"] + ",EXTRA://" + testport.Address(t), "PLAINTEXT://:" + port + ",EXTRA://" + host + ":0"} {
		if err := alter(listeners); err != nil {
			t.Errorf("%s: %v", listeners, err)
		}
	}
	set(t, s, "brokers", "1", map[string]string{"listeners": wanted}) // bypassing the checks, or stored before the port was taken
	testwait.Until(t, "the setting", func() bool { return len(s.config.Current().Listeners) == 2 })
	s.Close()

	err = newServer(t, zk, settings).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "EXTRA://"+busy.Addr().String()) || !strings.Contains(err.Error(), "listeners in /config/brokers/1") {
		t.Errorf("the next start: %v", err)
	}
}

// TestListenerIsOpenedLater: a listener whose port is in use when it is added is opened when the port is free.
func TestListenerIsOpenedLater(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := busy.Addr().String()
	s := newServer(t, zookeeper(t), map[string]string{"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0,EXTRA://" + address})
	testwait.Until(t, "the attempt", func() bool { return s.isPending("listeners") })
	if s.Addr("EXTRA") != "" {
		t.Error("it is advertised")
	}
	_ = busy.Close()
	testwait.Until(t, "the listener", func() bool { return s.Addr("EXTRA") == address })
}

// TestAddressesAreRegisteredLater: addresses that could not be written to ZooKeeper are written later.
func TestAddressesAreRegisteredLater(t *testing.T) {
	address := zookeeper(t)
	s := newServer(t, address, map[string]string{"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct := rawZooKeeper(t, address)
	allow := func(permissions int32) {
		if _, err := direct.SetACL("/brokers/ids/1", zk.WorldACL(permissions), -1); err != nil {
			t.Fatal(err)
		}
	}
	allow(zk.PermRead | zk.PermAdmin)
	set(t, s, "brokers", "1", map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0,EXTRA://" + testport.Address(t)})
	testwait.Until(t, "the attempt", func() bool { return s.isPending("listeners") })
	allow(zk.PermAll)
	testwait.Until(t, "the end of the attempts", func() bool { return !s.isPending("listeners") })
	brokers, err := s.zk.Brokers(t.Context())
	if err != nil || len(brokers) != 1 || len(brokers[0].Endpoints) != 2 {
		t.Errorf("registered is %v, %v", brokers, err)
	}
}

// TestAdvertisedByAnotherBroker: advertising another broker's address is refused, since the next start would fail.
func TestAdvertisedByAnotherBroker(t *testing.T) {
	zk := zookeeper(t)
	first, second := newServer(t, zk, map[string]string{"controlled.shutdown.enable": "false"}), newServer(t, zk, map[string]string{"broker.id": "2"})
	for _, s := range []*Server{first, second} {
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(t, "both brokers", func() bool { return len(second.metadata.Current().Brokers) == 2 })
	taken := "PLAINTEXT://" + first.Addr("PLAINTEXT")
	_, err := second.config.AlterBroker(nil, []config.Op{{Key: "advertised.listeners", Value: &taken}})
	if !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), "advertised.listeners="+taken+": is advertised by broker 1") {
		t.Errorf("got %v", err)
	}
	free := "PLAINTEXT://" + testport.Address(t)
	if _, err := second.config.AlterBroker(nil, []config.Op{{Key: "advertised.listeners", Value: &free}}); err != nil {
		t.Error(err)
	}
}

// TestStoredListenerWithTLS: the start fails, since the listener's clients would be served in plaintext.
func TestStoredListenerWithTLS(t *testing.T) {
	zk, dir := zookeeper(t), t.TempDir()
	s := newServer(t, zk, map[string]string{"log.dirs": dir})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", "max.connections": "77"})
	set(t, s, "brokers", "<default>", map[string]string{"max.connections.per.ip": "78"})
	s.Close()
	err := newServer(t, zk, map[string]string{"log.dirs": dir}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "/config/brokers/1") || !strings.Contains(err.Error(), "SSL") {
		t.Errorf("the next start: %v", err)
	}
}

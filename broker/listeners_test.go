package broker

import (
	"fmt"
	"net"
	"strconv"
	"testing"
)

func TestListenersChangeWithoutRestart(t *testing.T) {
	s := newServer(t, zookeeper(t), map[string]string{"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain, extra := s.Addr("PLAINTEXT"), freeAddr(t)
	reachable := func(addr string) bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	// known is what the controller has told all brokers of this one's listener.
	known := func(listener string) string {
		e, ok := s.metadata.Current().Brokers[s.id].Endpoints[listener]
		if !ok {
			return ""
		}
		return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	epoch := s.epoch.Load()
	set(t, s, "brokers", "1", map[string]string{"listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:0,EXTRA://%s", extra)})
	eventually(t, "the new listener", func() bool { return reachable(extra) && known("EXTRA") == extra })
	if got := s.Addr("PLAINTEXT"); got != plain || !reachable(plain) {
		t.Errorf("the listener that stays is at %s, was at %s", got, plain)
	}
	moved := freeAddr(t)
	set(t, s, "brokers", "1", map[string]string{"listeners": fmt.Sprintf("PLAINTEXT://127.0.0.1:0,EXTRA://%s", moved)})
	eventually(t, "the listener's new address", func() bool { return reachable(moved) && !reachable(extra) && known("EXTRA") == moved })
	set(t, s, "brokers", "1", nil)
	eventually(t, "the end of the listener", func() bool { return !reachable(moved) && known("EXTRA") == "" })
	if now := s.epoch.Load(); now != epoch || !reachable(plain) {
		t.Errorf("the broker's epoch was %d and is %d", epoch, now)
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

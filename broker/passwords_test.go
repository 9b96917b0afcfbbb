package broker

import (
	"strings"
	"testing"

	"barnabas/internal/testwait"
)

// TestStoredPasswordsSurviveANewSecret starts the only broker of a cluster, hence without a controller, with a new
// secret and the old one.
func TestStoredPasswordsSurviveANewSecret(t *testing.T) {
	const name = "listener.name.external.ssl.keystore.password"
	zk, dir := zookeeper(t), t.TempDir()
	start := func(settings map[string]string) *Server {
		settings["log.dirs"] = dir
		s := newServer(t, zk, settings)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start(map[string]string{"password.encoder.secret": "s1"})
	stored, err := s.config.EncodeBroker(map[string]string{name: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "brokers", "1", stored)
	testwait.Until(t, "the password", func() bool { return s.config.Current().String(name) == "hidden" })
	s.Close()

	s = start(map[string]string{"password.encoder.secret": "s2", "password.encoder.old.secret": "s1"})
	if got := s.config.Current().String(name); got != "hidden" {
		t.Errorf("with a new secret the password is %q", got)
	}
	again, err := s.zk.EntityConfig(t.Context(), entity("brokers", "1"))
	if err != nil || again[name] == stored[name] {
		t.Errorf("it was not encrypted again: %v", err)
	}
	s.Close()

	s = start(map[string]string{"password.encoder.secret": "s2"})
	if got := s.config.Current().String(name); got != "hidden" {
		t.Errorf("without the old secret the password is %q", got)
	}
	s.Close()

	err = newServer(t, zk, map[string]string{"log.dirs": dir, "password.encoder.old.secret": "s2"}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "password.encoder.secret must be set") {
		t.Errorf("without a new secret: %v", err)
	}
}

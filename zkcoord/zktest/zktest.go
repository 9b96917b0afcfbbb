// Package zktest provides tests with a ZooKeeper.
package zktest

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"testing"
	"time"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zkserver"

	"github.com/sirupsen/logrus"
)

// addressVariable is the environment variable with the address of a ZooKeeper to use instead of the embedded one.
const addressVariable = "BARNABAS_TEST_ZOOKEEPER"

// sessionTimeout is long enough for a slow machine under the race detector.
const sessionTimeout = 10 * time.Second

// Connect returns a connect string for a tree that belongs to the test: on an embedded server in memory, or on the
// running one that the environment names.
func Connect(t testing.TB) string {
	t.Helper()
	address := os.Getenv(addressVariable)
	if address == "" {
		address = embedded(t)
	}
	return address + "/" + rand.Text()
}

func embedded(t testing.TB) string {
	t.Helper()
	server, err := zkserver.Open(zkserver.Config{TickTime: 100 * time.Millisecond, MaxTimeout: time.Minute, Logger: Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return server.Addr().String()
}

// Client returns a client with all top nodes created, which is closed when the test ends.
func Client(t testing.TB, connect string) *zkcoord.Client {
	t.Helper()
	return ClientWith(t, zkcoord.Config{Connect: connect})
}

// ClientWith is Client with a configuration, whose missing fields are filled in.
func ClientWith(t testing.TB, cfg zkcoord.Config) *zkcoord.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = sessionTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = Logger(t)
	}
	c, err := zkcoord.Connect(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.EnsureTopNodes(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// Logger writes to the test's output if it runs verbosely.
func Logger(t testing.TB) *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(t.Output())
		log.SetLevel(logrus.DebugLevel)
	}
	return logrus.NewEntry(log)
}

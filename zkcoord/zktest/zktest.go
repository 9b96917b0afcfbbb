// Package zktest gives tests a ZooKeeper to work on.
package zktest

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"barnabas/zkcoord"
)

// addressVariable names the environment variable with the address of a running ZooKeeper.
const addressVariable = "BARNABAS_TEST_ZOOKEEPER"

// Connect gives a connect string for a tree of the test's own.
func Connect(t testing.TB) string {
	t.Helper()
	address := os.Getenv(addressVariable)
	if address == "" {
		t.Skipf("no ZooKeeper: %s is not set", addressVariable)
	}
	return address + "/" + rand.Text()
}

// Client gives a session on connect, with all top nodes made, that ends with the test.
func Client(t testing.TB, connect string) *zkcoord.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := zkcoord.Connect(ctx, zkcoord.Config{Connect: connect, SessionTimeout: 6 * time.Second, Logger: Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.EnsureTopNodes(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// Logger writes into the test's output when it runs verbosely.
func Logger(t testing.TB) *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(t.Output())
		log.SetLevel(logrus.DebugLevel)
	}
	return logrus.NewEntry(log)
}

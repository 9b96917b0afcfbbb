package broker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"barnabas/config"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// TestProviderDoesNotAnswer: settings that name an identity provider which does not answer are accepted at once; only a
// start waits for it.
func TestProviderDoesNotAnswer(t *testing.T) {
	asked, up := make(chan struct{}), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-up
		w.WriteHeader(http.StatusNotFound)
	}))
	defer provider.Close()
	log, lines := test.NewNullLogger()
	o := newOAuthState(t.Context(), logrus.NewEntry(log))
	open := map[string]bool{"A": true, "B": true}
	settle := func() { o.settle(func(listener string) bool { return open[listener] }) }
	set := func(listener, path string) {
		t.Helper()
		rules := &config.SignedTokens{Keys: config.Endpoint{Key: "sasl.oauthbearer.jwks.endpoint.url", URL: provider.URL + path}, Refresh: time.Hour}
		if _, err := o.checker(listener, rules); err != nil {
			t.Fatal(err)
		}
	}
	set("A", "/1")
	set("B", "/1")
	if o.mu.keys["A"].value != o.mu.keys["B"].value {
		t.Error("the same keys are read twice")
	}
	settle()
	<-asked
	first := o.mu.keys["A"]
	set("A", "/2")
	settle()
	<-asked
	if o.mu.keys["A"] == first || o.mu.keys["B"] != first {
		t.Error("one listener's settings are used for another")
	}
	delete(open, "A")
	settle()
	if len(o.mu.keys) != 1 {
		t.Errorf("values of closed listeners are kept: %v", o.mu.keys)
	}
	close(up)
	go func() { <-asked }()
	if err := o.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), provider.URL+"/1") || !strings.Contains(err.Error(), "404") {
		t.Errorf("a start with it: %v", err)
	}
	if n := len(lines.AllEntries()); n > 2 {
		t.Errorf("%d lines", n)
	}
}

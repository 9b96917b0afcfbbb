package zkcoord_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestTokensAreStoredAndTold(t *testing.T) {
	connect := zktest.Connect(t)
	c, other := zktest.Client(t, connect), zktest.Client(t, connect)
	if all, err := c.DelegationTokens(t.Context()); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	ok(t, c.EnsureTokenNodes(t.Context()))
	ok(t, c.EnsureTokenNodes(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	ready, told, ended := make(chan struct{}), make(chan []string, 10), make(chan struct{})
	go func() {
		defer close(ended)
		_ = other.WatchTokenChanges(ctx, func() { close(ready) }, func(ids []string, _ bool) { told <- ids })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-ready
	hears := func(want string) {
		t.Helper()
		select {
		case ids := <-told:
			if !slices.Contains(ids, want) {
				t.Errorf("notified of %v", ids)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no notification of %s", want)
		}
	}

	token := zkcoord.DelegationToken{ID: "a", Owner: "User:alice", Requester: "User:carl", Renewers: []string{"User:b,c"}, IssuedMs: 1, ExpiresMs: 2, MaxMs: 3}
	ok(t, c.CreateDelegationToken(t.Context(), token))
	hears("a")
	token.ExpiresMs = 3
	if renewed := must[zkcoord.DelegationToken](t)(c.SetTokenExpiry(t.Context(), "a", 3)); !cmp.Equal(renewed, token) {
		t.Error(renewed)
	}
	hears("a")
	got, found, err := other.DelegationToken(t.Context(), "a")
	if diff := cmp.Diff(token, got); err != nil || !found || diff != "" {
		t.Error(found, err, diff)
	}
	ok(t, c.DeleteDelegationToken(t.Context(), "a"))
	hears("a")
	ok(t, c.DeleteDelegationToken(t.Context(), "a"))
	if _, err := c.SetTokenExpiry(t.Context(), "a", 4); !errors.Is(err, kerr.DelegationTokenNotFound) {
		t.Errorf("a removed token is renewed: %v", err)
	}
	for _, id := range []string{"a", "", "a/b"} {
		if _, found, err := other.DelegationToken(t.Context(), id); found || err != nil {
			t.Errorf("%q: %v, %v", id, found, err)
		}
	}

	conn, root := raw(t, connect)
	_, err = conn.Create(root+"/delegation_token/tokens/broken", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	ok(t, err)
	ok(t, c.CreateDelegationToken(t.Context(), token))
	if all, err := c.DelegationTokens(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Error(all, err)
	}
}

package zkcoord_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	topicT   = zkcoord.ACLResource{Type: kmsg.ACLResourceTypeTopic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Name: "t"}
	prefixP  = zkcoord.ACLResource{Type: kmsg.ACLResourceTypeGroup, Pattern: kmsg.ACLResourcePatternTypePrefixed, Name: "p-"}
	mayRead  = zkcoord.ACLEntry{Principal: "User:alice", Host: "*", Operation: kmsg.ACLOperationRead, Permission: kmsg.ACLPermissionTypeAllow}
	mayWrite = zkcoord.ACLEntry{Principal: "User:bob", Host: "10.0.0.1", Operation: kmsg.ACLOperationWrite, Permission: kmsg.ACLPermissionTypeDeny}
)

func add(entries ...zkcoord.ACLEntry) func([]zkcoord.ACLEntry) []zkcoord.ACLEntry {
	return func(old []zkcoord.ACLEntry) []zkcoord.ACLEntry { return append(old, entries...) }
}

func nothing([]zkcoord.ACLEntry) []zkcoord.ACLEntry { return nil }

// raw returns a session of the ZooKeeper library itself, and the chroot.
func raw(t *testing.T, connect string) (*zk.Conn, string) {
	t.Helper()
	address, root, _ := strings.Cut(connect, "/")
	conn, _, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogInfo(false))
	ok(t, err)
	t.Cleanup(conn.Close)
	return conn, "/" + root
}

func TestACLNodesAreMade(t *testing.T) {
	connect := zktest.Connect(t)
	c := zktest.Client(t, connect)
	ok(t, c.EnsureACLNodes(t.Context()))
	conn, root := raw(t, connect)
	for path, want := range map[string]int{"/kafka-acl": 6, "/kafka-acl-extended": 1, "/kafka-acl-extended/prefixed": 6, "/kafka-acl-changes": 0,
		"/kafka-acl-extended-changes": 0} {
		children, _, err := conn.Children(root + path)
		ok(t, err)
		if len(children) != want {
			t.Errorf("%s has %v", path, children)
		}
	}
}

func TestACLsAreStored(t *testing.T) {
	connect := zktest.Connect(t)
	c := zktest.Client(t, connect)
	ctx := t.Context()
	ok(t, c.EnsureACLNodes(ctx))
	ok(t, c.UpdateACLs(ctx, topicT, add(mayRead, mayWrite)))
	ok(t, c.UpdateACLs(ctx, prefixP, add(mayRead)))
	ok(t, c.UpdateACLs(ctx, topicT, add(mayRead))) // the entry exists: nothing is written
	all := must[map[zkcoord.ACLResource][]zkcoord.ACLEntry](t)(c.AllACLs(ctx))
	want := map[zkcoord.ACLResource][]zkcoord.ACLEntry{topicT: {mayRead, mayWrite}, prefixP: {mayRead}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	conn, root := raw(t, connect)
	notes, _, err := conn.Children(root + "/kafka-acl-changes")
	ok(t, err)
	if len(notes) != 1 {
		t.Errorf("notifications %v", notes)
	}
	ok(t, c.UpdateACLs(ctx, topicT, nothing))
	ok(t, c.UpdateACLs(ctx, topicT, nothing))
	if found, _, err := conn.Exists(root + topicT.Path()); err != nil || found {
		t.Errorf("the node without entries exists: %v, %v", found, err)
	}
}

// TestACLsOfTwoWriters: if several writers add entries at once, none is lost.
func TestACLsOfTwoWriters(t *testing.T) {
	connect := zktest.Connect(t)
	ok(t, zktest.Client(t, connect).EnsureACLNodes(t.Context()))
	const writers, each = 3, 5
	var running sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		c := zktest.Client(t, connect)
		running.Go(func() {
			for i := range each {
				e := mayRead
				e.Principal = fmt.Sprintf("User:%d-%d", w, i)
				errs[w] = errors.Join(errs[w], c.UpdateACLs(t.Context(), topicT, add(e)))
			}
		})
	}
	running.Wait()
	ok(t, errors.Join(errs...))
	if got := must[[]zkcoord.ACLEntry](t)(zktest.Client(t, connect).ACLs(t.Context(), topicT)); len(got) != writers*each {
		t.Errorf("%d entries", len(got))
	}
}

// TestUnreadableACLs: the error names the node, other nodes are read, and the node is not overwritten.
func TestUnreadableACLs(t *testing.T) {
	connect := zktest.Connect(t)
	c := zktest.Client(t, connect)
	ctx := t.Context()
	ok(t, c.EnsureACLNodes(ctx))
	ok(t, c.UpdateACLs(ctx, prefixP, add(mayRead)))
	conn, root := raw(t, connect)
	_, err := conn.Create(root+topicT.Path(), []byte(`{"version":1,`), 0, zk.WorldACL(zk.PermAll))
	ok(t, err)
	all, err := c.AllACLs(ctx)
	var bad *zkcoord.ErrUnreadableACLs
	if !errors.As(err, &bad) || bad.Resource != topicT {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(map[zkcoord.ACLResource][]zkcoord.ACLEntry{prefixP: {mayRead}}, all); diff != "" {
		t.Error(diff)
	}
	if err := c.UpdateACLs(ctx, topicT, add(mayRead)); !errors.As(err, &bad) {
		t.Errorf("it was overwritten: %v", err)
	}
}

func TestACLChangesAreWatched(t *testing.T) {
	connect := zktest.Connect(t)
	reader, writer := zktest.Client(t, connect), zktest.Client(t, connect)
	ctx, cancel := context.WithCancel(t.Context())
	ok(t, writer.EnsureACLNodes(ctx))
	type change struct {
		resource zkcoord.ACLResource
		all      bool
	}
	changes := make(chan change, 16)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- reader.WatchACLChanges(ctx, func() { close(ready) }, func(resources []zkcoord.ACLResource, all bool) {
			if all {
				changes <- change{all: true}
			}
			for _, r := range resources {
				changes <- change{resource: r}
			}
		})
	}()
	<-ready
	for i, r := range []zkcoord.ACLResource{topicT, prefixP, topicT} {
		e := mayRead
		e.Host = fmt.Sprint(i)
		ok(t, writer.UpdateACLs(ctx, r, add(e)))
		if got := <-changes; got != (change{resource: r}) {
			t.Errorf("%+v was written, %+v was announced", r, got)
		}
	}
	conn, root := raw(t, connect)
	_, err := conn.Create(root+"/kafka-acl-changes/acl_changes_", []byte("nonsense"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	ok(t, err)
	if got := <-changes; !got.all {
		t.Errorf("after a notification that cannot be read: %+v", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestACLsAfterExpiry: with a new session all ACLs are read again, and changes are announced again.
func TestACLsAfterExpiry(t *testing.T) {
	connect := zktest.Connect(t)
	proxy := zktest.NewProxy(t, connect)
	reader := zktest.ClientWith(t, zkcoord.Config{Connect: proxy.Connect, SessionTimeout: 3 * time.Second})
	writer := zktest.Client(t, connect)
	ok(t, writer.EnsureACLNodes(t.Context()))
	session := events(reader)
	heard := make(chan []zkcoord.ACLResource, 16) // nil: all of them
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = reader.WatchACLChanges(ctx, func() { close(ready) }, func(resources []zkcoord.ACLResource, all bool) {
			if all {
				resources = nil
			}
			heard <- resources
		})
	})
	defer func() { cancel(); watching.Wait() }()
	<-ready
	must[int64](t)(reader.RegisterBroker(t.Context(), plaintext(1, 9092)))
	gone := make(chan zkcoord.Change, 16)
	writer.OnChange(func(c zkcoord.Change) { gone <- c })
	must[[]zkcoord.BrokerInfo](t)(writer.WatchBrokers(t.Context()))
	proxy.Cut()
	<-gone // the server has expired the session
	ok(t, writer.UpdateACLs(t.Context(), topicT, add(mayRead)))
	proxy.Heal()
	awaitEvent(t, session, zkcoord.SessionReestablished)
	if got := <-heard; got != nil {
		t.Errorf("after the expiry %v was heard, want all", got)
	}
	ok(t, writer.UpdateACLs(t.Context(), prefixP, add(mayRead)))
	if got := <-heard; len(got) != 1 || got[0] != prefixP {
		t.Errorf("%v was heard, want %v", got, prefixP)
	}
}

// TestOldNotificationsAreRemoved: old notifications are removed by the next client that reads them, and others stay.
// One that vanishes meanwhile does no harm.
func TestOldNotificationsAreRemoved(t *testing.T) {
	connect := zktest.Connect(t)
	writer := zktest.Client(t, connect)
	ok(t, writer.EnsureACLNodes(t.Context()))
	ok(t, writer.UpdateACLs(t.Context(), topicT, add(mayRead)))
	ok(t, writer.UpdateACLs(t.Context(), prefixP, add(mayRead)))
	conn, root := raw(t, connect)
	left := func() (n int) {
		for _, place := range []string{"/kafka-acl-changes", "/kafka-acl-extended-changes"} {
			n += len(must[[]string](t)(childrenOf(conn, root+place)))
		}
		return n
	}
	for _, step := range []struct {
		passed time.Duration
		left   int
	}{{14 * time.Minute, 2}, {16 * time.Minute, 0}} {
		reader := zktest.ClientWith(t, zkcoord.Config{Connect: connect, Now: func() time.Time { return time.Now().Add(step.passed) }})
		ctx, cancel := context.WithCancel(t.Context())
		err := reader.WatchACLChanges(ctx, cancel, func([]zkcoord.ACLResource, bool) {})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := left(); got != step.left {
			t.Errorf("after %v there are %d notifications, want %d", step.passed, got, step.left)
		}
	}
}

func childrenOf(conn *zk.Conn, path string) ([]string, error) {
	names, _, err := conn.Children(path)
	return names, err
}

package acl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// memStore is a Store in memory. Reading resources that are marked as broken fails.
type memStore struct {
	mu struct {
		sync.Mutex
		acls    map[Resource][]Entry
		broken  map[Resource]bool
		down    error // of every read; nil: reads are answered
		changed func([]Resource, bool)
	}
	lost       chan error // ends the watch
	unanswered bool       // the next update is done, but seems to have been refused because of others
}

func newMemStore() *memStore {
	s := &memStore{lost: make(chan error, 1)}
	s.mu.acls, s.mu.broken = make(map[Resource][]Entry), make(map[Resource]bool)
	return s
}

func (s *memStore) EnsureACLNodes(context.Context) error { return nil }

func (s *memStore) ACLs(_ context.Context, r Resource) ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.down != nil {
		return nil, s.mu.down
	}
	if s.mu.broken[r] {
		return nil, &zkcoord.ErrUnreadableACLs{Resource: r, Why: errors.New("torn")}
	}
	return slices.Clone(s.mu.acls[r]), nil
}

func (s *memStore) AllACLs(ctx context.Context) (map[Resource][]Entry, error) {
	s.mu.Lock()
	all, down := maps.Clone(s.mu.acls), s.mu.down
	s.mu.Unlock()
	if down != nil {
		return nil, down
	}
	var errs []error
	for r := range all {
		entries, err := s.ACLs(ctx, r)
		all[r], errs = entries, append(errs, err)
		if err != nil {
			delete(all, r)
		}
	}
	return all, errors.Join(errs...)
}

func (s *memStore) UpdateACLs(ctx context.Context, r Resource, change func([]Entry) []Entry) error {
	old, err := s.ACLs(ctx, r)
	if err != nil {
		return err
	}
	s.put(r, change(old)...)
	if s.unanswered {
		s.unanswered = false
		return s.UpdateACLs(ctx, r, change)
	}
	return nil
}

// put writes ACLs as any broker does.
func (s *memStore) put(r Resource, entries ...Entry) {
	s.mu.Lock()
	s.mu.acls[r] = entries
	changed := s.mu.changed
	s.mu.Unlock()
	if changed != nil {
		changed([]Resource{r}, false)
	}
}

func (s *memStore) breakAndTell(r Resource, all bool) {
	s.mu.Lock()
	s.mu.broken[r] = true
	changed := s.mu.changed
	s.mu.Unlock()
	if all {
		changed(nil, true)
	} else {
		changed([]Resource{r}, false)
	}
}

func (s *memStore) WatchACLChanges(ctx context.Context, ready func(), changed func([]Resource, bool)) error {
	s.mu.Lock()
	s.mu.changed = changed
	s.mu.Unlock()
	ready()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-s.lost:
		return err
	}
}

func apiName(key int16) string { return fmt.Sprintf("api %d", key) }

func on(t ResourceType, p Pattern, name string) Resource {
	return Resource{Type: t, Pattern: p, Name: name}
}

var topicT = on(Topic, literal, "t")

func readsT(principal string) Entry {
	return Entry{Principal: principal, Host: "*", Operation: Read, Permission: kmsg.ACLPermissionTypeAllow}
}

func started(t *testing.T, s *memStore, cfg Config) (*Authorizer, *logtest.Hook) {
	t.Helper()
	log, hook := logtest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	cfg.Store, cfg.Logger, cfg.APIName = s, logrus.NewEntry(log), apiName
	a := New(cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	hook.Reset()
	return a, hook
}

func mayRead(a *Authorizer, principal string) bool {
	return a.Allowed(&AccessRequest{Who: Subject{principal, "10.0.0.1"}, Op: Read, Type: Topic, Name: "t", API: 1})
}

func TestNobodyMayAnythingBeforeTheStart(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	a := New(Config{Store: newMemStore(), APIName: apiName, Logger: logrus.NewEntry(log), SuperUsers: []string{"User:root"}})
	if mayRead(a, "User:alice") || !mayRead(a, "User:root") {
		t.Error("before it has loaded ACLs, the authorizer allows something to others than super users")
	}
	a.Close()
}

func TestSuperUsersAndDefaults(t *testing.T) {
	s := newMemStore()
	s.put(Resource{Type: Topic, Pattern: literal, Name: "*"}, Entry{Principal: "User:*", Host: "*", Operation: all, Permission: kmsg.ACLPermissionTypeDeny})
	a, _ := started(t, s, Config{SuperUsers: []string{"User:root"}, AllowIfNone: true})
	defer a.Close()
	ask := func(principal string, kind ResourceType) bool {
		return a.Allowed(&AccessRequest{Who: Subject{Principal: principal}, Op: Write, Type: kind, Name: "x"})
	}
	somewhere := func(principal string, kind ResourceType) bool {
		return a.AllowedSomewhere(&AccessRequest{Who: Subject{Principal: principal}, Op: Write, Type: kind})
	}
	for _, test := range []struct {
		got, want bool
		what      string
	}{
		{ask("User:root", Topic), true, "a super user, though denied"},
		{ask("User:alice", Topic), false, "denied on all topics"},
		{ask("User:alice", Group), true, "no ACLs, allow.everyone.if.no.acl.found"},
		{somewhere("User:root", Topic), true, "a super user on some topic"},
		{somewhere("User:alice", Topic), false, "denied on all topics, asked of any"},
		{somewhere("User:alice", Group), true, "no ACLs on groups"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v", test.what, test.got)
		}
	}
}

// TestChangesOfOthers: changes by other brokers are read when they are announced, and apply from then on.
func TestChangesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		s.put(topicT, readsT("User:alice"))
		a, _ := started(t, s, Config{})
		defer a.Close()
		if !mayRead(a, "User:alice") || mayRead(a, "User:bob") || a.Count() != 1 {
			t.Error("ACLs that existed at the start do not apply")
		}
		s.put(topicT, readsT("User:bob"))
		synctest.Wait()
		if mayRead(a, "User:alice") || !mayRead(a, "User:bob") {
			t.Error("a changed ACL does not apply")
		}
		s.put(topicT)
		synctest.Wait()
		if mayRead(a, "User:bob") || a.Count() != 0 {
			t.Error("a deleted ACL still applies")
		}
	})
}

// TestUnreadableChangesAreIgnored: if ACLs cannot be read, the last ones that could be read stay in force, whether one
// resource or all are being read.
func TestUnreadableChangesAreIgnored(t *testing.T) {
	for _, everything := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newMemStore()
			s.put(topicT, readsT("User:alice"))
			a, hook := started(t, s, Config{AllowIfNone: true})
			defer a.Close()
			s.breakAndTell(topicT, everything)
			synctest.Wait()
			if !mayRead(a, "User:alice") || mayRead(a, "User:bob") {
				t.Error("the last ACLs that could be read are no longer in force")
			}
			if e := hook.LastEntry(); hook.AllEntries()[0].Level != logrus.ErrorLevel || !strings.Contains(hook.AllEntries()[0].Data["error"].(error).Error(), "/kafka-acl/Topic/t") {
				t.Errorf("no log line names the node: %v", e)
			}
		})
	}
}

// TestChangesAreReadAgain: ACLs that could not be read when they changed, because ZooKeeper refused to answer, are in
// force a little later.
func TestChangesAreReadAgain(t *testing.T) {
	for _, everything := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newMemStore()
			s.put(topicT, readsT("User:alice"))
			a, _ := started(t, s, Config{})
			defer a.Close()
			refuse := func(err error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.mu.down = err
			}
			refuse(errors.New("throttled"))
			s.put(topicT, readsT("User:bob"))
			if everything {
				s.mu.changed(nil, true)
			}
			synctest.Wait()
			if !mayRead(a, "User:alice") {
				t.Error("the last ACLs that could be read are no longer in force")
			}
			refuse(nil)
			time.Sleep(time.Minute)
			if mayRead(a, "User:alice") || !mayRead(a, "User:bob") {
				t.Error("the changed ACLs are not in force")
			}
		})
	}
}

func TestUnreadableACLsEndTheStart(t *testing.T) {
	s := newMemStore()
	s.put(topicT, readsT("User:alice"))
	s.mu.broken[topicT] = true
	log, _ := logtest.NewNullLogger()
	a := New(Config{Store: s, Logger: logrus.NewEntry(log)})
	defer a.Close()
	if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "/kafka-acl/Topic/t") {
		t.Errorf("the start succeeded: %v", err)
	}
}

// TestLostWatch: if changes can no longer be watched, that is reported once.
func TestLostWatch(t *testing.T) {
	s := newMemStore()
	failed := make(chan error, 1)
	a, _ := started(t, s, Config{Failed: func(err error) { failed <- err }})
	defer a.Close()
	gone := errors.New("gone")
	s.lost <- gone
	if err := <-failed; !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestCreateAndDelete(t *testing.T) {
	s := newMemStore()
	a, _ := started(t, s, Config{})
	defer a.Close()
	good, prefix := rule(t, "allow User:alice * Read Topic t"), rule(t, "allow User:alice * Read Topic te*")
	errs := a.Create(t.Context(), []Binding{
		good, prefix, good,
		rule(t, "allow User:alice * Alter Cluster other"),
		{on(Topic, kmsg.ACLResourcePatternTypeMatch, "t"), good.Entry},
		{on(Topic, literal, "a/b"), good.Entry},
		{topicT, readsT("alice")},
		{topicT, Entry{Principal: "User:alice", Host: "*", Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAllow}},
	})
	for i, err := range errs {
		if i < 3 && err != nil || i >= 3 && !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if !mayRead(a, "User:alice") {
		t.Error("a created ACL does not apply yet")
	}
	any := Filter{Type: kmsg.ACLResourceTypeAny, Pattern: kmsg.ACLResourcePatternTypeAny, Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAny}
	if diff := cmp.Diff([]Binding{good, prefix}, a.Bindings(any)); diff != "" {
		t.Error(diff)
	}
	byName := any
	byName.Name = &topicT.Name
	got := a.Delete(t.Context(), []Filter{byName, any})
	want := []Deletions{{Matched: []Deletion{{Binding: good}}}, {Matched: []Deletion{{Binding: prefix}}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Error(diff)
	}
	if mayRead(a, "User:alice") || a.Count() != 0 {
		t.Error("a deleted ACL still applies")
	}
}

// TestDeletionWithoutResponse: what the first attempt deletes is reported although the store, which did not get the
// response, asks again.
func TestDeletionWithoutResponse(t *testing.T) {
	s := newMemStore()
	s.put(topicT, readsT("User:alice"), readsT("User:bob"))
	a, _ := started(t, s, Config{})
	defer a.Close()
	alice := "User:alice"
	ofAlice := Filter{Type: Topic, Name: &topicT.Name, Pattern: literal, Principal: &alice, Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAny}
	s.unanswered = true
	want := []Deletions{{Matched: []Deletion{{Binding: Binding{topicT, readsT(alice)}}}}}
	if diff := cmp.Diff(want, a.Delete(t.Context(), []Filter{ofAlice})); diff != "" {
		t.Error(diff)
	}
}

// TestDeleteOfWhatCannotBeRead: deleting ACLs that cannot be read fails with an error.
func TestDeleteOfWhatCannotBeRead(t *testing.T) {
	s := newMemStore()
	s.put(topicT, readsT("User:alice"))
	a, _ := started(t, s, Config{})
	defer a.Close()
	s.breakAndTell(topicT, false)
	any := Filter{Type: Topic, Name: &topicT.Name, Pattern: literal, Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAny}
	if got := a.Delete(t.Context(), []Filter{any}); got[0].Err == nil || len(got[0].Matched) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestNoPrefixesWithOldBrokers(t *testing.T) {
	a, _ := started(t, newMemStore(), Config{NoPrefixes: true})
	defer a.Close()
	if errs := a.Create(t.Context(), []Binding{rule(t, "allow User:a * Read Topic te*")}); !errors.Is(errs[0], kerr.InvalidRequest) {
		t.Error(errs[0])
	}
}

func TestFilters(t *testing.T) {
	name := func(s string) *string { return &s }
	resources := []Resource{topicT, on(Topic, literal, "*"), on(Topic, prefixed, "te"), on(Group, literal, "t"), on(Topic, literal, "test")}
	for _, test := range []struct {
		kind    ResourceType
		name    *string
		pattern Pattern
		want    []int
	}{
		{kmsg.ACLResourceTypeAny, nil, kmsg.ACLResourcePatternTypeAny, []int{0, 1, 2, 3, 4}},
		{Topic, nil, kmsg.ACLResourcePatternTypeAny, []int{0, 1, 2, 4}},
		{Topic, name("t"), kmsg.ACLResourcePatternTypeAny, []int{0}},
		{Topic, name("te"), kmsg.ACLResourcePatternTypeAny, []int{2}},
		{Topic, name("test"), kmsg.ACLResourcePatternTypeMatch, []int{1, 2, 4}},
		{Topic, name("t"), kmsg.ACLResourcePatternTypeMatch, []int{0, 1}},
		{Topic, nil, kmsg.ACLResourcePatternTypeMatch, []int{0, 1, 2, 4}},
		{Topic, name("te"), prefixed, []int{2}},
		{Topic, name("te"), literal, nil},
		{Topic, nil, prefixed, []int{2}},
		{Topic, name("*"), literal, []int{1}},
		{kmsg.ACLResourceTypeAny, name("t"), literal, []int{0, 3}},
	} {
		f := Filter{Type: test.kind, Name: test.name, Pattern: test.pattern, Operation: kmsg.ACLOperationAny, Permission: kmsg.ACLPermissionTypeAny}
		var got []int
		for i, r := range resources {
			if f.matchesResource(r) {
				got = append(got, i)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v %v: %s", test.kind, test.pattern, diff)
		}
	}
	for _, f := range []Filter{{}, {Type: Topic}, {Type: Topic, Pattern: literal}, {Type: Topic, Pattern: literal, Operation: Read}, {Type: 9, Pattern: literal, Operation: Read, Permission: kmsg.ACLPermissionTypeAny}} {
		if err := f.Check(); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestAudit: a denial is logged with all that matters, at most once a second for each kind; an allowed operation is
// logged at DEBUG.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		s.put(topicT, readsT("User:alice"))
		a, hook := started(t, s, Config{})
		defer a.Close()
		mayRead(a, "User:alice")
		if e := hook.LastEntry(); e.Level != logrus.DebugLevel || e.Message != "allowed" {
			t.Errorf("%v", e)
		}
		for range 3 {
			mayRead(a, "User:bob")
		}
		time.Sleep(denialInterval)
		mayRead(a, "User:bob")
		lines := hook.AllEntries()[1:]
		if len(lines) != 2 || lines[1].Data[logx.HeldBack] != 2 {
			t.Errorf("%d log lines for 4 denials, %v", len(lines), lines)
		}
		want := logrus.Fields{logx.Principal: "User:bob", logx.Host: "10.0.0.1", logx.Operation: "READ", logx.Resource: "Topic:LITERAL:t", logx.API: "api 1"}
		if diff := cmp.Diff(want, lines[0].Data); diff != "" || lines[0].Level != logrus.InfoLevel || lines[0].Message != "denied" {
			t.Errorf("%v %s", lines[0], diff)
		}
		hook.Reset()
		a.Allowed(&AccessRequest{Who: Subject{Principal: "User:bob"}, Op: Read, Type: Topic, Name: "t", Quiet: true})
		if len(hook.AllEntries()) != 0 {
			t.Error("a quiet request was logged")
		}
	})
}

func BenchmarkAllowed(b *testing.B) {
	log := logrus.New()
	a := New(Config{Store: newMemStore(), APIName: apiName, Logger: logrus.NewEntry(log)})
	a.snapshot.Store(newSnapshot(aclsOf(b, "allow User:alice * Read Topic t", "allow User:* * Read Topic pre*")))
	b.ReportAllocs()
	for b.Loop() {
		if !mayRead(a, "User:alice") {
			b.Fatal("denied")
		}
	}
}

// TestRequestsDuringChanges: every request is decided by one snapshot, never by half of a change: alice may read all
// the time by an entry that alternates between two resources, each time in a single change of both.
func TestRequestsDuringChanges(t *testing.T) {
	s := newMemStore()
	s.put(topicT, readsT("User:alice"))
	a, _ := started(t, s, Config{})
	defer a.Close()
	everywhere := on(Topic, literal, "*")
	done := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if !mayRead(a, "User:alice") {
					t.Error("denied during a change")
					return
				}
			}
		})
	}
	places := []Resource{topicT, everywhere}
	for i := range 200 {
		s.mu.Lock()
		s.mu.acls = map[Resource][]Entry{places[i%2]: {readsT("User:alice")}}
		s.mu.Unlock()
		number := a.ask(nil, true)
		if err := a.await(t.Context(), number); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	asking.Wait()
}

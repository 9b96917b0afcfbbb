package zkserver

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
)

// The tests of this file run on this server and on a real ZooKeeper 3.8, with the same
// expectations.

func TestCreateErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/create-%x", c.session)
		c.create(base, Persistent)
		c.create(base+"/e", Ephemeral)
		for _, test := range []struct {
			path  string
			acl   []ACL
			flags int32
			want  Code
		}{
			{base, openACL, 0, NodeExists},
			{base + "/x/y", openACL, 0, NoNode},
			{base + "/e/below", openACL, 0, NoChildrenForEphemerals},
			{base + "/x", nil, 0, InvalidACL},
			{base + "/x", []ACL{{PermAll, ID{"nope", "x"}}}, 0, InvalidACL},
			{base + "/x", []ACL{{PermAll, ID{"digest", "x"}}}, 0, InvalidACL},
			{base + "/x", []ACL{{PermAll, ID{"auth", ""}}}, 0, InvalidACL},
			{base + "/x", []ACL{{PermAll, ID{"ip", "300.0.0.1"}}}, 0, InvalidACL},
			{base + "/", openACL, 0, BadArguments},
			{base + "//x", openACL, 0, NoNode},
			{base + "/.", openACL, 0, BadArguments},
			{base + "/..", openACL, 0, BadArguments},
			{base + "/a\x00b", openACL, 0, BadArguments},
			{base + "/a\x01b", openACL, 0, BadArguments},
			{base + "/a\ufff1b", openACL, 0, BadArguments},
			{"nothing", openACL, 0, BadArguments},
			{"", openACL, 0, BadArguments},
			{"/", openACL, 0, NodeExists},
			{base + "/x", openACL, 99, BadArguments},
			{base + "/x", openACL, 5, Unimplemented},
			{base + "/ok", openACL, 0, OK},
		} {
			if code, _ := c.ask(opCreate, createBody{test.path, nil, test.acl, test.flags}); code != test.want {
				t.Errorf("create %q flags %d: got %v, want %v", test.path, test.flags, code, test.want)
			}
		}
	})
}

func TestOtherErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/errors-%x", c.session)
		c.create(base, Persistent)
		c.create(base+"/full", Persistent)
		c.create(base+"/full/below", Persistent)
		for _, test := range []struct {
			name string
			op   int32
			body any
			want Code
		}{
			{"delete none", opDelete, pathVersionBody{base + "/none", -1}, NoNode},
			{"delete with children", opDelete, pathVersionBody{base + "/full", -1}, NotEmpty},
			{"delete with another version", opDelete, pathVersionBody{base + "/full/below", 7}, BadVersion},
			{"delete the root", opDelete, pathVersionBody{"/", -1}, BadArguments},
			{"delete what is the server's", opDelete, pathVersionBody{"/zookeeper", -1}, BadArguments},
			{"set none", opSetData, setDataBody{base + "/none", nil, -1}, NoNode},
			{"set with another version", opSetData, setDataBody{base, nil, 7}, BadVersion},
			{"set nowhere", opSetData, setDataBody{"x", nil, -1}, BadArguments},
			{"get none", opGetData, pathWatchBody{base + "/none", false}, NoNode},
			{"get nowhere", opGetData, pathWatchBody{"x", false}, NoNode},
			{"exists none", opExists, pathWatchBody{base + "/none", false}, NoNode},
			{"children of none", opGetChildren, pathWatchBody{base + "/none", false}, NoNode},
			{"acl of none", opGetACL, pathBody{base + "/none"}, NoNode},
			{"set acl with another version", opSetACL, setACLBody{base, openACL, 7}, BadVersion},
			{"set acl of none", opSetACL, setACLBody{base + "/none", openACL, -1}, NoNode},
			{"empty acl", opSetACL, setACLBody{base, nil, -1}, InvalidACL},
			{"remove a watch that is not there", opRemoveWatches, pathKindBody{base, ofAny}, NoWatcher},
			{"check a watch that is not there", opCheckWatches, pathKindBody{base, ofData}, NoWatcher},
		} {
			if code, _ := c.ask(test.op, test.body); code != test.want {
				t.Errorf("%s: got %v, want %v", test.name, code, test.want)
			}
		}
	})
}

// TestStat checks a node's and its parent's Stat through the node's lifetime.
func TestStat(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		conn, _ := client(t, address)
		base := root(t, conn)
		_, created, _ := conn.Exists(base)
		if created.Czxid != created.Mzxid || created.Czxid != created.Pzxid || created.Ctime != created.Mtime || created.Cversion != 0 {
			t.Errorf("new node: %+v", created)
		}
		type numbers struct {
			Version, Cversion, Aversion, DataLength, NumChildren int32
			OwnMzxid, OwnPzxid                                   int64 // number of writes after the creation
		}
		look := func(path string) numbers {
			_, s, err := conn.Exists(path)
			if err != nil {
				t.Fatal(err)
			}
			return numbers{s.Version, s.Cversion, s.Aversion, s.DataLength, s.NumChildren, s.Mzxid - s.Czxid, s.Pzxid - s.Czxid}
		}
		acl := zk.WorldACL(zk.PermAll)
		steps := []struct {
			name string
			do   func() error
			want numbers
		}{
			{"create a child", func() error { _, err := conn.Create(base+"/a", []byte("x"), 0, acl); return err }, numbers{0, 1, 0, 0, 1, 0, 1}},
			{"fail to create it again", func() error { conn.Create(base+"/a", nil, 0, acl); return nil }, numbers{0, 1, 0, 0, 1, 0, 1}},
			{"create another", func() error { _, err := conn.Create(base+"/b", nil, 0, acl); return err }, numbers{0, 2, 0, 0, 2, 0, 3}},
			{"set the child", func() error { _, err := conn.Set(base+"/a", []byte("yy"), 0); return err }, numbers{0, 2, 0, 0, 2, 0, 3}},
			{"set", func() error { _, err := conn.Set(base, []byte("123"), -1); return err }, numbers{1, 2, 0, 3, 2, 5, 3}},
			{"delete a child", func() error { return conn.Delete(base+"/a", 1) }, numbers{1, 3, 0, 3, 1, 5, 6}},
			{"set the acl", func() error { _, err := conn.SetACL(base, acl, 0); return err }, numbers{1, 3, 1, 3, 1, 5, 6}},
			{"multi", func() error {
				_, err := conn.Multi(&zk.CreateRequest{Path: base + "/c", Acl: acl}, &zk.SetDataRequest{Path: base, Data: nil, Version: 1},
					&zk.DeleteRequest{Path: base + "/b", Version: 0})
				return err
			}, numbers{2, 5, 1, 0, 1, 8, 8}},
		}
		for _, step := range steps {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if diff := cmp.Diff(step.want, look(base)); diff != "" {
				t.Errorf("%s: %s", step.name, diff)
			}
		}
	})
}

func TestNullData(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/null-%x", c.session)
		c.create(base, Persistent)
		for _, data := range [][]byte{nil, {}, {1}} {
			if code, _ := c.ask(opSetData, setDataBody{base, data, -1}); code != OK {
				t.Fatal(code)
			}
			_, r := c.ask(opGetData, pathWatchBody{base, false})
			if got := r.buffer(); (got == nil) != (data == nil) || string(got) != string(data) {
				t.Errorf("set %#v, got %#v", data, got)
			}
		}
	})
}

func TestSequences(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		conn, _ := client(t, address)
		base := root(t, conn)
		acl := zk.WorldACL(zk.PermAll)
		var names []string
		add := func(name string, flags int32) {
			t.Helper()
			path, err := conn.Create(base+"/"+name, nil, flags, acl)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, strings.TrimPrefix(path, base+"/"))
		}
		add("s-", zk.FlagSequence)
		add("plain", 0)
		add("s-", zk.FlagSequence|zk.FlagEphemeral)
		if err := conn.Delete(base+"/plain", -1); err != nil {
			t.Fatal(err)
		}
		add("s-", zk.FlagSequence)
		add("", zk.FlagSequence)
		want := []string{"s-0000000000", "plain", "s-0000000002", "s-0000000003", "0000000004"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
	})
}

// TestMultiResults compares the bytes of a multi's response, for one that succeeds and one that fails in the middle.
func TestMultiResults(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/multi-%x", c.session)
		c.create(base, Persistent)
		multi := func(ops ...multiOp) []string {
			t.Helper()
			code, r := c.ask(opMulti, multiBody(ops))
			if code != OK {
				t.Fatalf("multi: %v", code)
			}
			var lines []string
			for {
				op, done, code := r.int32(), r.bool(), r.int32()
				if done {
					return append(lines, fmt.Sprintf("end %d %d, %d left", op, code, len(r.b)))
				}
				line := fmt.Sprintf("%d: %d", op, code)
				switch op {
				case opCreate:
					line += " " + strings.TrimPrefix(r.text(), base)
				case opSetData:
					line += fmt.Sprintf(" v%d", readStat(r).Version)
				case opError:
					line += fmt.Sprintf(" %d", r.int32())
				}
				lines = append(lines, line)
			}
		}
		create := func(op int32, path string) multiOp { return multiOp{op, createBody{base + path, nil, openACL, 0}} }
		got := [][]string{
			multi(create(opCreate, "/a"), create(opCreate, "/a/b"), create(opCreate2, "/c"), multiOp{opSetData, setDataBody{base + "/a", nil, 0}},
				multiOp{opCheck, pathVersionBody{base + "/a", 1}}, multiOp{opDelete, pathVersionBody{base + "/a/b", 0}}),
			multi(create(opCreate, "/d"), multiOp{opSetData, setDataBody{base + "/a", nil, 9}}, create(opCreate, "/e"), multiOp{opDelete, pathVersionBody{base + "/none", -1}}),
			multi(multiOp{opCheck, pathVersionBody{base + "/none", -1}}),
			multi(create(opCreate, "/a")),
			multi(),
		}
		want := [][]string{
			{"1: 0 /a", "1: 0 /a/b", "1: 0 /c", "5: 0 v1", "13: 0", "2: 0", "end -1 -1, 0 left"},
			{"-1: 0 0", "-1: -103 -103", "-1: -2 -2", "-1: -2 -2", "end -1 -1, 0 left"},
			{"-1: -101 -101", "end -1 -1, 0 left"},
			{"-1: -110 -110", "end -1 -1, 0 left"},
			{"end -1 -1, 0 left"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		_, r := c.ask(opGetChildren, pathWatchBody{base, false})
		names := r.texts()
		slices.Sort(names)
		if diff := cmp.Diff([]string{"a", "c"}, names); diff != "" {
			t.Errorf("the failed transaction has left traces: %s", diff)
		}
	})
}

func TestMultiRead(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/multiread-%x", c.session)
		c.create(base, Persistent)
		c.create(base+"/a", Persistent)
		code, r := c.ask(opMultiRead, multiBody{{opGetChildren, pathWatchBody{base, false}}, {opGetData, pathWatchBody{base + "/none", false}},
			{opGetData, pathWatchBody{base + "/a", false}}})
		if code != OK {
			t.Fatal(code)
		}
		var got []any
		got = append(got, r.int32(), r.bool(), r.int32(), r.texts())
		got = append(got, r.int32(), r.bool(), r.int32(), r.int32())
		got = append(got, r.int32(), r.bool(), r.int32(), r.buffer(), readStat(r).Version)
		got = append(got, r.int32(), r.bool(), r.int32(), len(r.b))
		want := []any{int32(opGetChildren), false, int32(0), []string{"a"},
			int32(-1), false, int32(-101), int32(-101),
			int32(opGetData), false, int32(0), []byte(nil), int32(0),
			int32(-1), true, int32(-1), 0}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestWatches writes with one client and checks the events of another.
func TestWatches(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/watch-%x", c.session)
		c.create(base, Persistent)
		ask := func(op int32, body any) {
			t.Helper()
			if code, _ := c.ask(op, body); code != OK && code != NoNode {
				t.Fatal(code)
			}
		}
		data := func(path string) { ask(opGetData, pathWatchBody{base + path, true}) }
		exists := func(path string) { ask(opExists, pathWatchBody{base + path, true}) }
		children := func(path string) { ask(opGetChildren2, pathWatchBody{base + path, true}) }
		set := func(path string) { ask(opSetData, setDataBody{base + path, nil, -1}) }
		remove := func(path string) { ask(opDelete, pathVersionBody{base + path, -1}) }
		for _, step := range []struct {
			name string
			do   func()
			want []string
		}{
			{"data", func() { data(""); set(""); set("") }, []string{"3 3 "}},
			{"twice the same", func() { data(""); data(""); exists(""); set("") }, []string{"3 3 "}},
			{"of what does not exist", func() { data("/a"); set("") }, nil},
			{"creation", func() { exists("/a"); c.create(base+"/a", Persistent) }, []string{"1 3 /a"}},
			{"children", func() { children(""); set(""); c.create(base+"/b", Persistent); c.create(base+"/c", Persistent) }, []string{"4 3 "}},
			{"deletion", func() { data("/b"); children("/b"); children(""); remove("/b") }, []string{"2 3 /b", "4 3 "}},
			{"deletion, only children", func() { children("/c"); remove("/c") }, []string{"2 3 /c"}},
			{"a failed write", func() { exists(""); ask(opDelete, pathVersionBody{base + "/none", -1}) }, nil},
			{"still there", func() { set("") }, []string{"3 3 "}},
			{"acl", func() { exists(""); ask(opSetACL, setACLBody{base, openACL, -1}) }, nil},
			{"removed", func() { ask(opRemoveWatches, pathKindBody{base, ofData}); set("") }, nil},
			{"multi", func() {
				data("")
				children("")
				ask(opMulti, multiBody{{opCreate, createBody{base + "/m", nil, openACL, 0}}, {opSetData, setDataBody{base, nil, -1}}})
			}, []string{"4 3 ", "3 3 "}},
			{"failed multi", func() {
				data("")
				children("")
				ask(opMulti, multiBody{{opSetData, setDataBody{base, nil, -1}}, {opCheck, pathVersionBody{base, 99}}})
			}, nil},
		} {
			step.do()
			var got []string
			for _, event := range c.takeEvents() {
				got = append(got, strings.Replace(event, base, "", 1))
			}
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s: %s", step.name, diff)
			}
		}
	})
}

func TestPersistentWatches(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/persistent-%x", c.session)
		c.create(base, Persistent)
		events := func(do ...func()) []string {
			for _, f := range do {
				f()
			}
			got := []string{}
			for _, event := range c.takeEvents() {
				got = append(got, strings.Replace(event, base, "", 1))
			}
			slices.Sort(got)
			return got
		}
		ask := func(op int32, body any) func() {
			return func() {
				if code, _ := c.ask(op, body); code != OK {
					t.Errorf("operation %d: %v", op, code)
				}
			}
		}
		set := ask(opSetData, setDataBody{base, nil, -1})
		got := [][]string{
			events(ask(opAddWatch, pathKindBody{base, addPersistent}), set, set, func() { c.create(base+"/a", Persistent) }),
			events(ask(opCheckWatches, pathKindBody{base, ofAny}), ask(opRemoveWatches, pathKindBody{base, ofAny}), set),
			events(ask(opAddWatch, pathKindBody{base, addRecursive}), func() { c.create(base+"/a/b", Persistent) }, set,
				ask(opDelete, pathVersionBody{base + "/a/b", -1})),
		}
		want := [][]string{{"3 3 ", "3 3 ", "4 3 "}, {}, {"1 3 /a/b", "2 3 /a/b", "3 3 "}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSetWatches sets watches again on a new connection, as clients do after a reconnection.
func TestSetWatches(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		writer := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/setwatches-%x", writer.session)
		for _, path := range []string{"", "/same", "/changed", "/gone", "/kids", "/nokids"} {
			writer.create(base+path, Persistent)
		}
		_, r := writer.ask(opExists, pathWatchBody{base, false})
		seen := readStat(r).Pzxid
		writer.ask(opSetData, setDataBody{base + "/changed", nil, -1})
		writer.ask(opDelete, pathVersionBody{base + "/gone", -1})
		writer.create(base+"/born", Persistent)
		writer.create(base+"/kids/one", Persistent)

		for _, op := range []int32{opSetWatches, opSetWatches2} {
			c := dial(t, address, connectRequest{timeoutMs: 10000})
			body := setWatchesBody{relativeZxid: seen,
				data:     []string{base + "/same", base + "/changed", base + "/gone"},
				exist:    []string{base + "/born", base + "/unborn"},
				children: []string{base + "/kids", base + "/nokids", base + "/gone"}}
			if op == opSetWatches2 {
				body.persistent = []string{base + "/persistent"}
			}
			if code, _ := c.askAs(-8, op, body); code != OK {
				t.Fatal(code)
			}
			got := c.takeEvents()
			for i := range got {
				got[i] = strings.Replace(got[i], base, "", 1)
			}
			slices.Sort(got)
			want := []string{"1 3 /born", "2 3 /gone", "2 3 /gone", "3 3 /changed", "4 3 /kids"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("in one transaction: %s", diff)
			}
			c.create(base+"/unborn", Ephemeral)
			c.ask(opSetData, setDataBody{base + "/same", nil, -1})
			c.create(base+"/nokids/one", Ephemeral)
			got = c.takeEvents()
			for i := range got {
				got[i] = strings.Replace(got[i], base, "", 1)
			}
			if diff := cmp.Diff([]string{"1 3 /unborn", "3 3 /same", "4 3 /nokids"}, got); diff != "" {
				t.Errorf("later: %s", diff)
			}
			c.ask(opCloseSession, nil)
			_, r := writer.ask(opExists, pathWatchBody{base + "/nokids", false})
			seen = max(seen, readStat(r).Pzxid)
			_, r = writer.ask(opExists, pathWatchBody{base + "/same", false})
			seen = max(seen, readStat(r).Mzxid)
			writer.ask(opSetData, setDataBody{base + "/changed", nil, -1}) // newer than the zxid for which watches were set again
			writer.create(fmt.Sprintf("%s/kids/more-%d", base, op), Persistent)
		}
	})
}

func TestSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		for _, timeout := range []struct{ asked, got int32 }{{1, 1000}, {5000, 5000}, {1 << 30, 10000}} {
			if c := dial(t, address, connectRequest{timeoutMs: timeout.asked}); c.timeout != timeout.got {
				t.Errorf("asked for %d ms, got %d, want %d", timeout.asked, c.timeout, timeout.got)
			}
		}
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/session-%x", c.session)
		c.create(base, Ephemeral)
		c.nc.Close()

		again := dial(t, address, connectRequest{timeoutMs: 10000, session: c.session, password: c.password})
		if again.session != c.session || string(again.password) != string(c.password) {
			t.Errorf("took up %x, got %x", c.session, again.session)
		}
		if code, _ := again.ask(opExists, pathWatchBody{base, false}); code != OK {
			t.Errorf("the ephemeral node is gone: %v", code)
		}
		wrong := dial(t, address, connectRequest{timeoutMs: 10000, session: c.session, password: make([]byte, 16)})
		if wrong.session != 0 || wrong.timeout != 0 {
			t.Errorf("a wrong password gave the session %x", wrong.session)
		}
		wrong.ended()

		// A second connection of the session ends the first.
		third := dial(t, address, connectRequest{timeoutMs: 10000, session: c.session, password: c.password})
		again.ended()
		if code, _ := third.askAs(-2, opPing, nil); code != OK {
			t.Errorf("ping: %v", code)
		}
		if code, _ := third.ask(opGetEphemerals, pathBody{"/"}); code != OK {
			t.Errorf("ephemerals: %v", code)
		}
		if code, _ := third.ask(opCloseSession, nil); code != OK {
			t.Errorf("close: %v", code)
		}
		third.ended()
		watcher := dial(t, address, connectRequest{timeoutMs: 10000})
		if code, _ := watcher.ask(opExists, pathWatchBody{base, false}); code != NoNode {
			t.Errorf("the ephemeral node outlived its session: %v", code)
		}
		gone := dial(t, address, connectRequest{timeoutMs: 10000, session: c.session, password: c.password})
		if gone.session != 0 {
			t.Error("a closed session was resumed")
		}
	})
}

func TestExpiry(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 1000})
		watcher, _ := client(t, address)
		base := fmt.Sprintf("/expiry-%x", c.session)
		c.create(base, Ephemeral)
		ok, _, changes, err := watcher.ExistsW(base)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		select {
		case e := <-changes:
			if e.Type != zk.EventNodeDeleted {
				t.Errorf("got %v", e)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the session did not expire")
		}
		c.ended()
		if again := dial(t, address, connectRequest{timeoutMs: 1000, session: c.session, password: c.password}); again.session != 0 {
			t.Error("an expired session was resumed")
		}
	})
}

// cutter is a proxy that can cut its connections.
type cutter struct {
	ln net.Listener
	mu struct {
		sync.Mutex
		open []net.Conn
	}
}

func newCutter(t *testing.T, address string) *cutter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{ln: ln}
	t.Cleanup(func() { ln.Close(); p.cut() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.mu.open = append(p.mu.open, in, out)
			p.mu.Unlock()
			go func() { io.Copy(in, out); in.Close() }()
			go func() { io.Copy(out, in); out.Close() }()
		}
	}()
	return p
}

func (p *cutter) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.mu.open {
		c.Close()
	}
	p.mu.open = nil
}

// TestReconnect cuts a client's connection: its session, ephemeral nodes and watches survive.
func TestReconnect(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		proxy := newCutter(t, address)
		conn, events := client(t, proxy.ln.Addr().String())
		other, _ := client(t, address)
		base := root(t, other)
		acl := zk.WorldACL(zk.PermAll)
		if _, err := conn.Create(base+"/mine", nil, zk.FlagEphemeral, acl); err != nil {
			t.Fatal(err)
		}
		_, _, kids, err := conn.ChildrenW(base)
		if err != nil {
			t.Fatal(err)
		}
		_, _, data, err := conn.GetW(base)
		if err != nil {
			t.Fatal(err)
		}
		session := conn.SessionID()
		proxy.cut()
		waitFor(t, events, zk.StateDisconnected)
		if _, err := other.Set(base, []byte("while away"), -1); err != nil {
			t.Fatal(err)
		}
		waitFor(t, events, zk.StateHasSession)
		if conn.SessionID() != session {
			t.Error("another session")
		}
		if e := <-data; e.Type != zk.EventNodeDataChanged {
			t.Errorf("event for the change while disconnected: %v", e)
		}
		if _, err := other.Create(base+"/new", nil, 0, acl); err != nil {
			t.Fatal(err)
		}
		if e := <-kids; e.Type != zk.EventNodeChildrenChanged {
			t.Errorf("event for the change afterwards: %v", e)
		}
		if ok, s, err := other.Exists(base + "/mine"); !ok || err != nil || s.EphemeralOwner != session {
			t.Error("the ephemeral node is gone")
		}
	})
}

func TestACL(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		owner, _ := client(t, address)
		other, _ := client(t, address)
		base := root(t, owner)
		if err := owner.AddAuth("digest", []byte("me:secret")); err != nil {
			t.Fatal(err)
		}
		mine := zk.DigestACL(zk.PermAll, "me", "secret")
		if _, err := owner.Create(base+"/mine", []byte("x"), 0, mine); err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Create(base+"/auth", nil, 0, zk.AuthACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		if acl, _, err := owner.GetACL(base + "/auth"); err != nil || !cmp.Equal(acl, mine) {
			t.Errorf("auth became %v %v", acl, err)
		}
		if _, err := owner.Create(base+"/seen", nil, 0, append(zk.WorldACL(zk.PermRead), mine...)); err != nil {
			t.Fatal(err)
		}
		if acl, _, err := other.GetACL(base + "/seen"); err != nil || acl[1].ID != "me:x" {
			t.Errorf("other users get %v %v", acl, err)
		}
		acl := zk.WorldACL(zk.PermAll)
		check := func(name string, err, want error) {
			t.Helper()
			if err != want {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
		_, _, err := other.Get(base + "/mine")
		check("get", err, zk.ErrNoAuth)
		_, err = other.Set(base+"/mine", nil, -1)
		check("set", err, zk.ErrNoAuth)
		_, _, err = other.Children(base + "/mine")
		check("children", err, zk.ErrNoAuth)
		_, err = other.Create(base+"/mine/x", nil, 0, acl)
		check("create", err, zk.ErrNoAuth)
		_, err = other.SetACL(base+"/mine", acl, -1)
		check("set acl", err, zk.ErrNoAuth)
		_, _, err = other.GetACL(base + "/mine")
		check("get acl", err, zk.ErrNoAuth)
		_, err = owner.Create(base+"/mine/x", nil, 0, acl)
		check("create by the owner", err, nil)
		check("delete below", other.Delete(base+"/mine/x", -1), zk.ErrNoAuth)
		_, err = other.Multi(&zk.CheckVersionRequest{Path: base + "/mine", Version: -1})
		check("check", err, zk.ErrNoAuth)
		check("wrong secret", other.AddAuth("digest", []byte("me:wrong")), nil)
		_, _, err = other.Get(base + "/mine")
		check("get with a wrong secret", err, zk.ErrNoAuth)
		check("secret", other.AddAuth("digest", []byte("me:secret")), nil)
		_, _, err = other.Get(base + "/mine")
		check("get with the secret", err, nil)

		_, err = owner.Create(base+"/ip", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.0/8"}})
		check("ip", err, nil)
		_, _, err = other.Get(base + "/ip")
		check("get by address", err, nil)
		_, err = owner.Create(base+"/far", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: "10.1.2.3"}})
		check("another ip", err, nil)
		_, _, err = other.Get(base + "/far")
		check("get by another address", err, zk.ErrNoAuth)
	})
}

func TestUnknownAuthScheme(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		if code, _ := c.askAs(-4, opAuth, authBody{0, "nope", []byte("x")}); code != AuthFailed {
			t.Errorf("got %v", code)
		}
		c.ended()
	})
}

func TestReads(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/reads-%x", c.session)
		c.create(base, Persistent)
		c.create(base+"/a", Persistent)
		c.create(base+"/a/e", Ephemeral)
		c.create(base+"/f", Ephemeral)
		code, r := c.ask(opCreate2, createBody{base + "/two", []byte("xy"), openACL, 0})
		if path := r.text(); code != OK || path != base+"/two" {
			t.Errorf("create2: %v %s", code, path)
		}
		if s := readStat(r); s.DataLength != 2 || s.Czxid == 0 || len(r.b) != 0 {
			t.Errorf("create2: %+v", s)
		}
		_, r = c.ask(opGetAllChildrenNumber, pathBody{base})
		if n := r.int32(); n != 4 {
			t.Errorf("%d descendants", n)
		}
		_, r = c.ask(opGetEphemerals, pathBody{base + "/a"})
		if diff := cmp.Diff([]string{base + "/a/e"}, r.texts()); diff != "" {
			t.Error(diff)
		}
		if code, r := c.ask(opSync, pathBody{base}); code != OK || r.text() != base {
			t.Errorf("sync: %v", code)
		}
		_, r = c.ask(opWhoAmI, nil)
		if n := r.int32(); n != 1 {
			t.Errorf("%d identities", n)
		}
		if scheme, address := r.text(), r.text(); scheme != "ip" || address != "127.0.0.1" {
			t.Errorf("who am I: %s %s", scheme, address)
		}
		_, r = c.ask(opGetACL, pathBody{base})
		if diff := cmp.Diff(openACL, r.acls()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestContainers(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		base := fmt.Sprintf("/container-%x", c.session)
		code, r := c.ask(opCreateContainer, createBody{base, nil, openACL, int32(Container)})
		if path := r.text(); code != OK || path != base {
			t.Fatalf("create container: %v", code)
		}
		if s := readStat(r); s.EphemeralOwner != 0 || len(r.b) != 0 {
			t.Errorf("owner %x", s.EphemeralOwner)
		}
		c.create(base+"/a", Persistent)
	})
}

func TestChroot(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		conn, _ := client(t, address)
		base := root(t, conn)
		// A chroot is a prefix that the client adds: the server only sees full paths.
		if _, err := conn.Create(base+"/brokers", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		names, _, err := conn.Children(base)
		if err != nil || !slices.Equal(names, []string{"brokers"}) {
			t.Error(names, err)
		}
	})
}

func TestCommands(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		client(t, address)
		for word, wants := range map[string][]string{
			"ruok": {"imok"},
			"isro": {"rw"},
			"srvr": {"Zookeeper version: 3.8", "Received: ", "Sent: ", "Connections: ", "Outstanding: ", "Zxid: 0x", "Mode: standalone", "Node count: "},
			"stat": {"Zookeeper version: 3.8", "Clients:\n /127.0.0.1:", "Mode: standalone"},
			"mntr": {"zk_version\t3.8", "zk_server_state\tstandalone", "zk_znode_count\t", "zk_watch_count\t", "zk_ephemerals_count\t", "zk_approximate_data_size\t"},
			"conf": {"tickTime=500", "minSessionTimeout=1000", "maxSessionTimeout=10000"},
			"wchs": {"Total watches:"},
			"cons": {"sid=0x"},
		} {
			answer, err := command(address, word)
			if err != nil {
				t.Errorf("%s: %v", word, err)
			}
			for _, want := range wants {
				if !strings.Contains(answer, want) {
					t.Errorf("%s: no %q in %q", word, want, answer)
				}
			}
		}
	})
}

func TestBadFrames(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		for name, frame := range map[string][]byte{
			"a huge length":     {0x7f, 0xff, 0xff, 0xff},
			"a negative length": {0xff, 0xff, 0xff, 0xff},
		} {
			c := dial(t, address, connectRequest{timeoutMs: 10000})
			if _, err := c.nc.Write(frame); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c.ended()
		}
		other := dial(t, address, connectRequest{timeoutMs: 10000})
		if code, _ := other.askAs(-2, opPing, nil); code != OK {
			t.Error("the server is not healthy")
		}
	})
}

// TestSystemNodes checks the nodes of a new server.
func TestSystemNodes(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		c := dial(t, address, connectRequest{timeoutMs: 10000})
		for _, path := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
			code, r := c.ask(opExists, pathWatchBody{path, false})
			if s := readStat(r); code != OK || s.Czxid != 0 || s.CtimeMs != 0 || s.EphemeralOwner != 0 {
				t.Errorf("%s: %v %+v", path, code, s)
			}
		}
	})
}

package zkserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// dump returns a tree's content for comparison.
func dump(t *Tree) map[string]string {
	nodes := map[string]string{}
	for path, n := range t.nodes {
		nodes[path] = fmt.Sprintf("%q %v %+v", n.data, n.acl, t.stat(path))
	}
	for session, paths := range t.ephemerals {
		for path := range paths {
			nodes[path] += fmt.Sprintf(" of %x", session)
		}
	}
	for path := range t.containers {
		nodes[path] += " container"
	}
	return nodes
}

// TestPathsThatTheFileCannotHold: a path that is too long is refused, and does not end the server.
func TestPathsThatTheFileCannotHold(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), TickTime: tick, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.Addr().String(), connectRequest{timeoutMs: 2000})
	for size, want := range map[int]Code{maxPathBytes: OK, maxPathBytes + 1: BadArguments} {
		path := "/" + strings.Repeat("x", size-1)
		if code, _ := c.ask(opCreate, createBody{path, nil, openACL, int32(Persistent)}); code != want {
			t.Errorf("a path of %d bytes: %v, want %v", size, code, want)
		}
	}
	c.create("/n", Persistent)
}

func TestRestart(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), TickTime: tick, NoSync: true}
	open := func() *Server {
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Listen("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open()
	c := dial(t, first.Addr().String(), connectRequest{timeoutMs: 2000})
	c.create("/kept", Persistent)
	c.create("/kept/mine", Ephemeral)
	c.create("/kept/s-", PersistentSequential)
	c.ask(opSetData, setDataBody{"/kept", []byte("x"), 0})
	c.create("/gone", Persistent)
	c.ask(opDelete, pathVersionBody{"/gone", 0})
	code, r := c.ask(opExists, pathWatchBody{"/kept", false})
	before := readStat(r)
	if code != OK {
		t.Fatal(code)
	}
	if _, err := Open(cfg); err == nil {
		t.Error("a directory in use was opened again")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open()
	defer second.Close()
	again := dial(t, second.Addr().String(), connectRequest{timeoutMs: 2000, session: c.session, password: c.password})
	if again.session != c.session {
		t.Fatal("the session did not survive the restart")
	}
	_, r = again.ask(opExists, pathWatchBody{"/kept", false})
	if diff := cmp.Diff(before, readStat(r)); diff != "" {
		t.Error(diff)
	}
	if code, _ := again.ask(opExists, pathWatchBody{"/gone", false}); code != NoNode {
		t.Errorf("a deleted node has reappeared: %v", code)
	}
	again.create("/kept/t-", PersistentSequential)
	_, r = again.ask(opGetChildren, pathWatchBody{"/kept", false})
	if diff := cmp.Diff([]string{"mine", "s-0000000001", "t-0000000002"}, r.texts()); diff != "" {
		t.Error(diff)
	}
	// The session gets no more pings: its node is removed.
	other := dial(t, second.Addr().String(), connectRequest{timeoutMs: 10000})
	again.nc.Close()
	other.ask(opExists, pathWatchBody{"/kept/mine", true})
	frame := &reader{b: other.frame()}
	if frame.int32() != eventXid {
		t.Error("no event for the removal of the ephemeral node")
	}
	if other.session <= c.session {
		t.Errorf("session ids must increase: %x after %x", other.session, c.session)
	}
}

// TestKill kills a server that is writing: everything that it acknowledged must be there.
func TestKill(t *testing.T) {
	if dir := os.Getenv("ZKSERVER_TEST_DIR"); dir != "" {
		serveUntilKilled(dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), "ZKSERVER_TEST_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Scan()
	c := dial(t, lines.Text(), connectRequest{timeoutMs: 10000})
	const count = 300
	for i := range count { // pipelined: the kill comes while some are being processed
		c.send(appendRequest(nil, request{int32(i), opCreate, createBody{fmt.Sprintf("/n%d", i), []byte("data"), openACL, 0}}))
	}
	answered := 0
	for ; answered < count/2; answered++ {
		r := &reader{b: c.frame()}
		if xid, _, code := r.int32(), r.int64(), Code(r.int32()); xid != int32(answered) || code != OK {
			t.Fatalf("answer %d: xid %d %v", answered, xid, code)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	store, was, err := openStore(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	found := 0
	for i := range count {
		if was.tree.nodes[fmt.Sprintf("/n%d", i)] != nil {
			if found != i {
				t.Errorf("node %d exists, %d does not: the order was not kept", i, found)
			}
			found++
		}
	}
	if found < answered {
		t.Errorf("%d nodes exist of %d that were acknowledged", found, answered)
	}
	if was.sessions[c.session] != 10*time.Second {
		t.Errorf("session: %v", was.sessions)
	}
}

func serveUntilKilled(dir string) {
	s, err := Open(Config{Dir: dir})
	if err == nil {
		err = s.Listen("127.0.0.1:0")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Addr())
	select {}
}

// TestStoredTree writes a tree and reads it back.
func TestStoredTree(t *testing.T) {
	dir := t.TempDir()
	store, was, err := openStore(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	tree := was.tree
	me := Caller{Session: 7, IDs: []ID{digestID("me:secret")}}
	for _, op := range []Op{
		Create{Path: "/a", Data: []byte("x"), ACL: openACL},
		Create{Path: "/a/null", ACL: []ACL{{PermRead, anyone}, {PermAll, ID{"auth", ""}}}},
		Create{Path: "/a/mine", ACL: openACL, Mode: Ephemeral},
		Create{Path: "/c", ACL: openACL, Mode: Container},
		SetData{"/a", []byte{}, 0},
		Create{Path: "/a/gone", ACL: openACL},
		Delete{"/a/gone", -1},
	} {
		if _, _, _, code := tree.Write(5, me, op); code != OK {
			t.Fatalf("%+v: %v", op, code)
		}
		if err := store.commit(tree, newBatch()); err != nil {
			t.Fatal(err)
		}
	}
	want := dump(tree)
	if err := store.close(); err != nil {
		t.Fatal(err)
	}
	store, was, err = openStore(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	if diff := cmp.Diff(want, dump(was.tree)); diff != "" {
		t.Error(diff)
	}
	if was.tree.zxid != tree.zxid {
		t.Errorf("zxid %d, want %d", was.tree.zxid, tree.zxid)
	}
}

func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("not a database, but long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(Config{Dir: dir}); err == nil {
		s.Close()
		t.Error("a damaged file was accepted")
	}
}

func TestRunProperties(t *testing.T) {
	for _, c := range []struct {
		props map[string]string
		ok    bool
	}{
		{map[string]string{"dataDir": t.TempDir(), "clientPort": "0", "tickTime": "100", "autopurge.purgeInterval": "1"}, true},
		{map[string]string{"clientPort": "0"}, false},
		{map[string]string{"dataDir": t.TempDir(), "clientPort": "x"}, false},
		{map[string]string{"dataDir": t.TempDir(), "tickTime": "-5"}, false},
		{map[string]string{"dataDir": t.TempDir(), "server.1": "a:1:2"}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := RunProperties(ctx, c.props, testLogger(t)); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.props, err)
		}
	}
}

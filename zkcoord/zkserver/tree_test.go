package zkserver

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRollBack applies random transactions: a failed one must leave no trace but its zxid, and a successful one must
// have the effect of its operations one by one.
func TestRollBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	paths := []string{"/a", "/a/b", "/a/b/c", "/d", "/d/e", "/f"}
	random := func() Op {
		path := paths[rnd.IntN(len(paths))]
		version := int32(rnd.IntN(3) - 1)
		switch rnd.IntN(6) {
		case 0, 1:
			mode := []Mode{Persistent, Persistent, Ephemeral, PersistentSequential, Container}[rnd.IntN(5)]
			return Create{Path: path, ACL: openACL, Mode: mode}
		case 2:
			return Delete{path, version}
		case 3:
			return SetData{path, []byte{byte(rnd.IntN(256))}, version}
		case 4:
			return SetACL{path, openACL, version}
		}
		return Check{path, version}
	}
	tree, single := NewTree(), NewTree()
	failed, worked := 0, 0
	for i := range 1000 {
		ops := make([]Op, 1+rnd.IntN(4))
		for j := range ops {
			ops[j] = random()
		}
		before, zxid := dump(tree), tree.zxid
		who := Caller{Session: int64(1 + rnd.IntN(2))}
		_, changes, _, code := tree.Write(int64(i), who, ops...)
		if tree.zxid != zxid+1 || len(tree.undo) != 0 {
			t.Fatal("each write must take one zxid and leave nothing to undo")
		}
		if code != OK {
			failed++
			if diff := cmp.Diff(before, dump(tree)); diff != "" || len(changes) != 0 {
				t.Fatalf("%+v failed and changed %s", ops, diff)
			}
			single.zxid++
			continue
		}
		worked++
		for _, op := range ops {
			single.zxid = zxid
			if _, _, _, code := single.Write(int64(i), who, op); code != OK {
				t.Fatalf("%+v alone: %v", op, code)
			}
		}
		if diff := cmp.Diff(dump(single), dump(tree)); diff != "" {
			t.Fatalf("%+v: %s", ops, diff)
		}
		if rnd.IntN(50) == 0 {
			tree.CloseSession(1)
			single.CloseSession(1)
		}
	}
	if failed == 0 || worked == 0 {
		t.Errorf("%d failed, %d succeeded: the test covers only one side", failed, worked)
	}
}

// TestManyChildren: creating a node below one with many children stays cheap, so the children must not be copied.
func TestManyChildren(t *testing.T) {
	tree := NewTree()
	tree.Write(0, Caller{}, Create{Path: "/p", ACL: openACL})
	for i := range 5000 {
		tree.Write(0, Caller{}, Create{Path: fmt.Sprintf("/p/%d", i), ACL: openACL})
	}
	allocs := testing.AllocsPerRun(100, func() {
		tree.Write(0, Caller{}, Create{Path: "/p/x", ACL: openACL}, Delete{"/p/x", -1})
	})
	if allocs > 60 {
		t.Errorf("%v allocations for a create and a delete", allocs)
	}
}

func TestWatchTable(t *testing.T) {
	var w Watches[string]
	w.Add(WatchData, "/a", "one")
	w.Add(WatchData, "/a", "two")
	w.Add(WatchChildren, "/a", "one")
	w.Add(WatchRecursive, "/", "all")
	w.Forget("two")
	if got := w.Fire(Change{NodeDataChanged, "/a"}); len(got) != 2 {
		t.Errorf("fired %v", got)
	}
	if got := w.Fire(Change{NodeDeleted, "/a"}); len(got) != 2 {
		t.Errorf("fired %v", got)
	}
	if watches, paths := w.Len(); watches != 1 || paths != 1 {
		t.Errorf("%d watches on %d paths, want the recursive one alone", watches, paths)
	}
}

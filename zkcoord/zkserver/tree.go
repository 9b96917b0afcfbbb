package zkserver

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// Code is an error of the protocol.
type Code int32

// The codes that this server returns.
const (
	OK                      Code = 0
	RuntimeInconsistency    Code = -2 // in a failed multi: not attempted
	MarshallingError        Code = -5
	Unimplemented           Code = -6
	BadArguments            Code = -8
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	NoChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112
	InvalidACL              Code = -114
	AuthFailed              Code = -115
	NoWatcher               Code = -121
	ReconfigDisabled        Code = -123
)

func (c Code) Error() string { return fmt.Sprintf("zookeeper error %d", int32(c)) }

// Stat describes a znode; the fields are the protocol's.
type Stat struct {
	Czxid          int64
	Mzxid          int64
	CtimeMs        int64
	MtimeMs        int64
	Version        int32
	Cversion       int32
	Aversion       int32
	EphemeralOwner int64
	DataLength     int32
	NumChildren    int32
	Pzxid          int64
}

// containerOwner is the owner of a container: a node that is removed with its last child.
const containerOwner = math.MinInt64

// node is a znode. It is immutable: a change replaces it with another one, which makes undoing cheap.
type node struct {
	data     []byte // nil is null, which differs from empty
	acl      []ACL
	czxid    int64
	mzxid    int64
	pzxid    int64
	ctimeMs  int64
	mtimeMs  int64
	version  int32
	created  int32 // number of children ever created, used for sequential names
	aversion int32
	owner    int64
}

// ephemeral reports whether the node belongs to a session.
func (n *node) ephemeral() bool { return n.owner != 0 && n.owner != containerOwner }

// Tree is a tree of znodes. It is plain data: not safe for concurrent use, without a clock or I/O.
type Tree struct {
	zxid       int64
	nodes      map[string]*node
	children   map[string]map[string]struct{} // names by parent; no entry for a leaf
	ephemerals map[int64]map[string]struct{}  // paths by session
	containers map[string]struct{}
	undo       []before            // of the write in progress
	dirty      map[string]struct{} // paths changed since takeDirty
	dataBytes  int64
}

type before struct {
	path string
	node *node
}

// NewTree returns the tree of a new server.
func NewTree() *Tree {
	t := emptyTree()
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.put(path, &node{data: []byte{}, acl: openACL})
	}
	t.put("/zookeeper/config", &node{data: []byte{}, acl: readACL})
	t.undo = t.undo[:0]
	return t
}

// emptyTree returns a tree without even a root.
func emptyTree() *Tree {
	return &Tree{nodes: map[string]*node{}, children: map[string]map[string]struct{}{},
		ephemerals: map[int64]map[string]struct{}{}, containers: map[string]struct{}{}, dirty: map[string]struct{}{}}
}

// Zxid returns the number of the last write.
func (t *Tree) Zxid() int64 { return t.zxid }

// Len returns the number of znodes.
func (t *Tree) Len() int { return len(t.nodes) }

// Mode is how a create creates its node; the numbers are the protocol's.
type Mode int32

// The modes. The two with a time to live are refused, as servers do by default.
const (
	Persistent           Mode = 0
	Ephemeral            Mode = 1
	PersistentSequential Mode = 2
	EphemeralSequential  Mode = 3
	Container            Mode = 4
	PersistentTTL        Mode = 5
	SequentialTTL        Mode = 6
)

func (m Mode) sequential() bool { return m == PersistentSequential || m == EphemeralSequential }
func (m Mode) ephemeral() bool  { return m == Ephemeral || m == EphemeralSequential }

// Op is one write: Create, Delete, SetData, SetACL or Check.
type Op interface {
	apply(t *Tree, w *write) (Result, Code)
}

// Create makes a node.
type Create struct {
	Path string
	Data []byte // owned by the tree from then on
	ACL  []ACL
	Mode Mode
}

// Delete removes a node without children; version -1 matches any.
type Delete struct {
	Path    string
	Version int32
}

// SetData replaces a node's data; version -1 matches any.
type SetData struct {
	Path    string
	Data    []byte // owned by the tree from then on
	Version int32
}

// SetACL replaces a node's access list; version -1 matches any.
type SetACL struct {
	Path    string
	ACL     []ACL
	Version int32
}

// Check fails if the node has another version; version -1 only requires the node to exist.
type Check struct {
	Path    string
	Version int32
}

// Result is the result of one write.
type Result struct {
	Path string // of a Create: the node's path, with its sequence number
	Stat Stat   // after Create, SetData and SetACL
}

// Caller identifies who writes or reads.
type Caller struct {
	Session int64 // the owner of ephemerals
	IDs     []ID  // identities that it has authenticated as
}

// EventKind is what happened to a path; the numbers are the protocol's.
type EventKind int32

// The kinds.
const (
	NodeCreated         EventKind = 1
	NodeDeleted         EventKind = 2
	NodeDataChanged     EventKind = 3
	NodeChildrenChanged EventKind = 4
)

// Change is a change of one node by a write. It implies a change of the parent's children.
type Change struct {
	Kind EventKind
	Path string
}

// write is a transaction while it is applied.
type write struct {
	caller  Caller
	nowMs   int64
	changes []Change
}

// Write applies all operations or none. It always uses up a zxid, as servers do for a write that fails. If it fails,
// failed is the operation that did, with its code.
func (t *Tree) Write(nowMs int64, c Caller, ops ...Op) (results []Result, changes []Change, failed int, code Code) {
	t.zxid++
	w := &write{caller: c, nowMs: nowMs}
	results = make([]Result, len(ops))
	for i, op := range ops {
		if results[i], code = op.apply(t, w); code != OK {
			t.rollBack()
			return nil, nil, i, code
		}
	}
	t.undo = t.undo[:0]
	return results, w.changes, 0, OK
}

// CloseSession removes the ephemerals of a session in one write.
func (t *Tree) CloseSession(session int64) []Change {
	t.zxid++
	paths := slices.Sorted(maps.Keys(t.ephemerals[session]))
	changes := make([]Change, 0, len(paths))
	for _, path := range paths {
		t.remove(path)
		changes = append(changes, Change{NodeDeleted, path})
	}
	t.undo = t.undo[:0]
	return changes
}

// rollBack undoes the write in progress.
func (t *Tree) rollBack() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.link(t.undo[i].path, t.undo[i].node)
	}
	t.undo = t.undo[:0]
}

// put makes n the node of path, or removes the node if n is nil, and remembers the old one.
func (t *Tree) put(path string, n *node) {
	t.undo = append(t.undo, before{path, t.nodes[path]})
	t.dirty[path] = struct{}{}
	t.link(path, n)
}

// link does that and updates the indexes.
func (t *Tree) link(path string, n *node) {
	old := t.nodes[path]
	if old != nil {
		t.dataBytes -= int64(len(path) + len(old.data))
		if old.ephemeral() {
			drop(t.ephemerals, old.owner, path)
		}
		delete(t.containers, path)
	}
	if n == nil {
		delete(t.nodes, path)
		drop(t.children, parentOf(path), nameOf(path))
		return
	}
	t.nodes[path] = n
	t.dataBytes += int64(len(path) + len(n.data))
	if n.ephemeral() {
		include(t.ephemerals, n.owner, path)
	}
	if n.owner == containerOwner {
		t.containers[path] = struct{}{}
	}
	if old == nil && path != "/" {
		include(t.children, parentOf(path), nameOf(path))
	}
}

func include[K comparable](sets map[K]map[string]struct{}, key K, member string) {
	if sets[key] == nil {
		sets[key] = map[string]struct{}{}
	}
	sets[key][member] = struct{}{}
}

func drop[K comparable](sets map[K]map[string]struct{}, key K, member string) {
	delete(sets[key], member)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}

// parentOf returns the parent's path; that of the first level is the root.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// change replaces the node with a changed copy.
func (t *Tree) change(path string, edit func(*node)) {
	n := *t.nodes[path]
	edit(&n)
	t.put(path, &n)
}

// remove removes a leaf.
func (t *Tree) remove(path string) {
	t.put(path, nil)
	t.change(parentOf(path), func(n *node) { n.pzxid = t.zxid })
}

func (c Create) apply(t *Tree, w *write) (Result, Code) {
	switch {
	case c.Mode < Persistent || c.Mode > SequentialTTL:
		return Result{}, BadArguments
	case c.Mode == PersistentTTL || c.Mode == SequentialTTL:
		return Result{}, Unimplemented
	case !strings.Contains(c.Path, "/") || strings.Contains(c.Path, "\x00"):
		return Result{}, BadArguments
	}
	acl, ok := resolveACL(c.ACL, w.caller)
	if !ok {
		return Result{}, InvalidACL
	}
	above := parentOf(c.Path)
	parent := t.nodes[above]
	if parent == nil {
		return Result{}, NoNode
	}
	if !allowed(parent.acl, PermCreate, w.caller) {
		return Result{}, NoAuth
	}
	path := c.Path
	if c.Mode.sequential() {
		path += fmt.Sprintf("%010d", parent.created)
	}
	switch {
	case len(path) > maxPathBytes, !validPath(path):
		return Result{}, BadArguments
	case t.nodes[path] != nil:
		return Result{}, NodeExists
	case parent.ephemeral():
		return Result{}, NoChildrenForEphemerals
	}
	n := &node{data: c.Data, acl: acl, czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid, ctimeMs: w.nowMs, mtimeMs: w.nowMs}
	switch {
	case c.Mode.ephemeral():
		n.owner = w.caller.Session
	case c.Mode == Container:
		n.owner = containerOwner
	}
	t.put(path, n)
	t.change(above, func(p *node) { p.created++; p.pzxid = t.zxid })
	w.changes = append(w.changes, Change{NodeCreated, path})
	return Result{Path: path, Stat: t.stat(path)}, OK
}

func (d Delete) apply(t *Tree, w *write) (Result, Code) {
	if !strings.Contains(d.Path, "/") || strings.Contains(d.Path, "\x00") || reserved[d.Path] {
		return Result{}, BadArguments
	}
	parent, n := t.nodes[parentOf(d.Path)], t.nodes[d.Path]
	switch {
	case parent == nil:
		return Result{}, NoNode
	case !allowed(parent.acl, PermDelete, w.caller):
		return Result{}, NoAuth
	case n == nil:
		return Result{}, NoNode
	case d.Version != -1 && d.Version != n.version:
		return Result{}, BadVersion
	case len(t.children[d.Path]) > 0:
		return Result{}, NotEmpty
	}
	t.remove(d.Path)
	w.changes = append(w.changes, Change{NodeDeleted, d.Path})
	return Result{}, OK
}

// reserved are the server's own nodes, which cannot be removed.
var reserved = map[string]bool{"/": true, "/zookeeper": true, "/zookeeper/quota": true, "/zookeeper/config": true}

func (s SetData) apply(t *Tree, w *write) (Result, Code) {
	n, code := t.permitted(s.Path, PermWrite, w.caller)
	switch {
	case code != OK:
		return Result{}, code
	case s.Version != -1 && s.Version != n.version:
		return Result{}, BadVersion
	}
	t.change(s.Path, func(n *node) {
		n.data, n.mzxid, n.mtimeMs = s.Data, t.zxid, w.nowMs
		n.version++
	})
	w.changes = append(w.changes, Change{NodeDataChanged, s.Path})
	return Result{Stat: t.stat(s.Path)}, OK
}

func (s SetACL) apply(t *Tree, w *write) (Result, Code) {
	if !validPath(s.Path) {
		return Result{}, BadArguments
	}
	acl, ok := resolveACL(s.ACL, w.caller)
	if !ok {
		return Result{}, InvalidACL
	}
	n, code := t.permitted(s.Path, PermAdmin, w.caller)
	switch {
	case code != OK:
		return Result{}, code
	case s.Version != -1 && s.Version != n.aversion:
		return Result{}, BadVersion
	}
	t.change(s.Path, func(n *node) { n.acl = acl; n.aversion++ })
	return Result{Stat: t.stat(s.Path)}, OK
}

func (c Check) apply(t *Tree, w *write) (Result, Code) {
	n, code := t.permitted(c.Path, PermRead, w.caller)
	if code == OK && c.Version != -1 && c.Version != n.version {
		code = BadVersion
	}
	return Result{}, code
}

// permitted finds a node for writing, if the caller may.
func (t *Tree) permitted(path string, perm Perms, c Caller) (*node, Code) {
	if !validPath(path) {
		return nil, BadArguments
	}
	return t.readable(path, perm, c)
}

// readable finds a node for reading, if the caller may.
func (t *Tree) readable(path string, perm Perms, c Caller) (*node, Code) {
	n := t.nodes[path]
	switch {
	case n == nil:
		return nil, NoNode
	case !allowed(n.acl, perm, c):
		return nil, NoAuth
	}
	return n, OK
}

// Exists returns a node's stat.
func (t *Tree) Exists(path string, c Caller) (Stat, Code) {
	if strings.Contains(path, "\x00") {
		return Stat{}, BadArguments
	}
	if _, code := t.readable(path, PermRead, c); code != OK {
		return Stat{}, code
	}
	return t.stat(path), OK
}

// Get returns a node's data, which the caller must not modify, and its stat.
func (t *Tree) Get(path string, c Caller) ([]byte, Stat, Code) {
	n, code := t.readable(path, PermRead, c)
	if code != OK {
		return nil, Stat{}, code
	}
	return n.data, t.stat(path), OK
}

// Children returns the names of a node's children, sorted, and its stat.
func (t *Tree) Children(path string, c Caller) ([]string, Stat, Code) {
	if _, code := t.readable(path, PermRead, c); code != OK {
		return nil, Stat{}, code
	}
	return slices.Sorted(maps.Keys(t.children[path])), t.stat(path), OK
}

// Descendants counts the nodes below a node.
func (t *Tree) Descendants(path string, c Caller) (int, Code) {
	if _, code := t.readable(path, PermRead, c); code != OK {
		return 0, code
	}
	return t.below(path), OK
}

func (t *Tree) below(path string) int {
	count := len(t.children[path])
	for name := range t.children[path] {
		count += t.below(strings.TrimSuffix(path, "/") + "/" + name)
	}
	return count
}

// Ephemerals returns the paths that a session owns and that begin with prefix, sorted.
func (t *Tree) Ephemerals(session int64, prefix string) []string {
	paths := []string{}
	for path := range t.ephemerals[session] {
		if prefix = strings.TrimSpace(prefix); prefix == "" || prefix == "/" || strings.HasPrefix(path, prefix) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// ACL returns a node's access list and stat. A caller that may not change the list sees no digests.
func (t *Tree) ACL(path string, c Caller) ([]ACL, Stat, Code) {
	n, code := t.readable(path, PermRead|PermAdmin, c)
	if code != OK {
		return nil, Stat{}, code
	}
	if allowed(n.acl, PermAdmin, c) {
		return n.acl, t.stat(path), OK
	}
	return withoutDigests(n.acl), t.stat(path), OK
}

// stat returns a node's stat. The protocol's cversion counts creations and deletions; the node stores the former.
func (t *Tree) stat(path string) Stat {
	n := t.nodes[path]
	s := Stat{Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, CtimeMs: n.ctimeMs, MtimeMs: n.mtimeMs, Version: n.version,
		Aversion: n.aversion, EphemeralOwner: n.owner, DataLength: int32(len(n.data)), NumChildren: int32(len(t.children[path]))}
	s.Cversion = 2*n.created - s.NumChildren
	if n.owner == containerOwner {
		s.EphemeralOwner = 0
	}
	return s
}

// emptyContainers returns the containers that had children and have none now.
func (t *Tree) emptyContainers() []string {
	var paths []string
	for path := range t.containers {
		if t.nodes[path].created > 0 && len(t.children[path]) == 0 {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// takeDirty returns the paths that changed since the last call.
func (t *Tree) takeDirty() map[string]struct{} {
	dirty := t.dirty
	if len(dirty) > 0 {
		t.dirty = map[string]struct{}{}
	}
	return dirty
}

// maxPathBytes is the length of the longest path: the file could not hold a longer one. ZooKeeper's only limit is that
// of a request.
const maxPathBytes = bbolt.MaxKeySize

// validPath implements ZooKeeper's PathUtils.validatePath.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
	})
}

// dropContainer removes a container without a client's request.
type dropContainer struct{ path string }

func (d dropContainer) apply(t *Tree, w *write) (Result, Code) {
	t.remove(d.path)
	w.changes = append(w.changes, Change{NodeDeleted, d.path})
	return Result{}, OK
}

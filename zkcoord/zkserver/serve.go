package zkserver

import (
	"strings"
)

// serve answers a request. The body always has the operation's type, since the decoder creates both.
func (l *loop) serve(c *conn, q request) {
	switch q.op {
	case opPing, opReconfig:
		l.answer(c, q, codeOf(q.op), nil)
	case opCloseSession:
		l.closeSession(c.session)
		l.answer(c, q, OK, nil)
		l.end(c)
	case opAuth:
		l.authenticate(c, q, q.body.(authBody))
	case opMulti:
		l.multi(c, q, q.body.(multiBody))
	case opMultiRead:
		l.multiRead(c, q, q.body.(multiBody))
	case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opSetACL, opCheck:
		l.write(c, q)
	case opSetWatches, opSetWatches2:
		l.setWatches(c, q.body.(setWatchesBody))
		l.answer(c, q, OK, nil)
	case opAddWatch:
		l.addWatch(c, q, q.body.(pathKindBody))
	case opCheckWatches, opRemoveWatches:
		l.checkWatches(c, q, q.body.(pathKindBody))
	default:
		l.read(c, q)
	}
}

// codeOf returns the response to operations that need no work.
func codeOf(op int32) Code {
	if op == opReconfig {
		return ReconfigDisabled
	}
	return OK
}

// answer sends a header and, if the code is OK, the body.
func (l *loop) answer(c *conn, q request, code Code, body func([]byte) []byte) {
	l.frame(c, func(b []byte) []byte {
		b = appendHeader(b, q.xid, l.tree.zxid, code)
		if code == OK && body != nil {
			b = body(b)
		}
		return b
	})
}

func (l *loop) caller(c *conn) Caller { return Caller{c.session.id, c.ids} }

// authenticate adds an identity. A client that presents an invalid one is disconnected.
func (l *loop) authenticate(c *conn, q request, a authBody) {
	if a.scheme != "digest" {
		l.answer(c, q, AuthFailed, nil)
		l.end(c)
		return
	}
	id := digestID(string(a.secret))
	for _, has := range c.ids {
		if has == id {
			l.answer(c, q, OK, nil)
			return
		}
	}
	c.ids = append(c.ids, id)
	l.answer(c, q, OK, nil)
}

// opFor converts a body to an operation. What the tree keeps is copied, so that a small value does not retain a large
// frame.
func opFor(op int32, body any) Op {
	switch v := body.(type) {
	case createTTLBody:
		return Create{Path: v.path, Data: cloneData(v.data), ACL: v.acl, Mode: Mode(v.flags)}
	case createBody:
		mode := Mode(v.flags)
		if op == opCreateContainer && mode != Container || op != opCreateContainer && mode == Container {
			mode = -1 // not a mode of this operation
		}
		return Create{Path: v.path, Data: cloneData(v.data), ACL: v.acl, Mode: mode}
	case setDataBody:
		return SetData{v.path, cloneData(v.data), v.version}
	case setACLBody:
		return SetACL{v.path, v.acl, v.version}
	case pathVersionBody:
		if op == opDelete {
			return Delete{v.path, v.version}
		}
		return Check{v.path, v.version}
	}
	return nil
}

// cloneData copies data; null stays null.
func cloneData(data []byte) []byte {
	if data == nil {
		return nil
	}
	return append([]byte{}, data...)
}

func (l *loop) write(c *conn, q request) {
	results, changes, _, code := l.tree.Write(l.now.UnixMilli(), l.caller(c), opFor(q.op, q.body))
	l.announce(changes)
	l.answer(c, q, code, func(b []byte) []byte { return appendResult(b, q.op, results[0]) })
}

// appendResult encodes the result of an operation, both alone and in a multi.
func appendResult(b []byte, op int32, r Result) []byte {
	switch op {
	case opCreate:
		return appendText(b, r.Path)
	case opCreate2, opCreateContainer, opCreateTTL:
		return appendStat(appendText(b, r.Path), r.Stat)
	case opSetData, opSetACL:
		return appendStat(b, r.Stat)
	}
	return b
}

// multi applies operations as one. If one fails, the response has OK for those before it, its code, and
// RuntimeInconsistency for those after it.
func (l *loop) multi(c *conn, q request, body multiBody) {
	ops := make([]Op, len(body))
	for i, m := range body {
		if ops[i] = opFor(m.op, m.body); ops[i] == nil || m.op == opSetACL {
			l.answer(c, q, MarshallingError, nil)
			return
		}
	}
	results, changes, failed, code := l.tree.Write(l.now.UnixMilli(), l.caller(c), ops...)
	l.announce(changes)
	l.answer(c, q, OK, func(b []byte) []byte {
		for i, m := range body {
			if code == OK {
				op := resultOp(m.op)
				b = appendResult(appendMultiHeader(b, op, false, OK), op, results[i])
				continue
			}
			is := OK
			switch {
			case i == failed:
				is = code
			case i > failed:
				is = RuntimeInconsistency
			}
			b = appendMultiError(b, is)
		}
		return appendMultiHeader(b, opError, true, -1)
	})
}

// resultOp returns the operation that a multi's response names: ZooKeeper 3.8 treats create2 as create there, and
// answers every other kind of create as create2.
func resultOp(op int32) int32 {
	switch op {
	case opCreate2:
		return opCreate
	case opCreateContainer, opCreateTTL:
		return opCreate2
	}
	return op
}

func appendMultiError(b []byte, code Code) []byte {
	return appendInt32(appendMultiHeader(b, opError, false, code), int32(code))
}

// multiRead reads several nodes at one moment; each result is independent.
func (l *loop) multiRead(c *conn, q request, body multiBody) {
	for _, m := range body {
		if m.op != opGetData && m.op != opGetChildren {
			l.answer(c, q, MarshallingError, nil)
			return
		}
	}
	l.answer(c, q, OK, func(b []byte) []byte {
		for _, m := range body {
			read, code := l.readNode(c, m.op, m.body)
			if code != OK {
				b = appendMultiError(b, code)
				continue
			}
			b = read(appendMultiHeader(b, m.op, false, OK))
		}
		return appendMultiHeader(b, opError, true, -1)
	})
}

func (l *loop) read(c *conn, q request) {
	body, code := l.readNode(c, q.op, q.body)
	l.answer(c, q, code, body)
}

// readNode reads, sets the requested watch, and returns a function that encodes the response.
func (l *loop) readNode(c *conn, op int32, body any) (func([]byte) []byte, Code) {
	switch v := body.(type) {
	case pathWatchBody:
		return l.readWatched(c, op, v)
	case pathBody:
		return l.readPath(c, op, v.path)
	}
	if op == opWhoAmI {
		return func(b []byte) []byte { return appendIDs(b, c.ids) }, OK
	}
	return nil, Unimplemented
}

func (l *loop) readWatched(c *conn, op int32, v pathWatchBody) (func([]byte) []byte, Code) {
	watch := func(kind WatchKind, code Code) {
		if v.watch && code == OK {
			l.watches.Add(kind, v.path, c)
		}
	}
	switch op {
	case opExists:
		stat, code := l.tree.Exists(v.path, l.caller(c))
		if v.watch && code == NoNode { // it waits for the node's creation
			l.watches.Add(WatchData, v.path, c)
		}
		watch(WatchData, code)
		return func(b []byte) []byte { return appendStat(b, stat) }, code
	case opGetData:
		data, stat, code := l.tree.Get(v.path, l.caller(c))
		watch(WatchData, code)
		return func(b []byte) []byte { return appendStat(appendBuffer(b, data), stat) }, code
	}
	names, stat, code := l.tree.Children(v.path, l.caller(c))
	watch(WatchChildren, code)
	return func(b []byte) []byte {
		b = appendTexts(b, names)
		if op == opGetChildren2 {
			b = appendStat(b, stat)
		}
		return b
	}, code
}

func (l *loop) readPath(c *conn, op int32, path string) (func([]byte) []byte, Code) {
	switch op {
	case opSync: // a single node is never behind itself
		return func(b []byte) []byte { return appendText(b, path) }, OK
	case opGetACL:
		list, stat, code := l.tree.ACL(path, l.caller(c))
		return func(b []byte) []byte { return appendStat(appendACLs(b, list), stat) }, code
	case opGetEphemerals:
		paths := l.tree.Ephemerals(c.session.id, path)
		return func(b []byte) []byte { return appendTexts(b, paths) }, OK
	}
	count, code := l.tree.Descendants(path, l.caller(c))
	return func(b []byte) []byte { return appendInt32(b, int32(count)) }, code
}

func appendIDs(b []byte, ids []ID) []byte {
	b = appendInt32(b, int32(len(ids)))
	for _, id := range ids {
		user := id.ID
		if id.Scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		b = appendText(appendText(b, id.Scheme), user)
	}
	return b
}

// setWatches takes over a client's watches from its previous connection. Changes since the zxid that the client has
// seen are reported at once; the rest is watched again.
func (l *loop) setWatches(c *conn, w setWatchesBody) {
	for _, path := range w.data {
		switch n := l.tree.nodes[path]; {
		case n == nil:
			l.event(c, NodeDeleted, path)
		case n.mzxid > w.relativeZxid:
			l.event(c, NodeDataChanged, path)
		default:
			l.watches.Add(WatchData, path, c)
		}
	}
	for _, path := range w.exist {
		if l.tree.nodes[path] != nil {
			l.event(c, NodeCreated, path)
		} else {
			l.watches.Add(WatchData, path, c)
		}
	}
	for _, path := range w.children {
		switch n := l.tree.nodes[path]; {
		case n == nil:
			l.event(c, NodeDeleted, path)
		case n.pzxid > w.relativeZxid:
			l.event(c, NodeChildrenChanged, path)
		default:
			l.watches.Add(WatchChildren, path, c)
		}
	}
	for _, path := range w.persistent {
		l.watches.Add(WatchPersistent, path, c)
	}
	for _, path := range w.recursive {
		l.watches.Add(WatchRecursive, path, c)
	}
}

// The modes of addWatch.
const (
	addPersistent = 0
	addRecursive  = 1
)

func (l *loop) addWatch(c *conn, q request, v pathKindBody) {
	switch v.kind {
	case addPersistent:
		l.watches.Add(WatchPersistent, v.path, c)
	case addRecursive:
		l.watches.Add(WatchRecursive, v.path, c)
	default:
		l.answer(c, q, BadArguments, nil)
		return
	}
	l.answer(c, q, OK, func(b []byte) []byte { return appendInt32(b, int32(OK)) })
}

// The kinds of watches in checkWatches and removeWatches.
const (
	ofChildren = 1
	ofData     = 2
	ofAny      = 3
)

// checkWatches checks whether the client has a watch, and for removeWatches removes it.
func (l *loop) checkWatches(c *conn, q request, v pathKindBody) {
	var kinds []WatchKind
	switch v.kind {
	case ofChildren:
		kinds = []WatchKind{WatchChildren, WatchPersistent, WatchRecursive}
	case ofData:
		kinds = []WatchKind{WatchData, WatchPersistent, WatchRecursive}
	case ofAny:
		kinds = []WatchKind{WatchData, WatchChildren, WatchPersistent, WatchRecursive}
	}
	code := NoWatcher
	for _, kind := range kinds {
		has := l.watches.Has(kind, v.path, c)
		if q.op == opRemoveWatches {
			has = l.watches.Remove(kind, v.path, c)
		}
		if has {
			code = OK
		}
	}
	l.answer(c, q, code, nil)
}

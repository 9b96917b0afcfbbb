package zksim

import (
	"fmt"
	"maps"
	"slices"

	"barnabas/zkcoord"
	"barnabas/zkcoord/zkserver"

	"github.com/go-zookeeper/zk"
)

// Fate is what becomes of a request.
type Fate int

const (
	Answered    Fate = iota
	RequestLost      // the connection breaks before the servers receive it
	AnswerLost       // the connection breaks after the servers have carried it out
)

// Conn is a client's connection with its session. It implements zkcoord.Conn.
type Conn struct {
	// Wait lets others proceed, and returns when it is this client's turn again. It is called while a request and its
	// response are in transit, and while the connection is down. nil: nothing happens in between, and the connection
	// must not break.
	Wait func()
	// Fate decides about each request; nil: all are answered.
	Fate func() Fate

	e       *Ensemble
	handle  func(zk.Event)
	session int64 // 0: expired, and the client does not know yet
	last    int64 // the session as known to the client
	up      bool
	closed  bool
	breaks  int        // how often the connection has broken
	due     []zk.Event // of watches, in transit to the client
	taken   int        // number of events delivered
	watched map[string]struct{}
}

var _ zkcoord.Conn = (*Conn)(nil)

func (c *Conn) open() {
	c.session = c.e.newSession()
	c.last, c.up = c.session, true
	c.watched = make(map[string]struct{})
	c.handle(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
}

// Up reports whether the connection is up.
func (c *Conn) Up() bool { return c.up }

// Alive reports whether the session exists on the servers.
func (c *Conn) Alive() bool { return c.session != 0 }

// Due returns the number of watch events in transit.
func (c *Conn) Due() int { return len(c.due) }

// Deliver delivers the watch events in transit.
func (c *Conn) Deliver() {
	if c.up {
		c.deliver(len(c.due))
	}
}

func (c *Conn) deliver(n int) {
	for range n {
		event := c.due[0]
		c.due = c.due[1:]
		c.taken++
		c.handle(event)
	}
}

// Break breaks the connection. The session continues to exist.
func (c *Conn) Break() {
	if !c.up {
		return
	}
	c.up = false
	c.breaks++
	c.handle(zk.Event{Type: zk.EventSession, State: zk.StateDisconnected})
}

// Expire ends the session on the servers, which remove its ephemeral nodes, and breaks the connection. The client
// learns of it when it reconnects.
func (c *Conn) Expire() {
	if c.session == 0 {
		return
	}
	if !c.closed {
		c.Break()
	}
	session := c.session
	c.session = 0
	c.taken += len(c.due)
	c.due = nil
	c.e.watches.Forget(c)
	c.e.closeSession(session)
}

// Restore restores a broken connection, with a new session if the old one has expired.
func (c *Conn) Restore() {
	if c.up || c.closed {
		return
	}
	if c.session != 0 {
		c.up = true
		c.handle(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
		return
	}
	c.handle(zk.Event{Type: zk.EventSession, State: zk.StateExpired})
	for _, path := range slices.Sorted(maps.Keys(c.watched)) {
		c.handle(zk.Event{Type: zk.EventNotWatching, Path: path})
	}
	c.open()
}

// Kill ends the client's process: nothing from it arrives any more. The session is left to expire.
func (c *Conn) Kill() { c.closed, c.up = true, false }

// Close closes the session properly.
func (c *Conn) Close() {
	c.Kill()
	c.Expire()
}

// SessionID implements zkcoord.Conn.
func (c *Conn) SessionID() int64 { return c.last }

// do carries a request to the servers and its response back.
func (c *Conn) do(f func() error) error {
	c.wait()
	c.awaitUp()
	if c.closed {
		return zk.ErrClosing
	}
	fate := Answered
	if c.Fate != nil {
		fate = c.Fate()
	}
	if fate == RequestLost {
		c.Break()
		return c.lost()
	}
	breaks := c.breaks
	err := f()
	before := c.taken + len(c.due) // these events come before the response
	if fate == AnswerLost {
		c.Break()
	}
	c.wait()
	if c.closed || c.breaks != breaks {
		return c.lost()
	}
	c.deliver(max(0, before-c.taken))
	return err
}

// lost ends a request whose connection broke.
func (c *Conn) lost() error {
	c.awaitUp()
	if c.closed {
		return zk.ErrClosing
	}
	return zk.ErrConnectionClosed
}

func (c *Conn) wait() {
	if c.Wait != nil && !c.closed {
		c.Wait()
	}
}

func (c *Conn) awaitUp() {
	for !c.up && !c.closed {
		if c.Wait == nil {
			panic("zksim: a connection that nobody waits for is down")
		}
		c.Wait()
	}
}

func (c *Conn) watch(kind zkserver.WatchKind, path string) {
	c.watched[path] = struct{}{}
	c.e.watches.Add(kind, path, c)
}

// Get implements zkcoord.Conn.
func (c *Conn) Get(path string) (data []byte, stat *zk.Stat, err error) { return c.get(path, false) }

// GetW implements zkcoord.Conn.
func (c *Conn) GetW(path string) ([]byte, *zk.Stat, <-chan zk.Event, error) {
	data, stat, err := c.get(path, true)
	return data, stat, nil, err
}

func (c *Conn) get(path string, watch bool) (data []byte, stat *zk.Stat, err error) {
	err = c.do(func() error {
		d, s, code := c.e.tree.Get(path, caller(c.session))
		if code == zkserver.OK && watch {
			c.watch(zkserver.WatchData, path)
		}
		data, stat = d, statOf(s)
		return errorOf(code)
	})
	return data, stat, err
}

// Exists implements zkcoord.Conn.
func (c *Conn) Exists(path string) (bool, *zk.Stat, error) { return c.exists(path, false) }

// ExistsW implements zkcoord.Conn.
func (c *Conn) ExistsW(path string) (bool, *zk.Stat, <-chan zk.Event, error) {
	found, stat, err := c.exists(path, true)
	return found, stat, nil, err
}

func (c *Conn) exists(path string, watch bool) (found bool, stat *zk.Stat, err error) {
	err = c.do(func() error {
		s, code := c.e.tree.Exists(path, caller(c.session))
		if watch {
			c.watch(zkserver.WatchData, path)
		}
		found, stat = code == zkserver.OK, statOf(s)
		if code == zkserver.NoNode {
			return nil
		}
		return errorOf(code)
	})
	return found, stat, err
}

// Children implements zkcoord.Conn.
func (c *Conn) Children(path string) ([]string, *zk.Stat, error) { return c.children(path, false) }

// ChildrenW implements zkcoord.Conn.
func (c *Conn) ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error) {
	names, stat, err := c.children(path, true)
	return names, stat, nil, err
}

func (c *Conn) children(path string, watch bool) (names []string, stat *zk.Stat, err error) {
	err = c.do(func() error {
		n, s, code := c.e.tree.Children(path, caller(c.session))
		if code == zkserver.OK && watch {
			c.watch(zkserver.WatchChildren, path)
		}
		names, stat = n, statOf(s)
		return errorOf(code)
	})
	return names, stat, err
}

// Create implements zkcoord.Conn. The node is open to everyone.
func (c *Conn) Create(path string, data []byte, flags int32, _ []zk.ACL) (name string, err error) {
	err = c.do(func() error {
		results, _, code := c.e.write(c.session, create(path, data, flags))
		if code == zkserver.OK {
			name = results[0].Path
		}
		return errorOf(code)
	})
	return name, err
}

// Set implements zkcoord.Conn.
func (c *Conn) Set(path string, data []byte, version int32) (stat *zk.Stat, err error) {
	err = c.do(func() error {
		results, _, code := c.e.write(c.session, zkserver.SetData{Path: path, Data: data, Version: version})
		if code == zkserver.OK {
			stat = statOf(results[0].Stat)
		}
		return errorOf(code)
	})
	return stat, err
}

// Delete implements zkcoord.Conn.
func (c *Conn) Delete(path string, version int32) error {
	return c.do(func() error {
		_, _, code := c.e.write(c.session, zkserver.Delete{Path: path, Version: version})
		return errorOf(code)
	})
}

// Sync implements zkcoord.Conn. A single tree is never behind.
func (c *Conn) Sync(path string) (string, error) { return path, c.do(func() error { return nil }) }

// Multi implements zkcoord.Conn.
func (c *Conn) Multi(requests ...any) (answers []zk.MultiResponse, err error) {
	ops := make([]zkserver.Op, len(requests))
	for i, r := range requests {
		ops[i] = opOf(r)
	}
	err = c.do(func() error {
		results, failed, code := c.e.write(c.session, ops...)
		answers = make([]zk.MultiResponse, len(ops))
		if code != zkserver.OK {
			answers[failed].Error = errorOf(code)
			return errorOf(code)
		}
		for i, r := range results {
			answers[i] = zk.MultiResponse{Stat: statOf(r.Stat), String: r.Path}
		}
		return nil
	})
	return answers, err
}

func create(path string, data []byte, flags int32) zkserver.Create {
	everybody := []zkserver.ACL{{Perms: zkserver.PermAll, ID: zkserver.ID{Scheme: "world", ID: "anyone"}}}
	return zkserver.Create{Path: path, Data: data, ACL: everybody, Mode: zkserver.Mode(flags)}
}

func opOf(request any) zkserver.Op {
	switch r := request.(type) {
	case *zk.CreateRequest:
		return create(r.Path, r.Data, r.Flags)
	case *zk.SetDataRequest:
		return zkserver.SetData{Path: r.Path, Data: r.Data, Version: r.Version}
	case *zk.DeleteRequest:
		return zkserver.Delete{Path: r.Path, Version: r.Version}
	case *zk.CheckVersionRequest:
		return zkserver.Check{Path: r.Path, Version: r.Version}
	}
	panic(fmt.Sprintf("zksim: %T in a multi", request))
}

func statOf(s zkserver.Stat) *zk.Stat {
	return &zk.Stat{Czxid: s.Czxid, Mzxid: s.Mzxid, Ctime: s.CtimeMs, Mtime: s.MtimeMs, Version: s.Version, Cversion: s.Cversion,
		Aversion: s.Aversion, EphemeralOwner: s.EphemeralOwner, DataLength: s.DataLength, NumChildren: s.NumChildren, Pzxid: s.Pzxid}
}

// errorOf converts a code to the error of the client library.
func errorOf(code zkserver.Code) error {
	switch code {
	case zkserver.OK:
		return nil
	case zkserver.NoNode:
		return zk.ErrNoNode
	case zkserver.NodeExists:
		return zk.ErrNodeExists
	case zkserver.BadVersion:
		return zk.ErrBadVersion
	case zkserver.NotEmpty:
		return zk.ErrNotEmpty
	case zkserver.NoChildrenForEphemerals:
		return zk.ErrNoChildrenForEphemerals
	}
	return fmt.Errorf("zksim: error %d", code)
}

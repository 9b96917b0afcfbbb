package zksim

import (
	"barnabas/zkcoord"
	"barnabas/zkcoord/zkserver"

	"github.com/go-zookeeper/zk"
)

// Ensemble is the servers' side: one tree and its watches.
type Ensemble struct {
	tree     *zkserver.Tree
	watches  zkserver.Watches[*Conn]
	sessions int64
}

// New returns an ensemble with an empty tree.
func New() *Ensemble { return &Ensemble{tree: zkserver.NewTree()} }

// Zxid returns the number of the last write, including refused ones.
func (e *Ensemble) Zxid() int64 { return e.tree.Zxid() }

// Connect opens a session and returns a client for it.
func (e *Ensemble) Connect(cfg zkcoord.Config) (*zkcoord.Client, *Conn) {
	return e.ConnectBy(cfg, func(c *Conn) zkcoord.Conn { return c })
}

// ConnectBy is Connect for a client that uses what around makes of its connection.
func (e *Ensemble) ConnectBy(cfg zkcoord.Config, around func(*Conn) zkcoord.Conn) (*zkcoord.Client, *Conn) {
	c := &Conn{e: e}
	client, handle := zkcoord.Simulated(cfg, around(c))
	c.handle = handle
	c.open()
	return client, c
}

func (e *Ensemble) newSession() int64 {
	e.sessions++
	return e.sessions
}

// write applies the operations as one, and fires the watches.
func (e *Ensemble) write(session int64, ops ...zkserver.Op) (results []zkserver.Result, failed int, code zkserver.Code) {
	results, changes, failed, code := e.tree.Write(0, caller(session), ops...)
	e.fire(changes)
	return results, failed, code
}

func (e *Ensemble) closeSession(session int64) { e.fire(e.tree.CloseSession(session)) }

func (e *Ensemble) fire(changes []zkserver.Change) {
	for _, change := range changes {
		for _, f := range e.watches.Fire(change) {
			f.Client.due = append(f.Client.due, zk.Event{Type: zk.EventType(f.Kind), Path: f.Path, State: zk.StateHasSession})
		}
	}
}

func caller(session int64) zkserver.Caller { return zkserver.Caller{Session: session} }

package zkcoord

import "github.com/go-zookeeper/zk"

// Conn is what the client needs of a connection to ZooKeeper: *zk.Conn, or a simulated one. The channels of watches are
// not used: events come to the client's handler.
type Conn interface {
	Get(path string) ([]byte, *zk.Stat, error)
	GetW(path string) ([]byte, *zk.Stat, <-chan zk.Event, error)
	Exists(path string) (bool, *zk.Stat, error)
	ExistsW(path string) (bool, *zk.Stat, <-chan zk.Event, error)
	Children(path string) ([]string, *zk.Stat, error)
	ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error)
	Create(path string, data []byte, flags int32, acl []zk.ACL) (string, error)
	Set(path string, data []byte, version int32) (*zk.Stat, error)
	Delete(path string, version int32) error
	Multi(ops ...any) ([]zk.MultiResponse, error)
	Sync(path string) (string, error)
	SessionID() int64
	Close()
}

var _ Conn = (*zk.Conn)(nil)

// Simulated returns a client with a simulated connection. It starts no goroutine: calls run on their caller's, one
// request after the other, and handle, which takes the events of the session and of watches, calls the subscribers
// before it returns. A call on a broken connection must wait, and is answered when there is a session again.
func Simulated(cfg Config, conn Conn) (c *Client, handle func(zk.Event)) {
	c = &Client{
		cfg:       cfg,
		log:       cfg.Logger,
		conn:      conn,
		hosts:     new(hostList),
		way:       new(dialer),
		events:    syncDispatcher(),
		closed:    make(chan struct{}),
		simulated: true,
	}
	c.session.init()
	return c, c.onLibraryEvent
}

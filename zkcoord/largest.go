package zkcoord

import (
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrTooLarge reports a request that is larger than the servers accept. They would close the connection instead of
// responding, and again whenever the request is repeated; all other requests of this client would suffer from that. It
// wraps INVALID_REQUEST.
var ErrTooLarge = fmt.Errorf("zkcoord: more than ZooKeeper accepts (jute.maxbuffer): %w", kerr.InvalidRequest)

// defaultLargest is the servers' default of jute.maxbuffer, in bytes.
const defaultLargest = 0xfffff

// boundedConn refuses writes that are too large.
type boundedConn struct {
	Conn
	largest int // bytes
}

// Create implements Conn.
func (c boundedConn) Create(path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	if err := c.check(headerBytes + createBytes(path, data, acl)); err != nil {
		return "", err
	}
	return c.Conn.Create(path, data, flags, acl)
}

// Set implements Conn.
func (c boundedConn) Set(path string, data []byte, version int32) (*zk.Stat, error) {
	if err := c.check(headerBytes + setBytes(path, data)); err != nil {
		return nil, err
	}
	return c.Conn.Set(path, data, version)
}

// Multi implements Conn.
func (c boundedConn) Multi(ops ...any) ([]zk.MultiResponse, error) {
	size := headerBytes + opBytes
	for _, op := range ops {
		switch r := op.(type) {
		case *zk.CreateRequest:
			size += opBytes + createBytes(r.Path, r.Data, r.Acl)
		case *zk.SetDataRequest:
			size += opBytes + setBytes(r.Path, r.Data)
		case *zk.DeleteRequest:
			size += opBytes + setBytes(r.Path, nil)
		case *zk.CheckVersionRequest:
			size += opBytes + setBytes(r.Path, nil)
		}
	}
	if err := c.check(size); err != nil {
		return nil, err
	}
	return c.Conn.Multi(ops...)
}

func (c boundedConn) check(size int) error {
	if size > c.largest {
		return fmt.Errorf("%d bytes are %w", size, ErrTooLarge)
	}
	return nil
}

// The sizes of the parts of a request, in bytes: numbers have 4, and precede paths, data and lists as their sizes.
const (
	number      = 4
	headerBytes = 2 * number // of every request: xid, operation
	opBytes     = 2*number + 1
)

func createBytes(path string, data []byte, acl []zk.ACL) int {
	size := 4*number + len(path) + len(data)
	for _, a := range acl {
		size += 3*number + len(a.Scheme) + len(a.ID)
	}
	return size
}

func setBytes(path string, data []byte) int { return 3*number + len(path) + len(data) }

package zkcoord

import (
	"context"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// anyVersion makes a write unconditional.
const anyVersion = -1

// request repeats f until the server has responded, and returns the response. lost is true if the response to an
// earlier attempt was lost, so that the attempt may have succeeded. Cancelling the context abandons the current
// attempt.
func request[T any](ctx context.Context, c *Client, f func(Conn) (T, error)) (value T, lost bool, err error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return value, lost, err
		}
		value, abandoned, err := attempt(ctx, c, f)
		if abandoned {
			return value, true, err
		}
		if !isLost(err) {
			return value, lost, err
		}
		lost = true
		if err := c.session.awaitConnected(ctx, c.closed); err != nil {
			return value, true, err
		}
	}
}

// attempt is one attempt of a request. It is abandoned when the context or the client ends.
func attempt[T any](ctx context.Context, c *Client, f func(Conn) (T, error)) (value T, abandoned bool, err error) {
	if c.simulated {
		value, err = f(c.conn)
		return value, false, err
	}
	type answer struct {
		value T
		err   error
	}
	answered, began := make(chan answer, 1), time.Now()
	go func() {
		value, err := f(c.conn)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		if c.cfg.Answered != nil && !isLost(a.err) {
			c.cfg.Answered(time.Since(began))
		}
		return a.value, false, a.err
	case <-ctx.Done():
		return value, true, context.Cause(ctx)
	case <-c.closed:
		return value, true, ErrClosed
	}
}

type node struct {
	data []byte
	stat zk.Stat
}

// get reads a node. The error for a missing one is zk.ErrNoNode.
func (c *Client) get(ctx context.Context, path string) (node, error) {
	n, _, err := request(ctx, c, func(conn Conn) (node, error) {
		data, stat, err := conn.Get(c.chroot + path)
		if err != nil {
			return node{}, err
		}
		return node{data, *stat}, nil
	})
	return n, wrapPath("read", path, err)
}

// watch reads and watches a node, even if it is missing (then found is false).
func (c *Client) watch(ctx context.Context, path string) (n node, found bool, err error) {
	if found, err = c.watchExists(ctx, path); err != nil || !found {
		return node{}, false, err
	}
	n, err = c.get(ctx, path)
	if isNoNode(err) { // deleted in between; the watch reports its return
		return node{}, false, nil
	}
	return n, err == nil, err
}

func (c *Client) watchExists(ctx context.Context, path string) (bool, error) {
	key := watchKey{path, false}
	if !c.watches.arm(key) {
		return c.exists(ctx, path)
	}
	found, _, err := request(ctx, c, func(conn Conn) (bool, error) {
		found, _, _, err := conn.ExistsW(c.chroot + path)
		return found, err
	})
	if err != nil {
		c.watches.disarm(key)
	}
	return found, wrapPath("watch", path, err)
}

func (c *Client) exists(ctx context.Context, path string) (bool, error) {
	found, _, err := request(ctx, c, func(conn Conn) (bool, error) {
		found, _, err := conn.Exists(c.chroot + path)
		return found, err
	})
	return found, wrapPath("look up", path, err)
}

// sync makes the server that this client is connected to catch up with the ensemble, so that the next read is at least
// as recent as any read that others have completed.
func (c *Client) sync(ctx context.Context, path string) error {
	_, _, err := request(ctx, c, func(conn Conn) (string, error) { return conn.Sync(c.chroot + path) })
	return wrapPath("sync", path, err)
}

// watchData reads and watches a node that should exist. The error for a missing one is zk.ErrNoNode, and no watch is
// set.
func (c *Client) watchData(ctx context.Context, path string) (node, error) {
	key := watchKey{path, false}
	if !c.watches.arm(key) {
		return c.get(ctx, path)
	}
	n, _, err := request(ctx, c, func(conn Conn) (node, error) {
		data, stat, _, err := conn.GetW(c.chroot + path)
		if err != nil {
			return node{}, err
		}
		return node{data, *stat}, nil
	})
	if err != nil {
		c.watches.disarm(key)
	}
	return n, wrapPath("watch", path, err)
}

// children lists a node's children. The error for a missing node is zk.ErrNoNode.
func (c *Client) children(ctx context.Context, path string) ([]string, error) {
	names, _, err := request(ctx, c, func(conn Conn) ([]string, error) {
		names, _, err := conn.Children(c.chroot + path)
		return names, err
	})
	return names, wrapPath("list", path, err)
}

// watchChildren lists and watches a node's children. A missing node, which somebody has removed, is created: otherwise
// nothing would announce its next children.
func (c *Client) watchChildren(ctx context.Context, path string) ([]string, error) {
	names, err := c.tryWatchChildren(ctx, path)
	if isNoNode(err) {
		if err := c.ensurePath(ctx, path); err != nil {
			return nil, err
		}
		names, err = c.tryWatchChildren(ctx, path)
	}
	return names, ignoreNoNode(err)
}

func (c *Client) tryWatchChildren(ctx context.Context, path string) ([]string, error) {
	key := watchKey{path, true}
	if !c.watches.arm(key) {
		return c.children(ctx, path)
	}
	names, _, err := request(ctx, c, func(conn Conn) ([]string, error) {
		names, _, _, err := conn.ChildrenW(c.chroot + path)
		return names, err
	})
	if err != nil {
		c.watches.disarm(key)
	}
	return names, wrapPath("watch", path, err)
}

// create creates a persistent node. created is false if it existed before.
func (c *Client) create(ctx context.Context, path string, data []byte) (created bool, err error) {
	_, lost, err := request(ctx, c, func(conn Conn) (string, error) {
		return conn.Create(c.chroot+path, data, zk.FlagPersistent, c.aclOf(path))
	})
	if !isNodeExists(err) {
		return err == nil, wrapPath("create", path, err)
	}
	if !lost {
		return false, nil
	}
	n, err := c.get(ctx, path) // it may be from our own first attempt
	if err != nil {
		return false, ignoreNoNode(err)
	}
	return string(n.data) == string(data), nil
}

// createDeep is create, but also creates missing parents.
func (c *Client) createDeep(ctx context.Context, path string, data []byte) (created bool, err error) {
	created, err = c.create(ctx, path, data)
	if !isNoNode(err) {
		return created, err
	}
	if err := c.ensurePath(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
		return false, err
	}
	return c.create(ctx, path, data)
}

// ensurePath creates a node without data, and its parents, unless they exist.
func (c *Client) ensurePath(ctx context.Context, path string) error {
	_, err := c.create(ctx, path, nil)
	if i := strings.LastIndexByte(path, '/'); isNoNode(err) && i > 0 {
		if err := c.ensurePath(ctx, path[:i]); err != nil {
			return err
		}
		_, err = c.create(ctx, path, nil)
	}
	return err
}

// createSequential creates a persistent sequential node and its missing parents. If a response is lost there may be two
// nodes, which neither our readers nor Apache Kafka's mind.
func (c *Client) createSequential(ctx context.Context, prefix string, data []byte) error {
	attempt := func() error {
		_, _, err := request(ctx, c, func(conn Conn) (string, error) {
			return conn.Create(c.chroot+prefix, data, zk.FlagSequence, c.aclOf(prefix))
		})
		return wrapPath("create", prefix, err)
	}
	err := attempt()
	if isNoNode(err) {
		if err := c.ensurePath(ctx, prefix[:strings.LastIndexByte(prefix, '/')]); err != nil {
			return err
		}
		err = attempt()
	}
	return err
}

// set writes a node whatever its version, and returns the new stat.
func (c *Client) set(ctx context.Context, path string, data []byte) (zk.Stat, error) {
	stat, _, err := request(ctx, c, func(conn Conn) (zk.Stat, error) {
		stat, err := conn.Set(c.chroot+path, data, anyVersion)
		if err != nil {
			return zk.Stat{}, err
		}
		return *stat, nil
	})
	return stat, wrapPath("write", path, err)
}

// setIf writes a node if it has the version. ok is false if it has another one.
func (c *Client) setIf(ctx context.Context, path string, data []byte, version int32) (newVersion int32, ok bool, err error) {
	newVersion, ok, _, err = c.trySet(ctx, path, data, version)
	return newVersion, ok, err
}

// trySet is setIf. If unsure is true and ok is not, the node may have been written, and then by others.
func (c *Client) trySet(ctx context.Context, path string, data []byte, version int32) (newVersion int32, ok, unsure bool, err error) {
	stat, lost, err := request(ctx, c, func(conn Conn) (zk.Stat, error) {
		stat, err := conn.Set(c.chroot+path, data, version)
		if err != nil {
			return zk.Stat{}, err
		}
		return *stat, nil
	})
	switch {
	case isBadVersion(err) && lost:
		newVersion, ok, err = c.written(ctx, path, data, version)
		return newVersion, ok, true, err
	case isBadVersion(err):
		return 0, false, false, nil
	}
	return stat.Version, err == nil, lost, wrapPath("write", path, err)
}

// written reports, after a lost response, whether the node contains what we wrote over that version.
func (c *Client) written(ctx context.Context, path string, data []byte, on int32) (version int32, ok bool, err error) {
	n, err := c.get(ctx, path)
	if err != nil {
		return 0, false, ignoreNoNode(err)
	}
	ok = n.stat.Version == on+1 && string(n.data) == string(data)
	return n.stat.Version, ok, nil
}

// setOrCreate writes a node, or creates it if it is missing.
func (c *Client) setOrCreate(ctx context.Context, path string, data []byte) error {
	_, err := c.set(ctx, path, data)
	if !isNoNode(err) {
		return err
	}
	created, err := c.createDeep(ctx, path, data)
	if err != nil || created {
		return err
	}
	_, err = c.set(ctx, path, data)
	return err
}

// delete removes a node whatever its version; it succeeds if there is none.
func (c *Client) delete(ctx context.Context, path string) error {
	_, _, err := request(ctx, c, func(conn Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(c.chroot+path, anyVersion)
	})
	return ignoreNoNode(wrapPath("delete", path, err))
}

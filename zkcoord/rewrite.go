package zkcoord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"barnabas/internal/await"

	"github.com/go-zookeeper/zk"
)

const (
	rewriteAttempts = 100                   // to write a node that others write too: some seconds
	rewriteBackoff  = 25 * time.Millisecond // between attempts, randomly up to doubled
)

// decision is what is to become of a node that was read.
type decision struct {
	data   []byte // its new content
	remove bool   // it is to be removed instead
	with   []any  // operations on other nodes that happen if this does
}

// errAsItIs is a decision that nothing is to be written.
var errAsItIs = errors.New("zkcoord: the node is as it should be")

// rewrite reads a node, writes what decide makes of it if it still is as it was read, and notifies all brokers. The
// write and the notification are one request: a broker that died in between, as one of Apache Kafka may, would leave the
// others uninformed until the node's next change. After a concurrent change, decide is called again with the newer node;
// after too many attempts the error is ErrConflict. What an attempt has done although its response was lost is
// recognised, unless others have written the node since: then, too, decide is called again.
func (c *Client) rewrite(ctx context.Context, path string, at notifications, note []byte, decide func(n node, found bool) (decision, error)) error {
	for range rewriteAttempts {
		before, found, err := c.find(ctx, path)
		if err != nil {
			return err
		}
		next, err := decide(before, found)
		if errors.Is(err, errAsItIs) {
			return nil
		}
		if err != nil {
			return err
		}
		ops := append(c.opsOf(path, next, before, found), next.with...)
		done, unsure, err := c.try(ctx, append(ops, c.opCreate(at.path+"/"+at.prefix, note, zk.FlagSequence))...)
		if err != nil || done {
			return wrapPath("write", path, err)
		}
		if unsure {
			now, there, err := c.findNewest(ctx, path)
			if err != nil || next.happened(before, found, now, there) {
				return err
			}
			continue
		}
		if err := c.letOthersProceed(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s keeps being changed by others: %w", path, ErrConflict)
}

// find reads a node that may be missing.
func (c *Client) find(ctx context.Context, path string) (n node, found bool, err error) {
	n, err = c.get(ctx, path)
	return n, err == nil, ignoreNoNode(err)
}

// findNewest is find for what another server may have done, such as the one that the client was connected to when a
// response was lost: its own may not know it yet.
func (c *Client) findNewest(ctx context.Context, path string) (n node, found bool, err error) {
	if err := c.sync(ctx, path); err != nil {
		return node{}, false, err
	}
	return c.find(ctx, path)
}

// opsOf returns the operations that carry out a decision about one node if it still is as it was read.
func (c *Client) opsOf(path string, d decision, n node, found bool) []any {
	switch {
	case !d.remove:
		return []any{c.opPut(path, d.data, n, found)}
	case found:
		return []any{c.opDeleteIf(path, n.stat.Version)}
	}
	return nil
}

// opPut writes a node that was read, or creates one that was not found.
func (c *Client) opPut(path string, data []byte, n node, found bool) any {
	if found {
		return c.opSet(path, data, n.stat.Version)
	}
	return c.opCreate(path, data, zk.FlagPersistent)
}

// happened reports whether the decision was carried out, by the node before and after that. It is false if others have
// written the node since.
func (d decision) happened(before node, found bool, now node, there bool) bool {
	same := found && there && now.stat.Czxid == before.stat.Czxid
	written := there && bytes.Equal(now.data, d.data)
	switch {
	case d.remove:
		return found && !same
	case found:
		return written && same && now.stat.Version == before.stat.Version+1
	}
	return written && now.stat.Version == 0
}

// errUnsure ends a request whose response was lost instead of repeating it.
var errUnsure = errors.New("zkcoord: the response was lost")

// try carries out all operations or none, and does not repeat them. done is false if a node was not as the operations
// require, and unsure is true if the response was lost. Parents of new nodes that were missing are there for the next
// attempt.
func (c *Client) try(ctx context.Context, ops ...any) (done, unsure bool, err error) {
	asked := false
	results, _, err := request(ctx, c, func(conn Conn) ([]zk.MultiResponse, error) {
		if asked {
			return nil, errUnsure
		}
		asked = true
		return conn.Multi(ops...)
	})
	_, err = multiResult(len(ops), results, err)
	switch {
	case err == nil:
		return true, false, nil
	case errors.Is(err, errUnsure):
		return false, true, nil
	case isNoNode(err):
		return false, false, c.ensureParents(ctx, ops)
	case isRefusal(err), isNotEmpty(err):
		return false, false, nil
	}
	return false, false, err
}

// ensureParents creates the missing parents of the nodes that operations create.
func (c *Client) ensureParents(ctx context.Context, ops []any) error {
	for _, op := range ops {
		if create, ok := op.(*zk.CreateRequest); ok {
			path := strings.TrimPrefix(create.Path, c.chroot)
			if err := c.ensurePath(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
				return err
			}
		}
	}
	return nil
}

// letOthersProceed waits a little before the next attempt to write what others write too.
func (c *Client) letOthersProceed(ctx context.Context) error {
	if c.simulated { // others proceed during each request
		return context.Cause(ctx)
	}
	return await.Pause(ctx, rewriteBackoff+rand.N(rewriteBackoff))
}

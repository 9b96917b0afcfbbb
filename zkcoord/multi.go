package zkcoord

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// The operations of a multi, with paths relative to the chroot.
func (c *Client) opCreate(path string, data []byte, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: c.chroot + path, Data: data, Acl: c.aclOf(path), Flags: flags}
}

func (c *Client) opSet(path string, data []byte, version int32) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: c.chroot + path, Data: data, Version: version}
}

func (c *Client) opDelete(path string) *zk.DeleteRequest { return c.opDeleteIf(path, anyVersion) }

func (c *Client) opDeleteIf(path string, version int32) *zk.DeleteRequest {
	return &zk.DeleteRequest{Path: c.chroot + path, Version: version}
}

func (c *Client) opCheck(path string, version int32) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: c.chroot + path, Version: version}
}

// multiError reports the first operation of a multi that the server refused; none of them was carried out.
type multiError struct {
	op  int
	err error
}

// Error tells which operation failed and why.
func (e *multiError) Error() string { return fmt.Sprintf("operation %d: %v", e.op, e.err) }

// Unwrap returns the operation's error.
func (e *multiError) Unwrap() error { return e.err }

// multi carries out all operations or none. A refusal is a *multiError.
func (c *Client) multi(ctx context.Context, ops ...any) (results []zk.MultiResponse, err error) {
	results, _, err = request(ctx, c, func(conn Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	return multiResult(len(ops), results, err)
}

func multiResult(n int, results []zk.MultiResponse, err error) ([]zk.MultiResponse, error) {
	for i, r := range results {
		if r.Error != nil {
			return nil, &multiError{i, r.Error}
		}
	}
	if err == nil && len(results) != n {
		err = fmt.Errorf("multi: %d results for %d operations", len(results), n)
	}
	return results, err
}

package zkcoord

import (
	"context"
	"sync"

	"barnabas/internal/logx"
)

// parallel calls f for 0..n-1, as many at once as the configuration allows, so that the requests are pipelined on the
// connection. It returns the first error.
func (c *Client) parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	if c.simulated {
		for i := range n {
			if err := f(ctx, i); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(n, c.cfg.MaxInFlight) {
		workers.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// readAll reads nodes at once and decodes each, with its index. One that is missing or cannot be decoded is nil, the
// latter logged.
func readAll[T any](ctx context.Context, c *Client, paths []string, read func(context.Context, string) (node, error), decode func(i int, n node) (T, error)) ([]*T, error) {
	found := make([]*T, len(paths))
	err := c.parallel(ctx, len(paths), func(ctx context.Context, i int) error {
		n, err := read(ctx, paths[i])
		if err != nil {
			return ignoreNoNode(err)
		}
		v, err := decode(i, n)
		if err != nil {
			c.log.WithError(err).WithField(logx.Znode, paths[i]).Error("cannot decode a node, ignoring it")
			return nil
		}
		found[i] = &v
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// present returns what was found.
func present[T any](found []*T) []T {
	var all []T
	for _, v := range found {
		if v != nil {
			all = append(all, *v)
		}
	}
	return all
}

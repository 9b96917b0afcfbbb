package zkcoord

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"barnabas/internal/logx"
)

// notifications are sequential nodes with which brokers tell each other about writes. Readers remove those that are
// older than changeExpiry.
type notifications struct {
	path   string // parent node
	prefix string
}

// notification is one of them.
type notification struct {
	path string
	data []byte
}

// changeExpiry is how long a notification is kept for brokers that come back.
const changeExpiry = 15 * time.Minute

// onNotifications returns a channel that delivers when there may be new notifications of a kind. expired reports
// whether the session was lost since the last call.
func (c *Client) onNotifications(kind ChangeKind) (rung <-chan struct{}, expired func() bool, cancel func()) {
	wake := make(chan struct{}, 1)
	ring := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	var lost atomic.Bool
	cancelChanges := c.OnChange(func(change Change) {
		if change.Kind == kind {
			ring()
		}
	})
	cancelSession := c.OnSession(func(e SessionEvent) {
		if e == SessionReestablished {
			lost.Store(true)
			ring()
		}
	})
	return wake, func() bool { return lost.Swap(false) }, func() { cancelChanges(); cancelSession() }
}

// followNotifications calls take when there may be new notifications of a kind, until ctx is done or take fails. all is
// true if the session was lost since the last call. ready, if not nil, is called when take has set its watches for the
// first time.
func (c *Client) followNotifications(ctx context.Context, kind ChangeKind, ready func(), take func(all bool) error) error {
	rung, expired, cancel := c.onNotifications(kind)
	defer cancel()
	for {
		if err := take(expired()); err != nil {
			return err
		}
		if ready != nil {
			ready()
			ready = nil
		}
		select {
		case <-rung:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// newNotifications sets the watch and reads the notifications after the last one, which it updates. Expired ones are
// removed.
func (c *Client) newNotifications(ctx context.Context, at notifications, last *int64) ([]notification, error) {
	names, err := c.watchChildren(ctx, at.path)
	if err != nil {
		return nil, err
	}
	numbers := sequences(names, at.prefix)
	nodes := make([]*node, len(numbers))
	err = c.parallel(ctx, len(numbers), func(ctx context.Context, i int) error {
		n, err := c.get(ctx, at.path+"/"+sequenceName(at.prefix, numbers[i]))
		if err == nil {
			nodes[i] = &n
		}
		return ignoreNoNode(err)
	})
	if err != nil {
		return nil, err
	}
	var added []notification
	for i, n := range nodes {
		if n == nil || numbers[i] <= *last {
			continue
		}
		*last = numbers[i]
		added = append(added, notification{at.path + "/" + sequenceName(at.prefix, numbers[i]), n.data})
	}
	c.purge(ctx, at.path+"/"+at.prefix, numbers, nodes)
	return added, nil
}

func (c *Client) now() time.Time {
	if c.cfg.Now != nil {
		return c.cfg.Now()
	}
	return time.Now()
}

// purge removes notifications that are older than changeExpiry. Those that cannot be removed are left to another
// broker.
func (c *Client) purge(ctx context.Context, prefix string, numbers []int64, nodes []*node) {
	oldest := c.now().Add(-changeExpiry).UnixMilli()
	for i, n := range nodes {
		if n != nil && n.stat.Ctime < oldest {
			if err := c.delete(ctx, sequenceName(prefix, numbers[i])); err != nil {
				if ctx.Err() == nil {
					c.log.WithError(err).WithField(logx.Znode, sequenceName(prefix, numbers[i])).Warn("cannot remove an old notification")
				}
				return
			}
		}
	}
}

// sequences returns the numbers of sequential nodes in ascending order. Other nodes are skipped.
func sequences(names []string, prefix string) []int64 {
	var numbers []int64
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, prefix); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

func sequenceName(prefix string, number int64) string { return fmt.Sprintf("%s%010d", prefix, number) }

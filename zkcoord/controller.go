package zkcoord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// NoController is the id when there is no controller.
const NoController = -1

// Term is one controller's term, from its election on. Its writes are conditional on Version, so that they fail once
// another controller is elected.
type Term struct {
	Epoch   int32 // the controller epoch, included in requests to brokers
	Version int32 // version of /controller_epoch since the election

	session int64 // session in which it was elected
}

type controllerJSON struct {
	Version    int        `json:"version"`
	Broker     int32      `json:"brokerid"`
	Timestamp  numberText `json:"timestamp"`
	KRaftEpoch *int32     `json:"kraftControllerEpoch,omitempty"`
}

func encodeController(broker int32, nowMs int64) []byte {
	noKRaft := int32(-1)
	return marshal(controllerJSON{Version: 2, Broker: broker, Timestamp: numberText(nowMs), KRaftEpoch: &noKRaft})
}

func decodeController(data []byte) (controllerJSON, error) {
	in := controllerJSON{Broker: NoController}
	if err := json.Unmarshal(data, &in); err != nil {
		return in, fmt.Errorf("%s: %w", controllerPath, err)
	}
	return in, nil
}

func decodeEpoch(data []byte) (int32, error) {
	epoch, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", controllerEpochPath, err)
	}
	return int32(epoch), nil
}

// ControllerID returns the controller's broker id, or NoController.
func (c *Client) ControllerID(ctx context.Context) (int32, error) {
	n, err := c.get(ctx, controllerPath)
	if err != nil {
		return NoController, ignoreNoNode(err)
	}
	in, err := decodeController(n.data)
	return in.Broker, err
}

// WatchController is ControllerID, and watches for the next controller.
func (c *Client) WatchController(ctx context.Context) (int32, error) {
	n, found, err := c.watch(ctx, controllerPath)
	if err != nil || !found {
		return NoController, err
	}
	in, err := decodeController(n.data)
	return in.Broker, err
}

// ControllerEpoch returns the epoch of the last elected controller; found is false before the first election.
func (c *Client) ControllerEpoch(ctx context.Context) (term Term, found bool, err error) {
	n, err := c.get(ctx, controllerEpochPath)
	if err != nil {
		return Term{}, false, ignoreNoNode(err)
	}
	epoch, err := decodeEpoch(n.data)
	return Term{Epoch: epoch, Version: n.stat.Version}, err == nil, err
}

// Elect tries to become the controller. won is false if there is one already, or another broker was faster. If the
// response to the winning write is lost, it is recognised as won.
func (c *Client) Elect(ctx context.Context, broker int32) (term Term, won bool, err error) {
	last, found, err := c.ControllerEpoch(ctx)
	if err != nil {
		return Term{}, false, err
	}
	if !found {
		if _, err := c.create(ctx, controllerEpochPath, []byte("0")); err != nil {
			return Term{}, false, err
		}
		if last, _, err = c.ControllerEpoch(ctx); err != nil {
			return Term{}, false, err
		}
	}
	epoch := last.Epoch + 1
	results, err := c.multi(ctx,
		c.opCreate(controllerPath, encodeController(broker, time.Now().UnixMilli()), zk.FlagEphemeral),
		c.opSet(controllerEpochPath, []byte(itoa(epoch)), last.Version))
	switch {
	case err == nil:
		return c.termSince(ctx, Term{Epoch: epoch, Version: results[1].Stat.Version}, results[1].Stat.Mzxid)
	case isNodeExists(err), isBadVersion(err):
		return c.electedBefore(ctx)
	}
	return Term{}, false, fmt.Errorf("elect: %w", err)
}

// termSince returns the term that was won with a write. The session is that of the node, for the client may have another
// one by the time it has the response; if the node is gone, so is the term.
func (c *Client) termSince(ctx context.Context, term Term, zxid int64) (Term, bool, error) {
	n, found, err := c.find(ctx, controllerPath)
	if err != nil || !found || n.stat.Czxid != zxid {
		return Term{}, false, err
	}
	term.session = n.stat.EphemeralOwner
	return term, true, nil
}

// electedBefore checks, after an election was refused, whether this very session was elected: then an earlier attempt
// had won, and its response was lost. As long as our node exists nobody else can increment the epoch, so the epoch read
// between two reads of the same node is that of our election.
func (c *Client) electedBefore(ctx context.Context) (Term, bool, error) {
	before, err := c.get(ctx, controllerPath)
	if err != nil {
		return Term{}, false, ignoreNoNode(err)
	}
	owner := c.session.owns(before.stat.EphemeralOwner)
	if owner == ownerOther {
		return Term{}, false, nil
	}
	term, found, err := c.ControllerEpoch(ctx)
	if err != nil || !found {
		return Term{}, false, err
	}
	after, err := c.get(ctx, controllerPath)
	if err != nil {
		return Term{}, false, ignoreNoNode(err)
	}
	if after.stat.Czxid != before.stat.Czxid {
		return Term{}, false, nil
	}
	if owner == ownerEarlier { // it has outlived its session (ZOOKEEPER-2985): nobody acts for it
		_, _, err := c.try(ctx, c.opCheck(controllerEpochPath, term.Version), c.opDelete(controllerPath)) // not the next controller's
		return Term{}, false, err
	}
	term.session = after.stat.EphemeralOwner
	return term, true, nil
}

// Resign gives up the controllership, so that the brokers race for it.
func (c *Client) Resign(ctx context.Context, term Term) error {
	_, _, err := c.guarded(ctx, term, c.opDelete(controllerPath))
	return ignoreNoNode(err)
}

// guarded carries out the operations if the term still lasts; results are those of ops. Otherwise it returns ErrDeposed
// or ErrSessionLost.
func (c *Client) guarded(ctx context.Context, term Term, ops ...any) (results []zk.MultiResponse, lost bool, err error) {
	all := make([]any, 0, len(ops)+1)
	all = append(append(all, c.opCheck(controllerEpochPath, term.Version)), ops...)
	results, lost, err = request(ctx, c, func(conn Conn) ([]zk.MultiResponse, error) {
		// Before each attempt: the controllership ended with the session, even if nobody else has been elected yet.
		if term.session != c.session.current() {
			return nil, ErrSessionLost
		}
		return conn.Multi(all...)
	})
	results, err = multiResult(len(all), results, err)
	if err == nil {
		return results[1:], lost, nil
	}
	var refused *multiError
	if !errors.As(err, &refused) {
		return nil, lost, err
	}
	if refused.op == 0 && isBadVersion(err) {
		return nil, lost, ErrDeposed
	}
	return nil, lost, &multiError{refused.op - 1, refused.err}
}

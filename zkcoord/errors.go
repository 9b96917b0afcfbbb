package zkcoord

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
)

var (
	// ErrClosed is returned by every call on a closed Client.
	ErrClosed = errors.New("zkcoord: client is closed")

	// ErrConflict reports that a conditional write found another version than expected, or a node where there should be
	// none: someone else was faster. Read again and decide again.
	ErrConflict = errors.New("zkcoord: the node has changed")

	// ErrDeposed tells a controller that /controller_epoch has changed: another one was elected. It wraps
	// NOT_CONTROLLER.
	ErrDeposed = fmt.Errorf("zkcoord: another controller was elected: %w", kerr.NotController)

	// ErrSessionLost tells a controller that the session in which it was elected has expired, and its controllership
	// with it. It wraps NOT_CONTROLLER.
	ErrSessionLost = fmt.Errorf("zkcoord: the session of the election has expired: %w", kerr.NotController)

	// ErrNoTopic reports that a topic does not exist. It wraps UNKNOWN_TOPIC_OR_PARTITION.
	ErrNoTopic = fmt.Errorf("zkcoord: no such topic: %w", kerr.UnknownTopicOrPartition)
)

// ErrBrokerIDInUse reports that another living broker is registered under the id.
type ErrBrokerIDInUse struct {
	ID    int32
	Other BrokerInfo // the other broker's registration
	Why   string     // how we know that it is alive
}

// Error names the id and the other broker's address.
func (e *ErrBrokerIDInUse) Error() string {
	return fmt.Sprintf("broker id %d is in use by %s: %s", e.ID, e.Other.endpointsText(), e.Why)
}

// isLost reports whether no response to a request was received, so that it may or may not have been carried out.
func isLost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) ||
		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, zk.ErrClosing)
}

func isNoNode(err error) bool     { return errors.Is(err, zk.ErrNoNode) }
func isNodeExists(err error) bool { return errors.Is(err, zk.ErrNodeExists) }
func isBadVersion(err error) bool { return errors.Is(err, zk.ErrBadVersion) }
func isNotEmpty(err error) bool   { return errors.Is(err, zk.ErrNotEmpty) }

func wrapPath(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s %s: %w", verb, path, err)
}

func ignoreNoNode(err error) error {
	if isNoNode(err) {
		return nil
	}
	return err
}

package zkcoord

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
)

var (
	// ErrClosed is what every call on a closed Client returns.
	ErrClosed = errors.New("zkcoord: client is closed")

	// ErrConflict tells that a conditional write found another version than the one it
	// named, or a node where none should be: somebody else was faster. Read again, decide again.
	ErrConflict = errors.New("zkcoord: the node has changed")

	// ErrDeposed tells a controller that /controller_epoch has moved on: another one was
	// elected. It carries NOT_CONTROLLER.
	ErrDeposed = fmt.Errorf("zkcoord: another controller was elected: %w", kerr.NotController)

	// ErrSessionLost tells a controller that the session in which it was elected has expired,
	// and its office with it. It carries NOT_CONTROLLER.
	ErrSessionLost = fmt.Errorf("zkcoord: the session of the election has expired: %w", kerr.NotController)

	// ErrNoTopic tells that a topic is not there. It carries UNKNOWN_TOPIC_OR_PARTITION.
	ErrNoTopic = fmt.Errorf("zkcoord: no such topic: %w", kerr.UnknownTopicOrPartition)
)

// ErrBrokerIDInUse tells that another living broker is registered under the id.
type ErrBrokerIDInUse struct {
	ID    int32
	Other BrokerInfo // as the other one has registered itself
	Why   string     // how we know that it lives
}

// Error names the id and the other broker's address.
func (e *ErrBrokerIDInUse) Error() string {
	return fmt.Sprintf("broker id %d is in use by %s: %s", e.ID, e.Other.endpointsText(), e.Why)
}

// isLost tells whether the answer to a request never came, so that it may or may not have been done.
func isLost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) ||
		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved) || errors.Is(err, zk.ErrClosing)
}

func isNoNode(err error) bool     { return errors.Is(err, zk.ErrNoNode) }
func isNodeExists(err error) bool { return errors.Is(err, zk.ErrNodeExists) }
func isBadVersion(err error) bool { return errors.Is(err, zk.ErrBadVersion) }
func isNotEmpty(err error) bool   { return errors.Is(err, zk.ErrNotEmpty) }

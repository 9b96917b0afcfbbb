package api

import (
	"context"
	"errors"

	"barnabas/network"
)

var errClosed = errors.New("this API has no meaning in ZooKeeper mode")

// closeConnection handles APIs whose requests close the connection in ZooKeeper mode.
func closeConnection(context.Context, *Call) (network.Answer, error) {
	return network.Answer{}, errClosed
}

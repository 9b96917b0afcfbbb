package api

import (
	"context"
	"errors"

	"barnabas/network"
)

var errNotYet = errors.New("this API is offered but not served yet, see docs/compat.md")

// notYet is the handler of an API that clients must be told of, for the version table to be that of
// Apache Kafka, and that no part of this broker serves yet. It closes the connection, which is an
// answer that no client takes for data.
func notYet(context.Context, *Call) (network.Answer, error) { return network.Answer{}, errNotYet }

var errClosed = errors.New("this API has no meaning in ZooKeeper mode")

// closes is the handler of an API whose requests end the connection in ZooKeeper mode.
func closes(context.Context, *Call) (network.Answer, error) { return network.Answer{}, errClosed }

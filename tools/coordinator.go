package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"barnabas/internal/await"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinatorPatience is how long a group's coordinator may be missing before a tool gives up. The first group waits
// for its topic to be created, and after a coordinator is lost the next one has to load; with too few brokers for the
// topic's replicas it stays missing.
const coordinatorPatience = 8 * time.Second

// awaitCoordinator returns when a broker coordinates the group, or an error if none does.
func awaitCoordinator(ctx context.Context, env *Env, opts []kgo.Opt, bootstrap, group string) error {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := awaitBroker(ctx, env, cl, bootstrap); err != nil {
		return err
	}
	return awaitCoordinatorOf(ctx, cl, group)
}

// awaitCoordinatorOf is awaitCoordinator with a client whose brokers answer.
func awaitCoordinatorOf(ctx context.Context, cl *kgo.Client, group string) error {
	err := whileCoordinatorComes(ctx, coordinatorPatience, func(ctx context.Context) error { return findCoordinator(ctx, cl, group) })
	if errors.Is(err, kerr.CoordinatorNotAvailable) {
		return fmt.Errorf("group %s has no coordinator after %v; are there enough brokers for the replicas of __consumer_offsets? %w",
			group, coordinatorPatience, err)
	}
	return err
}

// whileCoordinatorComes repeats a request while a coordinator is being created or loaded, for as long as patience lasts,
// and returns the last result.
func whileCoordinatorComes(ctx context.Context, patience time.Duration, ask func(context.Context) error) error {
	const between = 100 * time.Millisecond
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var heard error
	for {
		err := ask(patient)
		switch {
		case errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.CoordinatorLoadInProgress):
			heard = err
		case heard != nil && patient.Err() != nil && ctx.Err() == nil: // the time ran out during the request
			return heard
		default:
			return err
		}
		if await.Pause(patient, between) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
}

func findCoordinator(ctx context.Context, cl *kgo.Client, group string) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
	resp, err := cl.SeedBrokers()[0].RetriableRequest(ctx, req)
	if err != nil {
		return err
	}
	found := resp.(*kmsg.FindCoordinatorResponse)
	for _, c := range found.Coordinators { // from version 4 on
		return answered(c.ErrorCode, c.ErrorMessage)
	}
	return answered(found.ErrorCode, found.ErrorMessage)
}

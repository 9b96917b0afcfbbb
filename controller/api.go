package controller

import (
	"context"
	"errors"
	"fmt"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is a kind of request that the controller answers.
type api[Q kmsg.Request, R kmsg.Response] struct {
	name   string
	work   Work
	answer func(ac *activeController, ctx context.Context, req Q) (R, error)
	refuse func(req Q, resp R) // fills in the response if this broker is not the controller, or ceases to be
}

func (a api[Q, R]) refused(req Q) R {
	resp := req.ResponseKind().(R)
	a.refuse(req, resp)
	return resp
}

// submit passes the request to the loop; done is called with the response, on the loop's goroutine or on the caller's.
func (a api[Q, R]) submit(c *Controller, req Q, done func(R)) {
	if !c.Active() {
		done(a.refused(req))
		return
	}
	c.post(a.name, a.work, func(ctx context.Context) error {
		if c.current == nil {
			done(a.refused(req))
			return nil
		}
		resp, err := a.answer(c.current, ctx, req)
		if err != nil {
			resp = a.refused(req)
		}
		done(resp)
		return err
	})
}

// ask submits the request and waits for the response.
func (a api[Q, R]) ask(ctx context.Context, c *Controller, req Q) R {
	replies := make(chan R, 1)
	a.submit(c, req, func(resp R) { replies <- resp })
	select {
	case resp := <-replies:
		return resp
	case <-ctx.Done():
	case <-c.ended:
	}
	return a.refused(req)
}

// Submit passes a request to the controller and returns at once. done is called with the response, on the controller's
// goroutine, or on the caller's if this broker is not the controller.
func (c *Controller) Submit(req kmsg.Request, done func(kmsg.Response)) {
	switch req := req.(type) {
	case *kmsg.ControlledShutdownRequest:
		controlledShutdown.submit(c, req, func(r *kmsg.ControlledShutdownResponse) { done(r) })
	case *kmsg.AllocateProducerIDsRequest:
		allocateProducerIDs.submit(c, req, func(r *kmsg.AllocateProducerIDsResponse) { done(r) })
	case *kmsg.AlterPartitionRequest:
		alterPartition.submit(c, req, func(r *kmsg.AlterPartitionResponse) { done(r) })
	case *kmsg.AlterPartitionAssignmentsRequest:
		alterReassignments.submit(c, req, func(r *kmsg.AlterPartitionAssignmentsResponse) { done(r) })
	case *kmsg.ListPartitionReassignmentsRequest:
		listReassignments.submit(c, req, func(r *kmsg.ListPartitionReassignmentsResponse) { done(r) })
	case *kmsg.UpdateFeaturesRequest:
		updateFeatures.submit(c, req, func(r *kmsg.UpdateFeaturesResponse) { done(r) })
	case *kmsg.ElectLeadersRequest:
		electLeaders.submit(c, req, func(r *kmsg.ElectLeadersResponse) { done(r) })
	default:
		panic(fmt.Sprintf("controller: %s is not the controller's to answer", kmsg.NameForKey(req.Key())))
	}
}

// coded returns an error's protocol code, or nil if it has none. Losing the controllership does not count as a code: it
// ends the term, not one partition's request.
func coded(err error) *kerr.Error {
	var code *kerr.Error
	if errors.Is(err, zkcoord.ErrDeposed) || errors.Is(err, zkcoord.ErrSessionLost) || !errors.As(err, &code) {
		return nil
	}
	return code
}

// explain fills in a response's error code and message from an error with a code.
func explain(err error, code *int16, message **string) {
	*code, *message = 0, nil
	if e := coded(err); e != nil {
		*code = e.Code
		text := err.Error()
		*message = &text
	}
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"barnabas/zkcoord"
)

// api is a request that the controller answers.
type api[Q kmsg.Request, R kmsg.Response] struct {
	name   string
	answer func(o *office, ctx context.Context, req Q) (R, error)
	refuse func(req Q) R // the answer of a broker that is not the controller, or ceases to be
}

// submit hands the request to the loop; done gets the answer, on the loop or here.
func (a api[Q, R]) submit(c *Controller, req Q, done func(R)) {
	if !c.Active() {
		done(a.refuse(req))
		return
	}
	c.post(a.name, func(ctx context.Context) error {
		if c.office == nil {
			done(a.refuse(req))
			return nil
		}
		resp, err := a.answer(c.office, ctx, req)
		if err != nil {
			resp = a.refuse(req)
		}
		done(resp)
		return err
	})
}

// ask submits the request and waits for the answer.
func (a api[Q, R]) ask(ctx context.Context, c *Controller, req Q) R {
	replies := make(chan R, 1)
	a.submit(c, req, func(resp R) { replies <- resp })
	select {
	case resp := <-replies:
		return resp
	case <-ctx.Done():
	case <-c.ended:
	}
	return a.refuse(req)
}

// Submit hands a request to the controller and returns at once; done gets the answer, on the
// controller's goroutine, or on the caller's when this broker is not the controller.
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

// coded gives an error's protocol code, or nil when it has none. Losing the office has none
// here: it ends the office, not one partition's request.
func coded(err error) *kerr.Error {
	var code *kerr.Error
	if errors.Is(err, zkcoord.ErrDeposed) || errors.Is(err, zkcoord.ErrSessionLost) || !errors.As(err, &code) {
		return nil
	}
	return code
}

// explain fills an answer's error code and message from an error with a code.
func explain(err error, code *int16, message **string) {
	*code, *message = 0, nil
	if e := coded(err); e != nil {
		*code = e.Code
		text := err.Error()
		*message = &text
	}
}

// ControlledShutdown moves the leadership off a broker that is about to stop, and answers
// with the partitions that it still leads.
func (c *Controller) ControlledShutdown(ctx context.Context, req *kmsg.ControlledShutdownRequest) *kmsg.ControlledShutdownResponse {
	return controlledShutdown.ask(ctx, c, req)
}

var controlledShutdown = api[*kmsg.ControlledShutdownRequest, *kmsg.ControlledShutdownResponse]{"controlled shutdown", (*office).controlledShutdown, func(req *kmsg.ControlledShutdownRequest) *kmsg.ControlledShutdownResponse {
	resp := req.ResponseKind().(*kmsg.ControlledShutdownResponse)
	resp.ErrorCode = kerr.StaleControllerEpoch.Code // what ControllerMovedException is on the wire
	return resp
}}

func (o *office) controlledShutdown(ctx context.Context, req *kmsg.ControlledShutdownRequest) (*kmsg.ControlledShutdownResponse, error) {
	resp := req.ResponseKind().(*kmsg.ControlledShutdownResponse)
	b := o.m.brokers[req.BrokerID]
	switch {
	case b == nil:
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp, nil
	case req.Version >= 2 && req.BrokerEpoch >= 0 && req.BrokerEpoch < b.info.Epoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp, nil
	}
	b.shuttingDown = true
	var led, followed []topicPartition
	for _, tp := range o.m.hosted(req.BrokerID) {
		p := o.m.partition(tp)
		switch {
		case len(p.replicas) < 2 || p.state == nil || o.m.deleting(tp):
		case p.state.Leader == req.BrokerID:
			led = append(led, tp)
		default:
			followed = append(followed, tp)
		}
	}
	if _, err := o.elect(ctx, led, electForShutdown); err != nil {
		return nil, err
	}
	o.flush()
	if err := o.dropOffline(ctx, map[int32][]topicPartition{req.BrokerID: followed}); err != nil {
		return nil, err
	}
	o.flush()
	for _, tp := range o.m.hosted(req.BrokerID) {
		if p := o.m.partition(tp); p.state != nil && p.state.Leader == req.BrokerID && len(p.replicas) > 1 && !o.m.deleting(tp) {
			left := kmsg.NewControlledShutdownResponsePartitionsRemaining()
			left.Topic, left.Partition = tp.Topic, tp.Partition
			resp.PartitionsRemaining = append(resp.PartitionsRemaining, left)
		}
	}
	return resp, nil
}

// AllocateProducerIDs gives a broker a block of producer ids.
func (c *Controller) AllocateProducerIDs(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	return allocateProducerIDs.ask(ctx, c, req)
}

var allocateProducerIDs = api[*kmsg.AllocateProducerIDsRequest, *kmsg.AllocateProducerIDsResponse]{"allocate producer ids", (*office).allocateProducerIDs, func(req *kmsg.AllocateProducerIDsRequest) *kmsg.AllocateProducerIDsResponse {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	resp.ErrorCode = kerr.NotController.Code
	return resp
}}

func (o *office) allocateProducerIDs(ctx context.Context, req *kmsg.AllocateProducerIDsRequest) (*kmsg.AllocateProducerIDsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	epoch, live := o.m.liveEpoch(req.BrokerID)
	switch {
	case !live:
		resp.ErrorCode = kerr.BrokerIDNotRegistered.Code
	case epoch != req.BrokerEpoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
	default:
		block, err := o.store.NextProducerIDs(ctx, req.BrokerID)
		if err != nil {
			return nil, err
		}
		resp.ProducerIDStart, resp.ProducerIDLen = block.Start, int32(block.End-block.Start+1)
	}
	return resp, nil
}

// AlterPartition changes the ISRs of partitions as their leader asks.
func (c *Controller) AlterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	return alterPartition.ask(ctx, c, req)
}

var alterPartition = api[*kmsg.AlterPartitionRequest, *kmsg.AlterPartitionResponse]{"alter partition", (*office).alterPartition, func(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	resp.ErrorCode = kerr.NotController.Code
	return resp
}}

// isrChange is what a leader asks for one partition.
type isrChange struct {
	leader         int32
	leaderEpoch    int32
	isr            []int32
	recovering     bool
	partitionEpoch int32
	epochs         []int64 // broker epochs of isr as its members fetched; nil or -1: not told
}

// checkISRChange tells why a change cannot be made. errUnchanged: it is made already.
func (m *model) checkISRChange(tp topicPartition, ask isrChange, version int16) error {
	p := m.partition(tp)
	if p == nil || p.state == nil {
		return kerr.UnknownTopicOrPartition
	}
	now := p.state
	switch {
	case ask.partitionEpoch > now.PartitionEpoch || ask.leaderEpoch > now.LeaderEpoch:
		return kerr.NotController // the leader knows more than we do
	case ask.leaderEpoch < now.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case ask.leader == now.Leader && ask.recovering == now.Recovering && slices.Equal(ask.isr, now.ISR):
		return errUnchanged
	case ask.partitionEpoch < now.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case ask.recovering && (len(ask.isr) > 1 || !now.Recovering):
		return kerr.InvalidRequest
	}
	for i, id := range ask.isr {
		// One that has started anew since it fetched may have lost what it had (KIP-903).
		epoch, live := m.liveEpoch(id)
		anew := i < len(ask.epochs) && ask.epochs[i] >= 0 && ask.epochs[i] != epoch
		if !live || anew {
			if version > 1 {
				return kerr.IneligibleReplica
			}
			return kerr.OperationNotAttempted
		}
	}
	return nil
}

func (o *office) alterPartition(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	if epoch, live := o.m.liveEpoch(req.BrokerID); !live || epoch != req.BrokerEpoch {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp, nil
	}
	verdicts := make(map[topicPartition]error)
	var writes []zkcoord.StateWrite
	o.eachAsked(req, func(tp topicPartition, ask isrChange) {
		err := o.m.checkISRChange(tp, ask, req.Version)
		verdicts[tp] = err
		if err == nil {
			writes = append(writes, zkcoord.StateWrite{Partition: tp, State: zkcoord.PartitionState{
				Leader: ask.leader, LeaderEpoch: ask.leaderEpoch, ISR: ask.isr, Recovering: ask.recovering,
				ControllerEpoch: o.term.Epoch, PartitionEpoch: ask.partitionEpoch}})
		}
	})
	written, err := o.writeISRs(ctx, writes, verdicts)
	if err != nil {
		return nil, err
	}
	for tp := range verdicts {
		o.b.update(o.m.brokerIDs(), tp)
	}
	o.flush()
	o.fillAltered(req, resp, verdicts)
	return resp, o.completeReassignments(ctx, written)
}

// writeISRs writes and notes in verdicts what went wrong.
func (o *office) writeISRs(ctx context.Context, writes []zkcoord.StateWrite, verdicts map[topicPartition]error) (written []topicPartition, err error) {
	if len(writes) == 0 {
		return nil, nil
	}
	results, err := o.store.WriteStates(ctx, o.term, writes)
	if err != nil {
		return nil, err
	}
	var lost []topicPartition
	for i, r := range results {
		tp := writes[i].Partition
		if r.Err != nil {
			verdicts[tp] = kerr.InvalidUpdateVersion
			lost = append(lost, tp)
			continue
		}
		o.m.partition(tp).state = &r.State
		written = append(written, tp)
	}
	return written, o.refresh(ctx, lost)
}

// eachAsked calls f for every partition of known topics.
func (o *office) eachAsked(req *kmsg.AlterPartitionRequest, f func(topicPartition, isrChange)) {
	for _, t := range req.Topics {
		name, known := o.askedTopic(req.Version, t)
		if !known {
			continue
		}
		for _, p := range t.Partitions {
			ask := isrChange{req.BrokerID, p.LeaderEpoch, p.NewISR, p.LeaderRecoveryState == 1, p.PartitionEpoch, nil}
			if req.Version >= 3 {
				ask.isr = make([]int32, len(p.NewEpochISR))
				ask.epochs = make([]int64, len(p.NewEpochISR))
				for i, member := range p.NewEpochISR {
					ask.isr[i], ask.epochs[i] = member.BrokerID, member.BrokerEpoch
				}
			}
			f(topicPartition{Topic: name, Partition: p.Partition}, ask)
		}
	}
}

func (o *office) askedTopic(version int16, t kmsg.AlterPartitionRequestTopic) (name string, known bool) {
	if version < 2 {
		return t.Topic, true
	}
	name, known = o.m.names[t.TopicID]
	return name, known
}

func (o *office) fillAltered(req *kmsg.AlterPartitionRequest, resp *kmsg.AlterPartitionResponse, verdicts map[topicPartition]error) {
	for _, t := range req.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = t.Topic, t.TopicID
		name, known := o.askedTopic(req.Version, t)
		for _, p := range t.Partitions {
			answer := kmsg.NewAlterPartitionResponseTopicPartition()
			answer.Partition = p.Partition
			tp := topicPartition{Topic: name, Partition: p.Partition}
			switch err := verdicts[tp]; {
			case !known:
				answer.ErrorCode = kerr.UnknownTopicID.Code
			case err != nil && !errors.Is(err, errUnchanged):
				answer.ErrorCode = coded(err).Code
			default:
				s := o.m.partition(tp).state
				answer.LeaderID, answer.LeaderEpoch, answer.ISR, answer.PartitionEpoch = s.Leader, s.LeaderEpoch, s.ISR, s.PartitionEpoch
				if s.Recovering {
					answer.LeaderRecoveryState = 1
				}
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
}

// AlterPartitionReassignments starts, changes or cancels reassignments.
func (c *Controller) AlterPartitionReassignments(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	return alterReassignments.ask(ctx, c, req)
}

var alterReassignments = api[*kmsg.AlterPartitionAssignmentsRequest, *kmsg.AlterPartitionAssignmentsResponse]{"alter reassignments", (*office).alterReassignments, func(req *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	explain(kerr.NotController, &resp.ErrorCode, &resp.ErrorMessage)
	return resp
}}

func (o *office) alterReassignments(ctx context.Context, req *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	verdicts := make(map[topicPartition]error)
	start := make(map[topicPartition][]int32)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tp := topicPartition{Topic: t.Topic, Partition: p.Partition}
			if p.Replicas != nil {
				if err := o.m.checkTarget(tp, p.Replicas); err != nil {
					verdicts[tp] = err
					continue
				}
			} else if known := o.m.partition(tp); known == nil || !known.moving() {
				verdicts[tp] = kerr.NoReassignmentInProgress
				continue
			}
			start[tp] = p.Replicas
		}
	}
	// The latest wish counts, whichever way it came.
	if err := o.trimAsked(ctx, func(tp topicPartition, _ []int32) bool { _, ok := start[tp]; return ok }); err != nil {
		return nil, err
	}
	for _, tp := range sorted(start) {
		err := o.reassign(ctx, tp, start[tp])
		if err != nil && coded(err) == nil {
			return nil, err
		}
		verdicts[tp] = err
	}
	for _, t := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			answer.Partition = p.Partition
			explain(verdicts[topicPartition{Topic: t.Topic, Partition: p.Partition}], &answer.ErrorCode, &answer.ErrorMessage)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// ListPartitionReassignments lists the reassignments under way, of all partitions or of the
// asked ones.
func (c *Controller) ListPartitionReassignments(ctx context.Context, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	return listReassignments.ask(ctx, c, req)
}

var listReassignments = api[*kmsg.ListPartitionReassignmentsRequest, *kmsg.ListPartitionReassignmentsResponse]{"list reassignments", (*office).listReassignments, func(req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	explain(kerr.NotController, &resp.ErrorCode, &resp.ErrorMessage)
	return resp
}}

func (o *office) listReassignments(_ context.Context, req *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	list := o.m.reassigning
	if req.Topics != nil {
		list = make(map[topicPartition]struct{})
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				list[topicPartition{Topic: t.Topic, Partition: p}] = struct{}{}
			}
		}
	}
	for _, tp := range sorted(list) {
		p := o.m.partition(tp)
		if p == nil || !p.moving() {
			continue
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != tp.Topic {
			t := kmsg.NewListPartitionReassignmentsResponseTopic()
			t.Topic = tp.Topic
			resp.Topics = append(resp.Topics, t)
		}
		out := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		out.Partition, out.Replicas, out.AddingReplicas, out.RemovingReplicas = tp.Partition, p.replicas, p.adding, p.removing
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, out)
	}
	return resp, nil
}

// UpdateFeatures answers for each feature that it is unknown: there is none in ZooKeeper mode.
func (c *Controller) UpdateFeatures(ctx context.Context, req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	return updateFeatures.ask(ctx, c, req)
}

var updateFeatures = api[*kmsg.UpdateFeaturesRequest, *kmsg.UpdateFeaturesResponse]{"update features", (*office).updateFeatures, func(req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	explain(kerr.NotController, &resp.ErrorCode, &resp.ErrorMessage)
	return resp
}}

func (o *office) updateFeatures(_ context.Context, req *kmsg.UpdateFeaturesRequest) (*kmsg.UpdateFeaturesResponse, error) {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	for _, f := range req.FeatureUpdates {
		result := kmsg.NewUpdateFeaturesResponseResult()
		result.Feature, result.ErrorCode = f.Feature, kerr.InvalidRequest.Code
		text := "Could not apply finalized feature update because the provided feature is not supported."
		result.ErrorMessage = &text
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

package txn

import (
	"context"
	"fmt"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is the internal topic that stores transactions.
const Topic = "__transaction_state"

// VerifyAtCoordinator asks the coordinator of an id, which may be another broker, whether partitions belong to a
// producer's open transaction (KIP-890). It returns an error for each that does not, or one for all. Errors are those
// of Verify, COORDINATOR_NOT_AVAILABLE, and NETWORK_EXCEPTION if there was no answer.
func (c *Coordinator) VerifyAtCoordinator(ctx context.Context, id string, by Identity, asked []logstore.TopicPartition) (map[logstore.TopicPartition]error, error) {
	leader, exists := c.cfg.Leader(logstore.TopicPartition{Topic: Topic, Partition: c.cfg.PartitionOf(id)})
	switch {
	case !exists || leader < 0:
		return nil, fault(kerr.CoordinatorNotAvailable, "the coordinator of transactional id %q is not known", id)
	case leader == c.cfg.BrokerID:
		return c.Verify(id, by, asked)
	case c.cfg.VerifyVersion < 0:
		return nil, nil // older brokers cannot be asked
	}
	answer := make(chan verifyResult, 1)
	q := verifyRequest{id, by, asked, answer}
	c.verifications.to(leader).add(q, c.background, func(all []verifyRequest) []verifyRequest { return c.sendVerifyRequests(leader, all) })
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, fault(kerr.CoordinatorNotAvailable, "the broker is shutting down")
	case v := <-answer:
		return v.missing, v.err
	}
}

// verifyRequest asks another broker to verify partitions of one transaction.
type verifyRequest struct {
	id     string
	by     Identity
	asked  []logstore.TopicPartition
	answer chan<- verifyResult // buffered
}

type verifyResult struct {
	missing map[logstore.TopicPartition]error
	err     error
}

// sendVerifyRequests sends them as one request. A request may contain a transactional id only once: further ones for it
// are left for the next.
func (c *Coordinator) sendVerifyRequests(broker int32, all []verifyRequest) (again []verifyRequest) {
	byID := make(map[string]verifyRequest, len(all))
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version = c.cfg.VerifyVersion
	for _, q := range all {
		if _, twice := byID[q.id]; twice {
			again = append(again, q)
			continue
		}
		byID[q.id] = q
		req.Transactions = append(req.Transactions, q.request())
	}
	results, err := c.verifyAt(broker, req)
	for id, q := range byID {
		v, ok := results[id]
		switch {
		case err != nil:
			v.err = err
		case !ok:
			v.err = fault(kerr.NetworkException, "broker %d says nothing of transactional id %q", broker, id)
		}
		q.answer <- v
	}
	return again
}

func (q verifyRequest) request() kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.VerifyOnly = q.id, q.by.ID, q.by.Epoch, true
	index := make(map[string]int)
	for _, tp := range q.asked {
		i, ok := index[tp.Topic]
		if !ok {
			i = len(t.Topics)
			index[tp.Topic] = i
			t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: tp.Topic})
		}
		t.Topics[i].Partitions = append(t.Topics[i].Partitions, tp.Partition)
	}
	return t
}

func (c *Coordinator) verifyAt(broker int32, req *kmsg.AddPartitionsToTxnRequest) (map[string]verifyResult, error) {
	answer, err := c.cfg.Send(c.ctx, broker, req)
	if err != nil {
		return nil, fault(kerr.NetworkException, "broker %d cannot be asked: %v", broker, err)
	}
	resp := answer.(*kmsg.AddPartitionsToTxnResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("broker %d: %w", broker, err)
	}
	results := make(map[string]verifyResult, len(resp.Transactions))
	for _, t := range resp.Transactions {
		missing := make(map[logstore.TopicPartition]error)
		for _, topic := range t.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					missing[logstore.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = err
				}
			}
		}
		results[t.TransactionalID] = verifyResult{missing: missing}
	}
	return results, nil
}

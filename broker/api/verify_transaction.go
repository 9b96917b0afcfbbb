package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/txn"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnVerification is what is known about a request's transaction before its records are appended. The zero value is for
// requests without one.
type txnVerification struct {
	all    error  // for every partition
	text   string // goes with it
	topics topics
	verify bool // the first records of a transaction need their guard
	guards map[logstore.TopicPartition]logstore.Guard
	errs   map[logstore.TopicPartition]error
}

// transactionalBatch returns the batch of a produced partition if it is part of a transaction.
func transactionalBatch(data []byte) (record.Batch, bool) {
	if len(data) < record.HeaderSize {
		return nil, false
	}
	b := record.Batch(data)
	return b, b.Transactional()
}

// requestTxn is the transaction that a Produce request's records belong to, as far as they have been looked at.
type requestTxn struct {
	authorized bool
	by         txn.Identity                      // the producer; only with entries in first
	first      map[logstore.TopicPartition]int32 // the next sequence number of each partition
}

// verifyProduce checks a Produce request's authorization and its transaction: its records must belong to the request's
// transactional id, and partitions must have been added to the transaction before they are written to (KIP-890, part
// 1). The coordinator is asked once for each transaction and partition; later appends find the transaction open in the
// log.
func (h *Handlers) verifyProduce(ctx context.Context, c *Call, req *kmsg.ProduceRequest) txnVerification {
	v := txnVerification{topics: h.authorize.topics(c, acl.Write)}
	var found requestTxn
	for i := range req.Topics {
		topic := &req.Topics[i]
		for j := range topic.Partitions {
			b, ok := transactionalBatch(topic.Partitions[j].Records)
			if !ok {
				continue
			}
			if v.all = h.mayWriteTxn(c, req, &found); v.all != nil {
				return v
			}
			tp := logstore.TopicPartition{Topic: topic.Topic, Partition: topic.Partitions[j].Partition}
			if !b.HasProducerID() || !h.mayReceive(&v, tp) {
				continue
			}
			if v.text = found.add(tp, b); v.text != "" {
				v.all = fmt.Errorf("%s: %w", v.text, kerr.InvalidProducerIDMapping)
				return v
			}
		}
	}
	if len(found.first) == 0 || !h.Config.Current().TransactionPartitionVerify {
		return v
	}
	h.verifyTransaction(ctx, *req.TransactionID, found.by, found.first, &v)
	return v
}

// mayWriteTxn checks, at the first records of a transaction, that the client may write with the request's transactional
// id.
func (h *Handlers) mayWriteTxn(c *Call, req *kmsg.ProduceRequest, found *requestTxn) error {
	if found.authorized {
		return nil
	}
	if req.TransactionID == nil {
		return fmt.Errorf("records of a transaction without its id: %w", kerr.TransactionalIDAuthorizationFailed)
	}
	err := h.authorize.txnID(c, acl.Write, *req.TransactionID)
	found.authorized = err == nil
	return err
}

// add adds a batch. The text says why it cannot be in one transaction with those before it; it is empty if it can.
func (r *requestTxn) add(tp logstore.TopicPartition, b record.Batch) (text string) {
	by := txn.Identity{ID: b.ProducerID(), Epoch: b.ProducerEpoch()}
	switch {
	case r.first == nil:
		r.by, r.first = by, make(map[logstore.TopicPartition]int32)
	case r.by != by:
		return fmt.Sprintf("records of producer %d in epoch %d and of producer %d in epoch %d in one transaction", r.by.ID, r.by.Epoch, by.ID, by.Epoch)
	}
	r.first[tp] = b.BaseSequence()
	return ""
}

// mayReceive reports whether a partition exists and the client may write to it; otherwise the append will say why not.
func (h *Handlers) mayReceive(v *txnVerification, tp logstore.TopicPartition) bool {
	if v.topics.check(tp.Topic) != nil {
		return false
	}
	_, err := h.partition(tp.Topic, tp.Partition)
	return !errors.Is(err, kerr.UnknownTopicOrPartition)
}

// verifyTransaction asks the coordinator about those partitions, given with their next sequence numbers, in which the
// producer's transaction is not open yet, and stores the results in v.
func (h *Handlers) verifyTransaction(ctx context.Context, id string, by txn.Identity, first map[logstore.TopicPartition]int32, v *txnVerification) {
	v.verify, v.guards = true, make(map[logstore.TopicPartition]logstore.Guard)
	var asked []logstore.TopicPartition
	for tp, sequence := range first {
		part, ok := h.Replicas.Partition(tp)
		if !ok {
			continue // the append will report it
		}
		if guard, needed := part.Log().StartVerification(by.ID, by.Epoch, sequence); needed {
			v.guards[tp] = guard
			asked = append(asked, tp)
		}
	}
	if len(asked) == 0 {
		return
	}
	began := time.Now()
	errs, err := h.Transactions.VerifyAtCoordinator(ctx, id, by, asked)
	if err != nil {
		errs = make(map[logstore.TopicPartition]error, len(asked))
		for _, tp := range asked {
			errs[tp] = err
		}
	}
	v.errs = errs
	h.Metrics.Verified(time.Since(began), len(errs))
}

// unverified returns the error for a producer whose partition could not be verified, with a code that it knows and for
// some codes a text. If a retry may succeed, the code is NOT_ENOUGH_REPLICAS, which every client retries
// (ReplicaManager.handleProduceAppend, 3.9).
func unverified(err error, version int16) (text string, _ error) {
	const added, retry = "the partition was not added to the transaction", "the transaction cannot be verified at the moment: "
	switch {
	case errors.Is(err, kerr.ProducerFenced):
		return "", fmt.Errorf("%v: %w", err, kerr.InvalidProducerEpoch)
	case errors.Is(err, kerr.TransactionAbortable) && version >= 11:
		return "", err
	case errors.Is(err, kerr.TransactionAbortable), errors.Is(err, kerr.InvalidTxnState), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return added, fmt.Errorf("%v: %w", err, kerr.InvalidTxnState)
	}
	for _, passing := range []error{kerr.ConcurrentTransactions, kerr.NetworkException, kerr.CoordinatorLoadInProgress,
		kerr.CoordinatorNotAvailable, kerr.NotCoordinator} {
		if errors.Is(err, passing) {
			return retry + err.Error(), fmt.Errorf("%v: %w", err, kerr.NotEnoughReplicas)
		}
	}
	return "", err
}

package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// findHanging lists open transactions of partitions that no coordinator will end: those of a producer id that no
// coordinator knows, or whose coordinator does not have the partition in its transaction (KIP-664).
func (t *transactionsTool) findHanging(ctx context.Context) error {
	partitions, err := t.partitionsToSearch(ctx)
	if err != nil {
		return err
	}
	old, err := t.oldTransactions(ctx, partitions)
	if err != nil {
		return err
	}
	hanging, err := t.withoutCoordinator(ctx, old)
	if err != nil {
		return err
	}
	now := time.Now()
	rows := make([][]string, len(hanging))
	for i, p := range hanging {
		minutes := int64(now.Sub(time.UnixMilli(p.LastTimestamp)) / time.Minute)
		rows[i] = []string{p.topic, number(p.partition), number(p.ProducerID), number(p.ProducerEpoch), number(p.CoordinatorEpoch),
			number(p.CurrentTxnStartOffset), number(p.LastTimestamp), number(minutes)}
	}
	t.env.printTable([]string{"Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
		"Duration(min)"}, rows)
	return nil
}

// partitionsToSearch returns those of the topic, or of all topics, limited to those of which the named broker has
// replicas.
func (t *transactionsTool) partitionsToSearch(ctx context.Context) (map[string][]int32, error) {
	if t.o.has("partition") {
		return map[string][]int32{*t.o.topic: {*t.o.partition}}, nil
	}
	var topics []string
	if t.o.has("topic") {
		topics = append(topics, *t.o.topic)
	}
	meta, err := fetchMetadata(ctx, t.cl, topics...)
	if err != nil {
		return nil, fmt.Errorf("failed to list topics: %w", err)
	}
	found := make(map[string][]int32)
	for _, topic := range meta.Topics {
		if err := answered(topic.ErrorCode, nil); err != nil {
			return nil, fmt.Errorf("failed to describe topic %s: %w", *topic.Topic, err)
		}
		for _, p := range topic.Partitions {
			if !t.o.has("broker-id") || slices.Contains(p.Replicas, *t.o.broker) {
				found[*topic.Topic] = append(found[*topic.Topic], p.Partition)
			}
		}
	}
	return found, nil
}

// oldTransactions returns those without a record for longer than the maximum transaction timeout.
func (t *transactionsTool) oldTransactions(ctx context.Context, partitions map[string][]int32) ([]producer, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	all, err := t.producers(ctx, partitions)
	if err != nil {
		return nil, fmt.Errorf("failed to describe producers: %w", err)
	}
	limit := duration(*t.o.maxTimeout, time.Minute)
	now := time.Now()
	return slices.DeleteFunc(all, func(p producer) bool {
		return p.CurrentTxnStartOffset < 0 || now.Sub(time.UnixMilli(p.LastTimestamp)) <= limit
	}), nil
}

// withoutCoordinator returns the open transactions that no coordinator is responsible for.
func (t *transactionsTool) withoutCoordinator(ctx context.Context, open []producer) ([]producer, error) {
	if len(open) == 0 {
		return nil, nil
	}
	req := kmsg.NewPtrListTransactionsRequest()
	req.DurationFilterMillis = -1
	for _, p := range open {
		req.ProducerIDFilters = append(req.ProducerIDFilters, p.ProducerID)
	}
	known, err := t.listAll(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("failed to list transactions for %d producers: %w", len(open), err)
	}
	var ids []string
	for _, l := range known {
		ids = append(ids, l.TransactionalID)
	}
	cared, err := t.partitionsWithPendingMarkers(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("failed to describe %d transactions: %w", len(ids), err)
	}
	return slices.DeleteFunc(open, func(p producer) bool {
		return slices.Contains(cared[p.ProducerID], partitionName(p.topic, p.partition))
	}), nil
}

// partitionsWithPendingMarkers returns the partitions to which coordinators have yet to write a marker, by producer id.
func (t *transactionsTool) partitionsWithPendingMarkers(ctx context.Context, ids []string) (map[int64][]string, error) {
	cared := make(map[int64][]string)
	if len(ids) == 0 {
		return cared, nil
	}
	states, err := t.describeIDs(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		err := answered(s.ErrorCode, nil)
		switch {
		case errors.Is(err, kerr.TransactionalIDNotFound): // it has expired in between
		case err != nil:
			return nil, fmt.Errorf("transactional id %s: %w", s.TransactionalID, err)
		default:
			cared[s.ProducerID] = append(cared[s.ProducerID], s.partitions()...)
		}
	}
	return cared, nil
}

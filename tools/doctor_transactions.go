package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// openTransactions returns the producers with an open transaction in some partitions, or in any, the oldest first.
func (d *doctor) openTransactions(ctx context.Context, partitions map[string][]int32) ([]kadm.DescribedProducer, error) {
	set := make(kadm.TopicsSet)
	for topic, list := range partitions {
		set.Add(topic, list...)
	}
	described, err := d.adm.DescribeProducers(ctx, set)
	if err != nil && len(described) == 0 {
		return nil, err
	}
	var open []kadm.DescribedProducer
	described.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset >= 0 {
			open = append(open, p)
		}
	})
	slices.SortFunc(open, func(a, b kadm.DescribedProducer) int {
		return cmp.Or(cmp.Compare(a.LastTimestamp, b.LastTimestamp), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return open, nil
}

// transactions reports for each open transaction who holds it, and whether it will end by itself.
func (d *doctor) transactions(ctx context.Context) error {
	meta, err := fetchMetadata(ctx, d.cl)
	if err != nil {
		return err
	}
	partitions := make(map[string][]int32)
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				d.trouble(partitionName(*t.Topic, p.Partition), "bring one of its replicas back", "has no leader: its transactions can neither be seen nor ended.")
				continue
			}
			partitions[*t.Topic] = append(partitions[*t.Topic], p.Partition)
		}
	}
	open, err := d.openTransactions(ctx, partitions)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		d.note("transactions", "none is open: consumers with isolation.level=read_committed are not blocked.")
		return nil
	}
	owners, err := d.owners(ctx, open)
	if err != nil {
		return err
	}
	for _, p := range open {
		d.transaction(p, owners[p.ProducerID])
	}
	return nil
}

// owners returns the transactions that coordinators know, by producer id.
func (d *doctor) owners(ctx context.Context, open []kadm.DescribedProducer) (map[int64]*kadm.DescribedTransaction, error) {
	var ids []int64
	for _, p := range open {
		ids = append(ids, p.ProducerID)
	}
	listed, err := d.adm.ListTransactions(ctx, ids, nil)
	if err != nil {
		return nil, err
	}
	owners := make(map[int64]*kadm.DescribedTransaction)
	if len(listed) == 0 {
		return owners, nil
	}
	described, err := d.adm.DescribeTransactions(ctx, listed.TransactionalIDs()...)
	if err != nil && len(described) == 0 {
		return nil, err
	}
	for _, t := range described {
		if t.Err == nil {
			owners[t.ProducerID] = &t
		}
	}
	return owners, nil
}

func (d *doctor) transaction(p kadm.DescribedProducer, owner *kadm.DescribedTransaction) {
	subject := partitionName(p.Topic, p.Partition)
	idle := d.now.Sub(time.UnixMilli(p.LastTimestamp))
	holds := fmt.Sprintf("consumers with isolation.level=read_committed wait at offset %d for producer %d (epoch %d), whose last record came %s ago", p.CurrentTxnStartOffset, p.ProducerID, p.ProducerEpoch, lasting(max(0, idle)))
	abort := fmt.Sprintf("if it lasts: kafka-transactions.sh abort --topic %s --partition %d --start-offset %d", p.Topic, p.Partition, p.CurrentTxnStartOffset)
	if owner == nil || !owner.Topics.Lookup(p.Topic, p.Partition) {
		d.trouble(subject, abort, "%s: no coordinator knows this transaction, so nothing will end it.", holds)
		return
	}
	began, timeout := time.UnixMilli(owner.StartTimestamp), time.Duration(owner.TimeoutMillis)*time.Millisecond
	lasts := d.now.Sub(began)
	by := fmt.Sprintf("%s, of transactional.id %s (%s since %s)", holds, owner.TxnID, owner.State, at(owner.StartTimestamp))
	const slack = 30 * time.Second // coordinators check at intervals, and markers take a moment
	switch {
	case owner.State == "PrepareCommit" || owner.State == "PrepareAbort":
		if lasts > timeout+slack {
			d.trouble(subject, "is this partition's leader up? The coordinator, broker "+number(owner.Coordinator)+", says in its log why the marker does not arrive", "%s: its outcome is decided, but the marker has not arrived.", by)
			return
		}
		d.note(subject, "%s: its outcome is decided, and the marker is under way.", by)
	case lasts > timeout+slack:
		d.trouble(subject, abort, "%s: its transaction.timeout.ms=%d has passed, and the coordinator, broker %d, has not ended it.", by, owner.TimeoutMillis, owner.Coordinator)
	default:
		d.note(subject, "%s: the coordinator ends it at %s at the latest.", by, at(began.Add(timeout).UnixMilli()))
	}
}

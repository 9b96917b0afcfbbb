package api

import (
	"context"

	"barnabas/broker/replica"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxJoined bounds the work of requests that are handled together, in bytes of uncompressed records: the first is
	// answered only after the last, and larger writes save little more.
	maxJoined = 512 << 10
	// compressedWork is how much work a byte of compressed records is taken for.
	compressedWork = 8
)

// produceTogether handles the first ones of Produce requests of one version that have arrived together on a connection,
// as they do from a producer that is ahead of the broker. What they have for the same partition is written together,
// which costs less than one write after the other. It returns the answers of as many requests as it has handled, and an
// error if the next one cannot be read.
func (h *Handlers) produceTogether(ctx context.Context, calls []*Call) (answers []network.Answer, err error) {
	requests, err := joinable(calls)
	if len(requests) == 1 {
		return []network.Answer{h.produce(ctx, calls[0], requests[0])}, err
	}
	all := make([]producing, len(requests))
	for i, req := range requests {
		all[i] = h.beginProduce(ctx, calls[i], req)
	}
	h.appendTogether(all)
	for i := range all {
		answers = append(answers, h.produced(&all[i]))
	}
	return answers, err
}

// joinable decodes the first request and those after it that can be handled together with it. The error is about the
// request after those returned.
func joinable(calls []*Call) (requests []*kmsg.ProduceRequest, err error) {
	left := maxJoined
	for _, c := range calls {
		req := kmsg.NewPtrProduceRequest()
		if err := decodeProduce(req, c); err != nil {
			return requests, err
		}
		left -= work(req)
		if len(requests) > 0 && (left < 0 || !joins(req) || req.Acks != requests[0].Acks) {
			break
		}
		if requests = append(requests, req); !joins(req) {
			break
		}
	}
	return requests, nil
}

// joins reports whether a request may be handled together with others: not if it belongs to a transaction, which may
// have to be verified after what comes before it, or if it is not answered, so that an error must prevent those after it.
func joins(req *kmsg.ProduceRequest) bool { return req.TransactionID == nil && req.Acks != 0 }

// work estimates what a request costs, in bytes of uncompressed records.
func work(req *kmsg.ProduceRequest) (n int) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			data := req.Topics[i].Partitions[j].Records
			if len(data) >= record.HeaderSize && record.Batch(data).Codec() != record.None {
				n += (compressedWork - 1) * len(data)
			}
			n += len(data)
		}
	}
	return n
}

// place is where a request has records for a partition.
type place struct{ request, topic, partition int } // indexes

// destination is a partition with the places of its records, in the order of the requests.
type destination struct {
	part   *replica.Partition
	places []place
}

// destinations are the partitions that several requests name.
type destinations struct {
	list     []destination
	expected int // index of the one that probably comes next: requests name them in the same order
}

// of returns the destination for a partition, at first without places but with room for some.
func (d *destinations) of(part *replica.Partition, room int) *destination {
	for range d.list {
		if d.expected >= len(d.list) {
			d.expected = 0
		}
		to := &d.list[d.expected]
		d.expected++
		if to.part == part {
			return to
		}
	}
	d.list = append(d.list, destination{part, make([]place, 0, room)})
	d.expected = len(d.list)
	return &d.list[len(d.list)-1]
}

// appendTogether appends the records of all requests, partition by partition.
func (h *Handlers) appendTogether(all []producing) {
	var d destinations
	for r := range all {
		p := &all[r]
		for i := range p.req.Topics {
			for j := range p.req.Topics[i].Partitions {
				part, none, err := h.mayAppend(p, i, j)
				if err != nil {
					h.appended(p, i, j, nil, none, err)
					continue
				}
				to := d.of(part, len(all))
				to.places = append(to.places, place{r, i, j})
			}
		}
	}
	batches := make([]logstore.LeaderBatch, 0, len(all))
	for i := range d.list {
		batches = h.appendAt(all, &d.list[i], batches[:0])
	}
}

// appendAt appends the records for one partition. It uses the memory of batches, and returns it.
func (h *Handlers) appendAt(all []producing, to *destination, batches []logstore.LeaderBatch) []logstore.LeaderBatch {
	for _, at := range to.places {
		batches = append(batches, logstore.LeaderBatch{Data: all[at.request].req.Topics[at.topic].Partitions[at.partition].Records})
	}
	req := all[0].req
	to.part.AppendAll(batches, req.Acks == -1, logstore.LeaderAppend{Origin: logstore.Client, ProduceVersion: req.Version})
	for i, at := range to.places {
		h.appended(&all[at.request], at.topic, at.partition, to.part, batches[i].Info, batches[i].Err)
	}
	return batches
}

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

// place is one of the places with records for a partition.
type place struct {
	request, topic, partition int // indexes
	next                      int // index of the next place for the same partition; 0: none
}

// destination is a partition with the indexes of its first and last place.
type destination struct {
	part        *replica.Partition
	first, last int
}

// placed is the records of several requests by partition.
type placed struct {
	places       []place
	destinations []destination
	expected     int // index of the destination that probably comes next: requests name them in the same order
}

func (d *placed) add(part *replica.Partition, p place) {
	at := len(d.places)
	d.places = append(d.places, p)
	for range d.destinations {
		if d.expected >= len(d.destinations) {
			d.expected = 0
		}
		to := &d.destinations[d.expected]
		d.expected++
		if to.part == part {
			d.places[to.last].next = at
			to.last = at
			return
		}
	}
	d.destinations = append(d.destinations, destination{part, at, at})
	d.expected = 0
}

// appendTogether appends the records of all requests, partition by partition.
func (h *Handlers) appendTogether(all []producing) {
	var d placed
	for r := range all {
		p := &all[r]
		for i := range p.req.Topics {
			for j := range p.req.Topics[i].Partitions {
				part, none, err := h.mayAppend(p, i, j)
				if err != nil {
					h.appended(p, i, j, nil, none, err)
					continue
				}
				d.add(part, place{request: r, topic: i, partition: j})
			}
		}
	}
	batches := make([]logstore.LeaderBatch, 0, len(all))
	for _, to := range d.destinations {
		batches = h.appendAt(all, d.places, to, batches[:0])
	}
}

// appendAt appends the records for one partition. It uses the memory of batches, and returns it.
func (h *Handlers) appendAt(all []producing, places []place, to destination, batches []logstore.LeaderBatch) []logstore.LeaderBatch {
	for at, more := to.first, true; more; at, more = places[at].next, at != to.last {
		p := places[at]
		batches = append(batches, logstore.LeaderBatch{Data: all[p.request].req.Topics[p.topic].Partitions[p.partition].Records})
	}
	req := all[0].req
	to.part.AppendAll(batches, req.Acks == -1, logstore.LeaderAppend{Origin: logstore.Client, ProduceVersion: req.Version})
	at := to.first
	for i := range batches {
		p := places[at]
		h.appended(&all[p.request], p.topic, p.partition, to.part, batches[i].Info, batches[i].Err)
		at = p.next
	}
	return batches
}

package api

import (
	"context"
	"math"
	"slices"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/txn"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listTransactions lists the transactional ids that this broker coordinates (KIP-664). v1: by how long they have been
// open (KIP-994).
func (h *Handlers) listTransactions(_ context.Context, c *Call, req *kmsg.ListTransactionsRequest) kmsg.Response {
	resp := kmsg.NewPtrListTransactionsResponse()
	filter := txn.Filter{OpenFor: openFor(req.DurationFilterMillis)}
	if len(req.ProducerIDFilters) > 0 {
		filter.Producers = req.ProducerIDFilters
	}
	if len(req.StateFilters) > 0 {
		filter.States, resp.UnknownStateFilters = parseStates(req.StateFilters)
	}
	list, err := h.Transactions.List(filter)
	if err != nil {
		resp.ErrorCode, resp.UnknownStateFilters = h.codeOf(err), nil
		return resp
	}
	for _, l := range list {
		if h.authorize.txnID(c, acl.Describe, l.ID) != nil {
			continue
		}
		t := kmsg.NewListTransactionsResponseTransactionState()
		t.TransactionalID, t.ProducerID, t.TransactionState = l.ID, l.Producer, l.State.String()
		resp.TransactionStates = append(resp.TransactionStates, t)
	}
	return resp
}

// openFor returns a duration that a client chooses, of which all negative ones mean the same.
func openFor(millis int64) time.Duration {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(millis, -1), longest)) * time.Millisecond
}

// parseStates parses the names of states, which are case-sensitive. states is never nil.
func parseStates(names []string) (states []txn.State, unknown []string) {
	states = make([]txn.State, 0, len(names))
	for _, name := range names {
		if i := slices.Index(kmsg.TransactionStateStrings(), name); i >= 0 {
			states = append(states, txn.State(i))
		} else if !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	return states, unknown
}

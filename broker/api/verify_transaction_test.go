package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestUnverified(t *testing.T) {
	tests := []struct {
		err     *kerr.Error
		version int16
		want    *kerr.Error
		text    bool
	}{
		{kerr.ProducerFenced, 9, kerr.InvalidProducerEpoch, false},
		{kerr.TransactionAbortable, 10, kerr.InvalidTxnState, true},
		{kerr.TransactionAbortable, 11, kerr.TransactionAbortable, false},
		{kerr.ClusterAuthorizationFailed, 9, kerr.InvalidTxnState, true},
		{kerr.ConcurrentTransactions, 9, kerr.NotEnoughReplicas, true},
		{kerr.NetworkException, 9, kerr.NotEnoughReplicas, true},
		{kerr.CoordinatorLoadInProgress, 9, kerr.NotEnoughReplicas, true},
		{kerr.CoordinatorNotAvailable, 9, kerr.NotEnoughReplicas, true},
		{kerr.NotCoordinator, 11, kerr.NotEnoughReplicas, true},
		{kerr.InvalidProducerIDMapping, 9, kerr.InvalidProducerIDMapping, false},
		{kerr.UnknownTopicOrPartition, 9, kerr.UnknownTopicOrPartition, false},
	}
	for _, test := range tests {
		text, err := unverified(fmt.Errorf("asked: %w", test.err), test.version)
		if !errors.Is(err, test.want) || code(err) != test.want.Code || (text != "") != test.text {
			t.Errorf("%v for version %d became %v with text %q", test.err.Message, test.version, err, text)
		}
	}
}

package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// translate converts the error of a failed write to the code that a client expects of a coordinator, since the client
// does not know the partitions of the internal topic. tooLarge is the error for a record that is too large
// (GroupMetadataManager, 3.9).
func translate(err error, tooLarge *kerr.Error) error {
	for _, t := range []struct{ from, to *kerr.Error }{
		{kerr.UnknownTopicOrPartition, kerr.CoordinatorNotAvailable},
		{kerr.NotEnoughReplicas, kerr.CoordinatorNotAvailable},
		{kerr.NotEnoughReplicasAfterAppend, kerr.CoordinatorNotAvailable},
		{kerr.NotLeaderForPartition, kerr.NotCoordinator},
		{kerr.KafkaStorageError, kerr.NotCoordinator},
		{kerr.FencedLeaderEpoch, kerr.NotCoordinator},
		{kerr.UnknownLeaderEpoch, kerr.NotCoordinator},
		{kerr.MessageTooLarge, tooLarge},
		{kerr.RecordListTooLarge, tooLarge},
		{kerr.InvalidFetchSize, tooLarge},
	} {
		if errors.Is(err, t.from) {
			return t.to
		}
	}
	return err
}

// groupWriteError is translate for a group's record.
func groupWriteError(err error) error {
	if errors.Is(err, kerr.RequestTimedOut) {
		return kerr.RebalanceInProgress
	}
	return translate(err, kerr.UnknownServerError)
}

// commitError is translate for offsets.
func commitError(err error) error { return translate(err, kerr.InvalidCommitOffsetSize) }

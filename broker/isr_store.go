package broker

import (
	"context"
	"errors"
	"fmt"

	"barnabas/broker/replica"
	"barnabas/config"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
)

// isrStore returns the store to which this broker writes ISRs itself, or nil: with inter.broker.protocol.version 2.7
// and later the controller writes them.
func (s *Server) isrStore() replica.ISRStore {
	if s.since(config.IBP27IV2) {
		return nil
	}
	return isrStore{s.zk}
}

// storedState reads a partition's state.
func (s *Server) storedState(ctx context.Context, tp logstore.TopicPartition) (replica.StoredState, error) {
	states, err := s.zk.PartitionStates(ctx, []zkcoord.TopicPartition{zkcoord.TopicPartition(tp)})
	if err != nil {
		return replica.StoredState{}, err
	}
	now, found := states[zkcoord.TopicPartition(tp)]
	if !found {
		return replica.StoredState{}, fmt.Errorf("%v: %w", tp, zkcoord.ErrNoTopic)
	}
	return replica.StoredState{Leader: now.Leader, LeaderEpoch: now.LeaderEpoch, PartitionEpoch: now.PartitionEpoch, ISR: now.ISR}, nil
}

// isrStore writes ISRs to ZooKeeper.
type isrStore struct{ zk *zkcoord.Client }

// WriteISR implements replica.ISRStore.
func (i isrStore) WriteISR(ctx context.Context, w replica.ISRWrite) (partitionEpoch int32, err error) {
	epoch, err := i.zk.WriteISR(ctx, zkcoord.TopicPartition(w.TP), zkcoord.PartitionState{Leader: w.Leader, LeaderEpoch: w.LeaderEpoch,
		ISR: w.ISR, ControllerEpoch: w.ControllerEpoch, PartitionEpoch: w.PartitionEpoch})
	if errors.Is(err, zkcoord.ErrConflict) {
		err = fmt.Errorf("%w: %w", err, kerr.InvalidUpdateVersion)
	}
	return epoch, err
}

// NotifyISRChange implements replica.ISRStore.
func (i isrStore) NotifyISRChange(ctx context.Context, changed []logstore.TopicPartition) error {
	partitions := make([]zkcoord.TopicPartition, len(changed))
	for n, tp := range changed {
		partitions[n] = zkcoord.TopicPartition(tp)
	}
	return i.zk.NotifyISRChange(ctx, partitions)
}

package controller

import (
	"context"
	"maps"
	"slices"
	"time"
)

// preferredElectionAsked runs the elections requested by the legacy node, and removes it.
func (ac *activeController) preferredElectionAsked(ctx context.Context) error {
	partitions, present, err := ac.store.WatchPreferredElection(ctx)
	if err != nil || !present {
		return err
	}
	if err := ac.returnToPreferred(ctx, partitions); err != nil {
		return err
	}
	return ac.store.RemovePreferredElection(ctx, ac.term)
}

// returnToPreferred makes the preferred replicas the leaders of partitions that others lead.
func (ac *activeController) returnToPreferred(ctx context.Context, partitions []topicPartition) error {
	var elsewhere []topicPartition
	for _, tp := range partitions {
		p := ac.m.partition(tp)
		if p == nil || p.state == nil || ac.m.deleting(tp) {
			continue
		}
		if preferred, err := firstReplica(tp, p); err == nil && p.state.Leader != preferred {
			elsewhere = append(elsewhere, tp)
		}
	}
	_, err := ac.elect(ctx, elsewhere, electPreferred)
	ac.flush()
	return err
}

// rebalanceAfter checks the balance of leaders after a while.
func (ac *activeController) rebalanceAfter(d time.Duration) {
	ac.stopTimer = ac.c.env.After(d, func() {
		ac.c.whileActive(ac, "rebalance leaders", AutoLeaderBalance, func(ctx context.Context) error {
			err := ac.returnToPreferred(ctx, ac.m.unbalanced(ac.c.cfg.RebalanceThreshold))
			ac.rebalanceAfter(ac.c.cfg.RebalanceInterval)
			return err
		})
	})
}

// unbalanced lists the partitions whose leadership should return to their preferred replicas: for brokers that miss
// more than the threshold, in percent, of the leaderships that they should have, those that they can take
// (KafkaController.checkAndTriggerAutoLeaderRebalance, 3.9).
func (m *model) unbalanced(thresholdPercent int) []topicPartition {
	due := make(map[int32]int)
	missing := make(map[int32][]topicPartition)
	for _, tp := range m.partitions(func(tp topicPartition, _ *partition) bool { return !m.deleting(tp) }) {
		p := m.partition(tp)
		preferred, err := firstReplica(tp, p)
		if err != nil {
			continue
		}
		due[preferred]++
		if p.state != nil && p.state.Leader != preferred {
			missing[preferred] = append(missing[preferred], tp)
		}
	}
	var move []topicPartition
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		if 100*len(missing[id]) <= thresholdPercent*due[id] {
			continue
		}
		for _, tp := range missing[id] {
			if _, err := electPreferred(m, tp, m.partition(tp)); err == nil {
				move = append(move, tp)
			}
		}
	}
	return move
}

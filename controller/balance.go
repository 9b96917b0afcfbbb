package controller

import (
	"context"
	"time"

	"barnabas/internal/logx"
)

// preferredElectionAsked elects as the legacy node asks, and removes it.
func (o *office) preferredElectionAsked(ctx context.Context) error {
	partitions, present, err := o.store.WatchPreferredElection(ctx)
	if err != nil || !present {
		return err
	}
	if err := o.electPreferred(ctx, partitions); err != nil {
		return err
	}
	return o.store.RemovePreferredElection(ctx, o.term)
}

// electPreferred moves the lead to the preferred replicas of partitions led by another one.
func (o *office) electPreferred(ctx context.Context, partitions []topicPartition) error {
	var elsewhere []topicPartition
	for _, tp := range partitions {
		p := o.m.partition(tp)
		if p == nil || p.state == nil || o.m.deleting(tp) {
			continue
		}
		if preferred, err := firstReplica(tp, p); err == nil && p.state.Leader != preferred {
			elsewhere = append(elsewhere, tp)
		}
	}
	_, err := o.elect(ctx, elsewhere, electPreferred)
	o.flush()
	return err
}

// rebalanceAfter looks at the balance of leaders after a while.
func (o *office) rebalanceAfter(d time.Duration) {
	o.stopTimer = o.c.world.After(d, func() {
		o.c.inOffice(o, "rebalance leaders", AutoLeaderBalance, func(ctx context.Context) error {
			err := o.electPreferred(ctx, o.m.unbalanced(o.c.cfg.RebalanceThreshold))
			o.rebalanceAfter(o.c.cfg.RebalanceInterval)
			return err
		})
	})
}

// unbalanced lists the partitions whose lead should go back to their preferred replicas: of
// the brokers that miss more than the threshold, in percent, of the leads they should have,
// those that they can take (KafkaController.checkAndTriggerAutoLeaderRebalance, 3.9).
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
	for _, id := range sortedKeys(missing) {
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

// uncleanAllowed elects again where there is no leader: a topic, or with an empty name the
// broker's default, allows leaders that are out of sync now.
func (o *office) uncleanAllowed(ctx context.Context, topic string) error {
	o.log.WithField(logx.Topic, topic).Info("leaders that are out of sync are allowed now")
	if err := o.bringOnline(ctx); err != nil {
		return err
	}
	o.flush()
	return nil
}

// UncleanElectionAllowed tells the controller that unclean.leader.election.enable has become
// true for a topic, or with an empty name for the broker. It does nothing elsewhere.
func (c *Controller) UncleanElectionAllowed(topic string) {
	w := TopicUncleanLeaderElectionEnable
	if topic == "" {
		w = UncleanLeaderElectionEnable
	}
	c.post("unclean election allowed", w, func(ctx context.Context) error {
		if c.office == nil {
			return nil
		}
		return c.office.uncleanAllowed(ctx, topic)
	})
}

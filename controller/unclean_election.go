package controller

import (
	"context"

	"barnabas/internal/logx"
)

// UncleanElectionAllowed notifies the controller that unclean.leader.election.enable has become true for a topic or,
// with an empty name, for the broker. On other brokers it does nothing.
func (c *Controller) UncleanElectionAllowed(topic string) {
	w := TopicUncleanLeaderElectionEnable
	if topic == "" {
		w = UncleanLeaderElectionEnable
	}
	c.postActive("unclean election allowed", w, func(ac *activeController, ctx context.Context) error { return ac.uncleanAllowed(ctx, topic) })
}

// uncleanAllowed repeats elections for partitions without a leader, since a topic or, with an empty name, the broker's
// default now allows out-of-sync leaders.
func (ac *activeController) uncleanAllowed(ctx context.Context, topic string) error {
	ac.log.WithField(logx.Topic, topic).Info("out-of-sync leaders are now allowed")
	if err := ac.bringOnline(ctx); err != nil {
		return err
	}
	ac.flush()
	return nil
}

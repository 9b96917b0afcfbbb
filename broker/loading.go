package broker

import (
	"context"
	"slices"

	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// After a crash this broker registers and serves while logs are still being recovered. Each partition assumes its role
// as soon as its log is loaded (replica.Manager). Registering early must not harm partitions that others serve, or
// could serve: see awaitSuccessors.

// logLoaded announces that a log is loaded. While there is no replica.Manager, no partition can have been assigned a
// role.
func (s *Server) logLoaded(tp logstore.TopicPartition) {
	select {
	case <-s.built:
		s.replicas.Loaded(tp)
	default:
	}
}

// awaitLoaded stops the broker if loading has shown that it must not run.
func (s *Server) awaitLoaded() {
	err := s.logs.AwaitLoaded(s.ctx)
	if s.ctx.Err() != nil || s.stopping.Load() {
		return
	}
	close(s.loaded)
	if err != nil {
		s.fail(err)
		return
	}
	s.strays.logsLoaded()
}

// awaitSuccessors waits until the cluster has noticed that this broker was away: until no partition whose log is still
// being loaded has this broker in its ISR together with another one that is alive.
//
// A controller that is elected just now would conclude from the registration that this broker was never away, and leave
// such a partition to it, though another broker could serve it at once; and a leader would go on waiting for records
// that this broker does not fetch yet. Once it is out of the ISR, it can return only by fetching. If this broker is the
// last one in the ISR there is nobody to wait for: no other broker can serve the partition. Once all logs are loaded
// the wait ends in any case.
func (s *Server) awaitSuccessors(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	ring := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	defer s.zk.OnChange(func(zkcoord.Change) { ring() })()
	defer s.zk.OnSession(func(zkcoord.SessionEvent) { ring() })()
	told := false
	for {
		tp, wait, err := s.unnoticed(ctx)
		if err != nil || !wait {
			return err
		}
		if !told {
			s.log.WithFields(logrus.Fields{logx.Topic: tp.Topic, logx.Partition: tp.Partition}).
				Info("waiting for the cluster to notice that this broker was away, before it registers with logs that are still being recovered")
			told = true
		}
		select {
		case <-changed:
		case <-s.loaded:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unnoticed returns a partition to wait for, if there is one, and watches its state and the live brokers.
func (s *Server) unnoticed(ctx context.Context) (zkcoord.TopicPartition, bool, error) {
	var arriving []zkcoord.TopicPartition
	for _, tp := range s.logs.LoadingPartitions() {
		arriving = append(arriving, zkcoord.TopicPartition(tp))
	}
	if len(arriving) == 0 {
		return zkcoord.TopicPartition{}, false, nil
	}
	brokers, err := s.zk.WatchBrokers(ctx)
	if err != nil || !slices.ContainsFunc(brokers, func(b zkcoord.BrokerInfo) bool { return b.ID != s.id }) {
		return zkcoord.TopicPartition{}, false, err // no other broker is alive: no need to read the states of thousands of partitions
	}
	states, err := s.zk.PartitionStates(ctx, arriving)
	for tp, state := range states {
		if !sharedISR(s.id, state.ISR, brokers) {
			continue
		}
		state, found, err := s.zk.WatchPartitionState(ctx, tp) // before all of them are examined again, so that no change is missed
		if err != nil || found && sharedISR(s.id, state.ISR, brokers) {
			return tp, true, err
		}
	}
	return zkcoord.TopicPartition{}, false, err
}

// sharedISR reports whether a broker is in the ISR together with another one that is alive.
func sharedISR(id int32, isr []int32, live []zkcoord.BrokerInfo) bool {
	return slices.Contains(isr, id) && slices.ContainsFunc(live, func(b zkcoord.BrokerInfo) bool {
		return b.ID != id && slices.Contains(isr, b.ID)
	})
}

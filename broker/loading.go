package broker

import (
	"context"
	"slices"

	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// After a crash this broker registers and serves while logs are still being recovered. Each partition takes on its role as soon as its
// log is there (replica.Manager). Being registered early must not make anything worse for partitions that others serve, or could
// serve: see awaitSuccessors.

// logLoaded passes on that a log is there. Before there is a replica.Manager nobody can have been told of a role.
func (s *Server) logLoaded(tp logstore.TopicPartition) {
	select {
	case <-s.built:
		s.replicas.Loaded(tp)
	default:
	}
}

// awaitLoaded ends the broker when loading has shown that it must not run.
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

// awaitSuccessors waits until the cluster has noticed that this broker was away: until of the partitions whose logs are not there
// yet there is none left that counts this broker as in sync beside another living one. A controller that was elected only now would
// take a registration for this broker never having been away, and leave such a partition to it, though another could serve it
// at once; and a leader would go on waiting for what this broker does not fetch yet. Once out of sync it can only come back by
// fetching. Who is the last one in sync has nobody to wait for: what is not served by it is served by nobody. When all logs are
// loaded there is nothing to wait for.
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

// unnoticed gives a partition to wait for, if there is one, and watches its state and who lives.
func (s *Server) unnoticed(ctx context.Context) (zkcoord.TopicPartition, bool, error) {
	var arriving []zkcoord.TopicPartition
	for _, tp := range s.logs.Arriving() {
		arriving = append(arriving, zkcoord.TopicPartition(tp))
	}
	if len(arriving) == 0 {
		return zkcoord.TopicPartition{}, false, nil
	}
	brokers, err := s.zk.WatchBrokers(ctx)
	if err != nil || !slices.ContainsFunc(brokers, func(b zkcoord.BrokerInfo) bool { return b.ID != s.id }) {
		return zkcoord.TopicPartition{}, false, err // nobody else lives: no need to read the states of thousands
	}
	states, err := s.zk.PartitionStates(ctx, arriving)
	for tp, state := range states {
		if !sharedISR(s.id, state.ISR, brokers) {
			continue
		}
		state, found, err := s.zk.WatchPartitionState(ctx, tp) // before the next look at all of them, so that no change is missed
		if err != nil || found && sharedISR(s.id, state.ISR, brokers) {
			return tp, true, err
		}
	}
	return zkcoord.TopicPartition{}, false, err
}

// sharedISR tells whether a broker is in sync beside another one that lives.
func sharedISR(id int32, isr []int32, living []zkcoord.BrokerInfo) bool {
	return slices.Contains(isr, id) && slices.ContainsFunc(living, func(b zkcoord.BrokerInfo) bool {
		return b.ID != id && slices.Contains(isr, b.ID)
	})
}

package controller

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// activeController is this broker during one term as the controller: from an election, which gives it a controller
// epoch, until it resigns or is deposed. It belongs to the controller's goroutine.
type activeController struct {
	c        *Controller
	term     zkcoord.Term
	store    Store
	log      *logrus.Entry
	m        *model
	b        *batch
	channels map[int32]BrokerChannel

	stopTimer func() // of the next check of the balance of leaders
}

func newActiveController(c *Controller, term zkcoord.Term) *activeController {
	return &activeController{
		c:        c,
		term:     term,
		store:    c.env.Store,
		log:      c.log.WithField(logx.ControllerEpoch, term.Epoch),
		m:        newModel(),
		b:        newBatch(),
		channels: make(map[int32]BrokerChannel),
	}
}

func (ac *activeController) close() {
	if ac.stopTimer != nil {
		ac.stopTimer()
	}
	for _, id := range sortedKeys(ac.channels) {
		ac.channels[id].Close()
	}
}

// flush sends what the batch has collected.
func (ac *activeController) flush() {
	from := sender{id: ac.c.cfg.BrokerID, epoch: ac.term.Epoch, listener: ac.c.cfg.Listener, protocol: ac.c.cfg.Protocol}
	for _, msg := range ac.b.messages(ac.m, from) {
		ac.channels[msg.to].Send(msg.req)
	}
	ac.b = newBatch()
}

// takeOver reads the cluster's state, watches it, tells the brokers, and corrects what happened while there was no
// controller (KafkaController.onControllerFailover, 3.9).
func (ac *activeController) takeOver(ctx context.Context) error {
	steps := []func(context.Context) error{
		ac.setUpFeatures, ac.dropNotifications, ac.readBrokers, ac.readTopics, ac.readDeletions,
		func(ctx context.Context) error {
			ac.b.update(ac.m.brokerIDs())
			ac.flush() // the brokers must know each other before they follow each other
			ac.sendHostedPartitions(ac.m.brokerIDs())
			if err := ac.dropOffline(ctx, ac.offlineReplicas()); err != nil {
				return err
			}
			if err := ac.bringOnline(ctx); err != nil {
				return err
			}
			return ac.dropNonReplicas(ctx)
		},
		ac.reassignmentsAsked, ac.resumeReassignments, ac.resumeDeletions, ac.preferredElectionAsked,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	ac.flush()
	if ac.c.cfg.AutoRebalance {
		ac.rebalanceAfter(firstRebalance)
	}
	ac.log.WithField(logx.Count, len(ac.m.topics)).Info("controller has taken over")
	return nil
}

// setUpFeatures creates or corrects the node of finalized features (KIP-584).
func (ac *activeController) setUpFeatures(ctx context.Context) error {
	p := ac.c.cfg.Protocol
	is, found, err := ac.store.Features(ctx)
	if err != nil {
		return err
	}
	want := zkcoord.Features{Format: p.FeatureFormat, Enabled: p.Features}
	if found && is.Enabled && want.Enabled {
		want.Levels = is.Levels
	}
	if found && is.Format == want.Format && is.Enabled == want.Enabled && len(is.Levels) == len(want.Levels) {
		return nil
	}
	_, err = ac.store.SetFeatures(ctx, ac.term, want)
	return err
}

// dropNotifications removes notifications meant for an earlier controller, since all states are read anyway. The
// watches remain.
func (ac *activeController) dropNotifications(ctx context.Context) error {
	_, events, err := ac.store.WatchLogDirEvents(ctx)
	if err == nil {
		err = ac.store.RemoveLogDirEvents(ctx, ac.term, events)
	}
	if err != nil {
		return err
	}
	_, changes, err := ac.store.WatchISRNotifications(ctx)
	if err == nil {
		err = ac.store.RemoveISRNotifications(ctx, ac.term, changes)
	}
	return err
}

func (ac *activeController) readBrokers(ctx context.Context) error {
	infos, err := ac.store.WatchBrokers(ctx)
	for _, info := range infos {
		ac.addBroker(info)
	}
	return err
}

func (ac *activeController) addBroker(info zkcoord.BrokerInfo) {
	ac.m.brokers[info.ID] = &broker{info: info, offline: make(map[topicPartition]struct{})}
	ac.channels[info.ID] = ac.c.env.OpenChannel(info, ac.log, func(req kmsg.Request, resp kmsg.Response) {
		ac.c.whileActive(ac, "broker answered", workOfAnswer(resp), func(ctx context.Context) error { return ac.answered(ctx, info, req, resp) })
	})
	ac.publishChannels()
}

// publishChannels publishes the current channels for readers of their queues.
func (ac *activeController) publishChannels() {
	channels := maps.Clone(ac.channels)
	ac.c.channels.Store(&channels)
}

// workOfAnswer returns what a broker's response is handled for. Apache Kafka stops replicas in order to delete them.
func workOfAnswer(resp kmsg.Response) Work {
	switch resp.(type) {
	case *kmsg.StopReplicaResponse:
		return TopicDeletion
	case *kmsg.UpdateMetadataResponse:
		return UpdateMetadataResponseReceived
	}
	return LeaderAndISRResponseReceived
}

func (ac *activeController) removeBroker(id int32) {
	delete(ac.m.brokers, id)
	ac.channels[id].Close()
	delete(ac.channels, id)
	ac.publishChannels()
}

func (ac *activeController) readTopics(ctx context.Context) error {
	names, err := ac.store.WatchTopics(ctx)
	if err != nil {
		return err
	}
	partitions, err := ac.enterTopics(ctx, names)
	if err != nil {
		return err
	}
	return ac.refresh(ctx, partitions)
}

// enterTopics reads and watches topics and adds them to the model; it returns the new partitions.
func (ac *activeController) enterTopics(ctx context.Context, names []string) ([]topicPartition, error) {
	infos, err := ac.store.WatchTopicInfos(ctx, names)
	if err != nil {
		return nil, err
	}
	var added []topicPartition
	for _, info := range infos {
		if info.ID == (zkcoord.ID{}) && ac.c.cfg.Protocol.TopicIDs {
			if info, err = ac.assignTopicID(ctx, info.Name); errors.Is(err, zkcoord.ErrNoTopic) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		added = append(added, ac.m.addTopic(info)...)
	}
	return added, nil
}

// assignTopicID assigns an id to a topic from before inter.broker.protocol.version 2.8.
func (ac *activeController) assignTopicID(ctx context.Context, name string) (zkcoord.TopicInfo, error) {
	for {
		t, version, err := ac.store.Topic(ctx, name)
		if err != nil || t.ID != (zkcoord.ID{}) {
			return t, err
		}
		t.ID = zkcoord.NewID()
		if err := ac.store.SetTopicID(ctx, ac.term, t, version); !errors.Is(err, zkcoord.ErrConflict) {
			t.Version++
			return t, err
		}
	}
}

// refresh reads the states of partitions; those without one keep what they have.
func (ac *activeController) refresh(ctx context.Context, partitions []topicPartition) error {
	states, err := ac.store.PartitionStates(ctx, partitions)
	if err != nil {
		return err
	}
	for tp, state := range states {
		if p := ac.m.partition(tp); p != nil {
			p.state = &state
		}
	}
	return nil
}

// sendHostedPartitions tells brokers about all partitions that they host.
func (ac *activeController) sendHostedPartitions(brokers []int32) {
	for _, id := range brokers {
		for _, tp := range ac.m.hosted(id) {
			if ac.m.partition(tp).state != nil && ac.m.online(id, tp) && !ac.m.deleting(tp) {
				ac.b.lead(ac.m, []int32{id}, tp, false)
			}
		}
	}
}

// offlineReplicas lists the partitions with a replica on an offline broker, by broker.
func (ac *activeController) offlineReplicas() map[int32][]topicPartition {
	offline := make(map[int32][]topicPartition)
	for _, tp := range ac.m.partitions(func(tp topicPartition, _ *partition) bool { return !ac.m.deleting(tp) }) {
		for _, id := range ac.m.partition(tp).replicas {
			if !ac.m.online(id, tp) {
				offline[id] = append(offline[id], tp)
			}
		}
	}
	return offline
}

// dropOffline removes offline replicas from the ISRs, and tells the partitions' other replicas.
func (ac *activeController) dropOffline(ctx context.Context, offline map[int32][]topicPartition) error {
	for _, id := range sortedKeys(offline) {
		for _, tp := range offline[id] {
			ac.b.stopReplica(id, tp, false) // in case the broker is alive and only a log directory has failed
			ac.b.update(ac.m.brokerIDs(), tp)
		}
		if _, err := ac.elect(ctx, offline[id], dropReplica(id)); err != nil {
			return err
		}
	}
	return nil
}

// dropNonReplicas removes brokers from the ISRs of partitions of which they are not replicas: a leader that writes the
// ISR itself may have added one just before its controller died, which had moved the partition off that broker.
func (ac *activeController) dropNonReplicas(ctx context.Context) error {
	for _, tp := range ac.m.partitions(func(tp topicPartition, p *partition) bool {
		return p.state != nil && !ac.m.deleting(tp) && len(without(p.state.ISR, p.replicas)) > 0
	}) {
		p := ac.m.partition(tp)
		if _, err := ac.elect(ctx, []topicPartition{tp}, keepLeader(p.replicas, p.replicas)); err != nil {
			return err
		}
	}
	return nil
}

// bringOnline gives new partitions their first state, and those without a leader a new one if possible. The replicas
// that are then in sync may complete a reassignment.
func (ac *activeController) bringOnline(ctx context.Context) error {
	fresh := ac.m.partitions(func(tp topicPartition, p *partition) bool { return p.state == nil && !ac.m.deleting(tp) })
	if err := ac.create(ctx, fresh); err != nil {
		return err
	}
	leaderless := ac.m.partitions(func(tp topicPartition, p *partition) bool {
		return p.state != nil && ac.m.leaderless(tp, p) && !ac.m.deleting(tp)
	})
	if _, err := ac.electOffline(ctx, leaderless, false); err != nil {
		return err
	}
	return ac.completeReassignments(ctx, sorted(ac.m.reassigning))
}

// electOffline elects leaders for partitions without one. force allows out-of-sync leaders whatever the configuration
// says.
func (ac *activeController) electOffline(ctx context.Context, partitions []topicPartition, force bool) (map[topicPartition]error, error) {
	unclean := func(string) bool { return true }
	if !force {
		var err error
		if unclean, err = ac.uncleanTopics(ctx, partitions); err != nil {
			return nil, err
		}
	}
	return ac.elect(ctx, partitions, electOffline(unclean, ac.c.cfg.Protocol.LeaderRecovery))
}

// uncleanTopics reads which topics allow out-of-sync leaders, as far as that matters for one of their partitions.
func (ac *activeController) uncleanTopics(ctx context.Context, partitions []topicPartition) (func(topic string) bool, error) {
	var need []string
	for _, tp := range partitions {
		p := ac.m.partition(tp)
		inSync := slices.ContainsFunc(p.state.ISR, func(id int32) bool { return ac.m.online(id, tp) })
		if !inSync && !slices.Contains(need, tp.Topic) {
			need = append(need, tp.Topic)
		}
	}
	configs, err := ac.store.EntityConfigs(ctx, zkcoord.Topics, need)
	if err != nil {
		return nil, err
	}
	return func(topic string) bool {
		if v, ok := configs[topic]["unclean.leader.election.enable"]; ok {
			return v == "true"
		}
		return ac.c.cfg.UncleanDefault()
	}, nil
}

// create gives partitions their first state. Those without an online replica have to wait.
func (ac *activeController) create(ctx context.Context, partitions []topicPartition) error {
	var writes []zkcoord.StateWrite
	waiting := make(map[topicPartition]error)
	defer ac.logFailed(waiting)
	for _, tp := range partitions {
		out, err := firstState(ac.m, tp, ac.m.partition(tp))
		if err != nil {
			waiting[tp] = err
			continue
		}
		writes = append(writes, zkcoord.StateWrite{Partition: tp, State: zkcoord.PartitionState{
			Leader: out.leader, ISR: out.isr, ControllerEpoch: ac.term.Epoch}})
	}
	if len(writes) == 0 {
		return nil
	}
	results, err := ac.store.CreateStates(ctx, ac.term, writes)
	if err != nil {
		return err
	}
	var there []topicPartition
	for i, r := range results {
		tp := writes[i].Partition
		if r.Err != nil {
			there = append(there, tp)
			continue
		}
		ac.m.partition(tp).state = &r.State
		ac.b.lead(ac.m, r.State.ISR, tp, true)
	}
	if len(there) == 0 {
		return nil
	}
	// Their state exists although this controller was not told, or their topic is gone.
	if err := ac.refresh(ctx, there); err != nil {
		return err
	}
	for _, tp := range there {
		if p := ac.m.partition(tp); p.state != nil {
			ac.b.lead(ac.m, ac.m.onlineReplicas(tp, p), tp, true)
		}
	}
	return nil
}

// elect applies the rule to partitions, writes the results and collects what the brokers have to be told. If a state
// has been changed concurrently, it reads the state and decides again. The result has the partitions for which it
// failed, with the reason; partitions for which the rule says that nothing is needed are not included.
func (ac *activeController) elect(ctx context.Context, partitions []topicPartition, decide rule) (map[topicPartition]error, error) {
	failed := make(map[topicPartition]error)
	if !ac.c.cfg.Protocol.AlterPartition { // leaders write the ISR, so the known state may be outdated
		if err := ac.refresh(ctx, partitions); err != nil {
			return nil, err
		}
	}
	for len(partitions) > 0 {
		writes, tell := ac.decide(partitions, decide, failed)
		if len(writes) == 0 {
			break
		}
		results, err := ac.store.WriteStates(ctx, ac.term, writes)
		if err != nil {
			return nil, err
		}
		partitions = nil
		for i, r := range results {
			tp := writes[i].Partition
			if r.Err != nil {
				partitions = append(partitions, tp)
				continue
			}
			ac.enter(tp, r.State, tell[i])
		}
		if partitions, err = ac.reread(ctx, partitions, failed); err != nil {
			return nil, err
		}
	}
	ac.logFailed(failed)
	return failed, nil
}

// logFailed logs once how many partitions got no leader, with one of the reasons.
func (ac *activeController) logFailed(failed map[topicPartition]error) {
	for _, tp := range sorted(failed) {
		ac.log.WithError(failed[tp]).WithField(logx.Count, len(failed)).Warn("no leader elected")
		return
	}
}

func (ac *activeController) decide(partitions []topicPartition, decide rule, failed map[topicPartition]error) (writes []zkcoord.StateWrite, tell [][]int32) {
	for _, tp := range partitions {
		p := ac.m.partition(tp)
		if p == nil || p.state == nil {
			failed[tp] = errNobody
			continue
		}
		out, err := decide(ac.m, tp, p)
		switch {
		case errors.Is(err, errUnchanged):
		case err != nil:
			failed[tp] = err
		default:
			writes = append(writes, zkcoord.StateWrite{Partition: tp, State: out.next(*p.state, ac.term.Epoch)})
			tell = append(tell, out.tell)
		}
	}
	return writes, tell
}

// enter applies a written state, and collects who has to be told.
func (ac *activeController) enter(tp topicPartition, state zkcoord.PartitionState, tell []int32) {
	before := ac.m.partition(tp).state
	ac.m.partition(tp).state = &state
	if state.Leader != zkcoord.NoLeader && !slices.Contains(before.ISR, state.Leader) {
		ac.c.unclean.Add(1)
		ac.log.WithFields(logrus.Fields{
			logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.LeaderEpoch: state.LeaderEpoch, logx.Leader: state.Leader, logx.ISR: before.ISR,
		}).Warn("an out-of-sync replica has become leader: acknowledged records may be lost")
	}
	ac.log.WithFields(logrus.Fields{
		logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.LeaderEpoch: state.LeaderEpoch, logx.Value: state.Leader,
	}).Debug("partition state written")
	if !ac.m.deleting(tp) {
		ac.b.lead(ac.m, tell, tp, false)
	}
}

// reread reads the states of partitions that have been changed concurrently. Those whose state is as known, or gone,
// cannot make progress: they fail.
func (ac *activeController) reread(ctx context.Context, partitions []topicPartition, failed map[topicPartition]error) ([]topicPartition, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	before := make(map[topicPartition]int32, len(partitions))
	for _, tp := range partitions {
		before[tp] = ac.m.partition(tp).state.PartitionEpoch
	}
	if err := ac.refresh(ctx, partitions); err != nil {
		return nil, err
	}
	var again []topicPartition
	for _, tp := range partitions {
		if ac.m.partition(tp).state.PartitionEpoch == before[tp] {
			failed[tp] = zkcoord.ErrConflict
			continue
		}
		again = append(again, tp)
	}
	return again, nil
}

func sortedKeys[V any](byBroker map[int32]V) []int32 {
	ids := make([]int32, 0, len(byBroker))
	for id := range byBroker {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

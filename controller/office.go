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

// office is one term as the controller. It belongs to the controller's goroutine.
type office struct {
	c     *Controller
	term  zkcoord.Term
	store Store
	log   *logrus.Entry
	m     *model
	b     *batch
	links map[int32]Link

	stopTimer func() // of the next check of the balance of leaders
}

func newOffice(c *Controller, term zkcoord.Term) *office {
	return &office{
		c:     c,
		term:  term,
		store: c.world.Store,
		log:   c.log.WithField(logx.ControllerEpoch, term.Epoch),
		m:     newModel(),
		b:     newBatch(),
		links: make(map[int32]Link),
	}
}

func (o *office) close() {
	if o.stopTimer != nil {
		o.stopTimer()
	}
	for _, id := range sortedKeys(o.links) {
		o.links[id].Close()
	}
}

// flush sends what the batch has collected.
func (o *office) flush() {
	from := sender{id: o.c.cfg.BrokerID, epoch: o.term.Epoch, listener: o.c.cfg.Listener, protocol: o.c.cfg.Protocol}
	for _, msg := range o.b.messages(o.m, from) {
		o.links[msg.to].Send(msg.req)
	}
	o.b = newBatch()
}

// takeOver reads the cluster's state, watches it, tells the brokers, and corrects what happened while there was no
// controller (KafkaController.onControllerFailover, 3.9).
func (o *office) takeOver(ctx context.Context) error {
	steps := []func(context.Context) error{
		o.setUpFeatures, o.dropNotifications, o.readBrokers, o.readTopics, o.readDeletions,
		func(ctx context.Context) error {
			o.b.update(o.m.brokerIDs())
			o.flush() // the brokers must know each other before they follow each other
			o.greetReplicas(o.m.brokerIDs())
			if err := o.dropOffline(ctx, o.offlineReplicas()); err != nil {
				return err
			}
			if err := o.bringOnline(ctx); err != nil {
				return err
			}
			return o.dropStrangers(ctx)
		},
		o.reassignmentsAsked, o.resumeReassignments, o.resumeDeletions, o.preferredElectionAsked,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	o.flush()
	if o.c.cfg.AutoRebalance {
		o.rebalanceAfter(firstRebalance)
	}
	o.log.WithField(logx.Count, len(o.m.topics)).Info("controller has taken over")
	return nil
}

// setUpFeatures creates or corrects the node of finalized features (KIP-584).
func (o *office) setUpFeatures(ctx context.Context) error {
	p := o.c.cfg.Protocol
	is, found, err := o.store.Features(ctx)
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
	_, err = o.store.SetFeatures(ctx, o.term, want)
	return err
}

// dropNotifications removes notifications meant for an earlier controller, since all states are read anyway. The
// watches remain.
func (o *office) dropNotifications(ctx context.Context) error {
	_, events, err := o.store.WatchLogDirEvents(ctx)
	if err == nil {
		err = o.store.RemoveLogDirEvents(ctx, o.term, events)
	}
	if err != nil {
		return err
	}
	_, changes, err := o.store.WatchISRNotifications(ctx)
	if err == nil {
		err = o.store.RemoveISRNotifications(ctx, o.term, changes)
	}
	return err
}

func (o *office) readBrokers(ctx context.Context) error {
	infos, err := o.store.WatchBrokers(ctx)
	for _, info := range infos {
		o.addBroker(info)
	}
	return err
}

func (o *office) addBroker(info zkcoord.BrokerInfo) {
	o.m.brokers[info.ID] = &broker{info: info, offline: make(map[topicPartition]struct{})}
	o.links[info.ID] = o.c.world.Link(info, o.log, func(req kmsg.Request, resp kmsg.Response) {
		o.c.inOffice(o, "broker answered", workOfAnswer(resp), func(ctx context.Context) error { return o.answered(ctx, info, req, resp) })
	})
	o.showLinks()
}

// showLinks publishes the current links for readers of their queues.
func (o *office) showLinks() {
	links := maps.Clone(o.links)
	o.c.links.Store(&links)
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

func (o *office) removeBroker(id int32) {
	delete(o.m.brokers, id)
	o.links[id].Close()
	delete(o.links, id)
	o.showLinks()
}

func (o *office) readTopics(ctx context.Context) error {
	names, err := o.store.WatchTopics(ctx)
	if err != nil {
		return err
	}
	partitions, err := o.enterTopics(ctx, names)
	if err != nil {
		return err
	}
	return o.refresh(ctx, partitions)
}

// enterTopics reads and watches topics and adds them to the model; it returns the new partitions.
func (o *office) enterTopics(ctx context.Context, names []string) ([]topicPartition, error) {
	infos, err := o.store.WatchTopicInfos(ctx, names)
	if err != nil {
		return nil, err
	}
	var added []topicPartition
	for _, info := range infos {
		if info.ID == (zkcoord.ID{}) && o.c.cfg.Protocol.TopicIDs {
			if info, err = o.giveID(ctx, info.Name); errors.Is(err, zkcoord.ErrNoTopic) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		added = append(added, o.m.addTopic(info)...)
	}
	return added, nil
}

// giveID assigns an id to a topic from before inter.broker.protocol.version 2.8.
func (o *office) giveID(ctx context.Context, name string) (zkcoord.TopicInfo, error) {
	for {
		t, version, err := o.store.Topic(ctx, name)
		if err != nil || t.ID != (zkcoord.ID{}) {
			return t, err
		}
		t.ID = zkcoord.NewID()
		if err := o.store.SetTopicID(ctx, o.term, t, version); !errors.Is(err, zkcoord.ErrConflict) {
			t.Version++
			return t, err
		}
	}
}

// refresh reads the states of partitions; those without one keep what they have.
func (o *office) refresh(ctx context.Context, partitions []topicPartition) error {
	states, err := o.store.PartitionStates(ctx, partitions)
	if err != nil {
		return err
	}
	for tp, state := range states {
		if p := o.m.partition(tp); p != nil {
			p.state = &state
		}
	}
	return nil
}

// greetReplicas tells brokers about all partitions that they host.
func (o *office) greetReplicas(brokers []int32) {
	for _, id := range brokers {
		for _, tp := range o.m.hosted(id) {
			if o.m.partition(tp).state != nil && o.m.online(id, tp) && !o.m.deleting(tp) {
				o.b.lead(o.m, []int32{id}, tp, false)
			}
		}
	}
}

// offlineReplicas lists the partitions with a replica on an offline broker, by broker.
func (o *office) offlineReplicas() map[int32][]topicPartition {
	offline := make(map[int32][]topicPartition)
	for _, tp := range o.m.partitions(func(tp topicPartition, _ *partition) bool { return !o.m.deleting(tp) }) {
		for _, id := range o.m.partition(tp).replicas {
			if !o.m.online(id, tp) {
				offline[id] = append(offline[id], tp)
			}
		}
	}
	return offline
}

// dropOffline removes offline replicas from the ISRs, and tells the partitions' other replicas.
func (o *office) dropOffline(ctx context.Context, offline map[int32][]topicPartition) error {
	for _, id := range sortedKeys(offline) {
		for _, tp := range offline[id] {
			o.b.stopReplica(id, tp, false) // in case the broker is alive and only a log directory has failed
			o.b.update(o.m.brokerIDs(), tp)
		}
		if _, err := o.elect(ctx, offline[id], dropReplica(id)); err != nil {
			return err
		}
	}
	return nil
}

// dropStrangers removes brokers from the ISRs of partitions of which they are not replicas: a leader that writes the
// ISR itself may have added one just before its controller died, which had moved the partition off that broker.
func (o *office) dropStrangers(ctx context.Context) error {
	for _, tp := range o.m.partitions(func(tp topicPartition, p *partition) bool {
		return p.state != nil && !o.m.deleting(tp) && len(without(p.state.ISR, p.replicas)) > 0
	}) {
		p := o.m.partition(tp)
		if _, err := o.elect(ctx, []topicPartition{tp}, keepLeader(p.replicas, p.replicas)); err != nil {
			return err
		}
	}
	return nil
}

// bringOnline gives new partitions their first state, and those without a leader a new one if possible. The replicas
// that are then in sync may complete a reassignment.
func (o *office) bringOnline(ctx context.Context) error {
	fresh := o.m.partitions(func(tp topicPartition, p *partition) bool { return p.state == nil && !o.m.deleting(tp) })
	if err := o.create(ctx, fresh); err != nil {
		return err
	}
	leaderless := o.m.partitions(func(tp topicPartition, p *partition) bool {
		return p.state != nil && o.m.leaderless(tp, p) && !o.m.deleting(tp)
	})
	if _, err := o.electOffline(ctx, leaderless, false); err != nil {
		return err
	}
	return o.completeReassignments(ctx, sorted(o.m.reassigning))
}

// electOffline elects leaders for partitions without one. force allows out-of-sync leaders whatever the configuration
// says.
func (o *office) electOffline(ctx context.Context, partitions []topicPartition, force bool) (map[topicPartition]error, error) {
	unclean := func(string) bool { return true }
	if !force {
		var err error
		if unclean, err = o.uncleanTopics(ctx, partitions); err != nil {
			return nil, err
		}
	}
	return o.elect(ctx, partitions, electOffline(unclean, o.c.cfg.Protocol.LeaderRecovery))
}

// uncleanTopics reads which topics allow out-of-sync leaders, as far as that matters for one of their partitions.
func (o *office) uncleanTopics(ctx context.Context, partitions []topicPartition) (func(topic string) bool, error) {
	var need []string
	for _, tp := range partitions {
		p := o.m.partition(tp)
		inSync := slices.ContainsFunc(p.state.ISR, func(id int32) bool { return o.m.online(id, tp) })
		if !inSync && !slices.Contains(need, tp.Topic) {
			need = append(need, tp.Topic)
		}
	}
	configs, err := o.store.EntityConfigs(ctx, zkcoord.Topics, need)
	if err != nil {
		return nil, err
	}
	return func(topic string) bool {
		if v, ok := configs[topic]["unclean.leader.election.enable"]; ok {
			return v == "true"
		}
		return o.c.cfg.UncleanDefault()
	}, nil
}

// create gives partitions their first state. Those without an online replica have to wait.
func (o *office) create(ctx context.Context, partitions []topicPartition) error {
	var writes []zkcoord.StateWrite
	waiting := make(map[topicPartition]error)
	defer o.logFailed(waiting)
	for _, tp := range partitions {
		out, err := firstState(o.m, tp, o.m.partition(tp))
		if err != nil {
			waiting[tp] = err
			continue
		}
		writes = append(writes, zkcoord.StateWrite{Partition: tp, State: zkcoord.PartitionState{
			Leader: out.leader, ISR: out.isr, ControllerEpoch: o.term.Epoch}})
	}
	if len(writes) == 0 {
		return nil
	}
	results, err := o.store.CreateStates(ctx, o.term, writes)
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
		o.m.partition(tp).state = &r.State
		o.b.lead(o.m, r.State.ISR, tp, true)
	}
	if len(there) == 0 {
		return nil
	}
	// Their state exists although this controller was not told, or their topic is gone.
	if err := o.refresh(ctx, there); err != nil {
		return err
	}
	for _, tp := range there {
		if p := o.m.partition(tp); p.state != nil {
			o.b.lead(o.m, o.m.onlineReplicas(tp, p), tp, true)
		}
	}
	return nil
}

// elect applies the rule to partitions, writes the outcomes and collects what the brokers have to be told. If a state
// has been changed concurrently, it reads the state and decides again. The result has the partitions for which it
// failed, with the reason; partitions for which the rule says that nothing is needed are not included.
func (o *office) elect(ctx context.Context, partitions []topicPartition, decide rule) (map[topicPartition]error, error) {
	failed := make(map[topicPartition]error)
	if !o.c.cfg.Protocol.AlterPartition { // leaders write the ISR, so the known state may be outdated
		if err := o.refresh(ctx, partitions); err != nil {
			return nil, err
		}
	}
	for len(partitions) > 0 {
		writes, tell := o.decide(partitions, decide, failed)
		if len(writes) == 0 {
			break
		}
		results, err := o.store.WriteStates(ctx, o.term, writes)
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
			o.enter(tp, r.State, tell[i])
		}
		if partitions, err = o.reread(ctx, partitions, failed); err != nil {
			return nil, err
		}
	}
	o.logFailed(failed)
	return failed, nil
}

// logFailed logs once how many partitions got no leader, with one of the reasons.
func (o *office) logFailed(failed map[topicPartition]error) {
	for _, tp := range sorted(failed) {
		o.log.WithError(failed[tp]).WithField(logx.Count, len(failed)).Warn("no leader elected")
		return
	}
}

func (o *office) decide(partitions []topicPartition, decide rule, failed map[topicPartition]error) (writes []zkcoord.StateWrite, tell [][]int32) {
	for _, tp := range partitions {
		p := o.m.partition(tp)
		if p == nil || p.state == nil {
			failed[tp] = errNobody
			continue
		}
		out, err := decide(o.m, tp, p)
		switch {
		case errors.Is(err, errUnchanged):
		case err != nil:
			failed[tp] = err
		default:
			writes = append(writes, zkcoord.StateWrite{Partition: tp, State: out.next(*p.state, o.term.Epoch)})
			tell = append(tell, out.tell)
		}
	}
	return writes, tell
}

// enter applies a written state, and collects who has to be told.
func (o *office) enter(tp topicPartition, state zkcoord.PartitionState, tell []int32) {
	before := o.m.partition(tp).state
	o.m.partition(tp).state = &state
	if state.Leader != zkcoord.NoLeader && !slices.Contains(before.ISR, state.Leader) {
		o.c.unclean.Add(1)
		o.log.WithFields(logrus.Fields{
			logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.LeaderEpoch: state.LeaderEpoch, logx.Leader: state.Leader, logx.ISR: before.ISR,
		}).Warn("an out-of-sync replica has become leader: acknowledged records may be lost")
	}
	o.log.WithFields(logrus.Fields{
		logx.Topic: tp.Topic, logx.Partition: tp.Partition, logx.LeaderEpoch: state.LeaderEpoch, logx.Value: state.Leader,
	}).Debug("partition state written")
	if !o.m.deleting(tp) {
		o.b.lead(o.m, tell, tp, false)
	}
}

// reread reads the states of partitions that have been changed concurrently. Those whose state is as known, or gone,
// cannot make progress: they fail.
func (o *office) reread(ctx context.Context, partitions []topicPartition, failed map[topicPartition]error) ([]topicPartition, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	before := make(map[topicPartition]int32, len(partitions))
	for _, tp := range partitions {
		before[tp] = o.m.partition(tp).state.PartitionEpoch
	}
	if err := o.refresh(ctx, partitions); err != nil {
		return nil, err
	}
	var again []topicPartition
	for _, tp := range partitions {
		if o.m.partition(tp).state.PartitionEpoch == before[tp] {
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

package controller

import (
	"context"
	"errors"
	"maps"
	"slices"

	"barnabas/internal/logx"
	"barnabas/internal/uuid"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	for _, id := range slices.Sorted(maps.Keys(ac.channels)) {
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
		t.ID = uuid.New()
		if err := ac.store.SetTopicID(ctx, ac.term, t, version); !errors.Is(err, zkcoord.ErrConflict) {
			t.Version++
			return t, err
		}
	}
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

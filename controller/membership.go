package controller

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// membership is the difference between the known brokers and the registered ones.
type membership struct {
	joined  []zkcoord.BrokerInfo
	bounced []zkcoord.BrokerInfo // gone and back, with another epoch
	changed []zkcoord.BrokerInfo // other addresses
	left    []int32
}

func compareMembers(known map[int32]*broker, registered []zkcoord.BrokerInfo) membership {
	var d membership
	present := make(map[int32]struct{}, len(registered))
	for _, info := range registered {
		present[info.ID] = struct{}{}
		switch b := known[info.ID]; {
		case b == nil:
			d.joined = append(d.joined, info)
		case b.info.Epoch != info.Epoch:
			d.bounced = append(d.bounced, info)
		case !reflect.DeepEqual(b.info, info):
			d.changed = append(d.changed, info)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if _, ok := present[id]; !ok {
			d.left = append(d.left, id)
		}
	}
	return d
}

// brokersChanged finds out which brokers came, went or changed.
func (ac *activeController) brokersChanged(ctx context.Context) error {
	infos, err := ac.store.WatchBrokers(ctx)
	if err != nil {
		return err
	}
	d := compareMembers(ac.m.brokers, infos)
	if len(d.joined)+len(d.bounced)+len(d.changed)+len(d.left) == 0 {
		return nil
	}
	for _, info := range d.changed {
		ac.m.brokers[info.ID].info = info
		ac.channels[info.ID].Move(info)
		ac.log.WithField(logx.Broker, info.ID).Info("broker has changed its registration")
	}
	if len(d.changed) > 0 {
		ac.b.update(ac.m.brokerIDs())
		ac.flush()
	}
	if err := ac.brokersJoined(ctx, d.joined); err != nil {
		return err
	}
	var gone []int32
	for _, info := range d.bounced {
		gone = append(gone, info.ID)
	}
	if err := ac.brokersLeft(ctx, gone); err != nil {
		return err
	}
	if err := ac.brokersJoined(ctx, d.bounced); err != nil {
		return err
	}
	return ac.brokersLeft(ctx, d.left)
}

// brokersJoined handles new brokers: they learn the cluster's metadata and their replicas, and what waited for them
// continues.
func (ac *activeController) brokersJoined(ctx context.Context, infos []zkcoord.BrokerInfo) error {
	if len(infos) == 0 {
		return nil
	}
	var ids []int32
	for _, info := range infos {
		ac.addBroker(info)
		ids = append(ids, info.ID)
		ac.log.WithField(logx.Broker, info.ID).Info("broker has joined")
	}
	ac.b.update(without(ac.m.brokerIDs(), ids))
	ac.flush()
	ac.b.update(ids, ac.m.partitions(func(_ topicPartition, p *partition) bool { return p.state != nil })...)
	ac.flush() // this much goes only to the new ones
	ac.sendHostedPartitions(ids)
	ac.flush()
	if err := ac.bringOnline(ctx); err != nil {
		return err
	}
	ac.flush()
	if err := ac.resumeReassignmentsOn(ctx, ids); err != nil {
		return err
	}
	ac.releaseDeletions(func(t *topic) bool { return t.hasReplicaOn(ids) })
	return ac.resumeDeletions(ctx)
}

func (t *topic) hasReplicaOn(brokers []int32) bool {
	for _, p := range t.partitions {
		if slices.ContainsFunc(p.replicas, func(id int32) bool { return slices.Contains(brokers, id) }) {
			return true
		}
	}
	return false
}

// brokersLeft moves the leaderships off brokers that are gone.
func (ac *activeController) brokersLeft(ctx context.Context, ids []int32) error {
	if len(ids) == 0 {
		return nil
	}
	offline := make(map[int32][]topicPartition)
	for _, id := range ids {
		offline[id] = ac.m.hosted(id)
		ac.removeBroker(id)
		ac.log.WithField(logx.Broker, id).Info("broker has left")
	}
	return ac.replicasOffline(ctx, offline)
}

// replicasOffline handles replicas that have gone offline: it elects other leaders first, then shrinks ISRs
// (KafkaController.onReplicasBecomeOffline, 3.9).
func (ac *activeController) replicasOffline(ctx context.Context, offline map[int32][]topicPartition) error {
	if err := ac.bringOnline(ctx); err != nil {
		return err
	}
	ac.flush()
	staying := make(map[int32][]topicPartition, len(offline))
	for id, partitions := range offline {
		for _, tp := range partitions {
			if ac.m.deleting(tp) {
				ac.failDeletion(tp, id)
			} else {
				staying[id] = append(staying[id], tp)
			}
		}
	}
	if err := ac.dropOffline(ctx, staying); err != nil {
		return err
	}
	ac.b.update(ac.m.brokerIDs()) // at least the remaining ones
	ac.flush()
	return ac.resumeDeletions(ctx)
}

// answered handles a broker's response.
func (ac *activeController) answered(ctx context.Context, from zkcoord.BrokerInfo, req kmsg.Request, resp kmsg.Response) error {
	b := ac.m.brokers[from.ID]
	if b == nil || b.info.Epoch != from.Epoch {
		return nil
	}
	switch resp := resp.(type) {
	case *kmsg.LeaderAndISRResponse:
		ac.logRefusal(from.ID, "LeaderAndIsr", resp.ErrorCode)
		return ac.leadersAnswered(ctx, b, resp)
	case *kmsg.StopReplicaResponse:
		ac.logRefusal(from.ID, "StopReplica", resp.ErrorCode)
		return ac.stopAnswered(ctx, b, req.(*kmsg.StopReplicaRequest), resp)
	case *kmsg.UpdateMetadataResponse:
		ac.logRefusal(from.ID, "UpdateMetadata", resp.ErrorCode)
	}
	return nil
}

func (ac *activeController) logRefusal(broker int32, api string, code int16) {
	if err := kerr.ErrorForCode(code); err != nil {
		ac.log.WithError(err).WithField(logx.Broker, broker).WithField(logx.API, api).Warn("broker refused a request of its controller")
	}
}

// leadersAnswered records which replicas are in a failed log directory, or back from it.
func (ac *activeController) leadersAnswered(ctx context.Context, b *broker, resp *kmsg.LeaderAndISRResponse) error {
	if resp.ErrorCode != 0 {
		return nil
	}
	var failed, back []topicPartition
	note := func(name string, p kmsg.LeaderAndISRResponseTopicPartition) {
		tp := topicPartition{Topic: name, Partition: p.Partition}
		switch {
		case p.ErrorCode == kerr.KafkaStorageError.Code && b.has(tp):
			failed = append(failed, tp)
			b.offline[tp] = struct{}{}
		case p.ErrorCode == 0 && !b.has(tp):
			back = append(back, tp)
			delete(b.offline, tp)
		}
	}
	for _, p := range resp.Partitions {
		note(p.Topic, p)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			note(ac.m.names[t.TopicID], p)
		}
	}
	leaderless := false
	for _, tp := range back {
		if p := ac.m.partition(tp); p != nil && p.state != nil && !ac.m.deleting(tp) {
			ac.b.lead(ac.m, []int32{b.info.ID}, tp, false)
			leaderless = leaderless || ac.m.leaderless(tp, p)
		}
	}
	if leaderless && len(failed) == 0 { // otherwise replicasOffline elects leaders
		if err := ac.bringOnline(ctx); err != nil {
			return err
		}
	}
	if len(failed) == 0 {
		ac.flush()
		return nil
	}
	return ac.replicasOffline(ctx, map[int32][]topicPartition{b.info.ID: failed})
}

// logDirEvents asks brokers that have lost a log directory which replicas were in it, which their responses to
// LeaderAndIsr say.
func (ac *activeController) logDirEvents(ctx context.Context) error {
	brokers, numbers, err := ac.store.WatchLogDirEvents(ctx)
	if err != nil {
		return err
	}
	for _, id := range brokers {
		if ac.m.brokers[id] == nil {
			continue
		}
		for _, tp := range ac.m.hosted(id) {
			if ac.m.partition(tp).state != nil && !ac.m.deleting(tp) {
				ac.b.lead(ac.m, []int32{id}, tp, false)
			}
		}
	}
	ac.flush()
	return ac.store.RemoveLogDirEvents(ctx, ac.term, numbers)
}

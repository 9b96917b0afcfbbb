package controller

import (
	"context"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"barnabas/internal/logx"
	"barnabas/zkcoord"
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
	for _, id := range sortedKeys(known) {
		if _, ok := present[id]; !ok {
			d.left = append(d.left, id)
		}
	}
	return d
}

// brokersChanged finds out which brokers came, went or changed.
func (o *office) brokersChanged(ctx context.Context) error {
	infos, err := o.store.WatchBrokers(ctx)
	if err != nil {
		return err
	}
	d := compareMembers(o.m.brokers, infos)
	if len(d.joined)+len(d.bounced)+len(d.changed)+len(d.left) == 0 {
		return nil
	}
	for _, info := range d.changed {
		o.m.brokers[info.ID].info = info
		o.links[info.ID].Move(info)
		o.log.WithField(logx.Broker, info.ID).Info("broker has changed its registration")
	}
	if len(d.changed) > 0 {
		o.b.update(o.m.brokerIDs())
		o.flush()
	}
	if err := o.brokersJoined(ctx, d.joined); err != nil {
		return err
	}
	var gone []int32
	for _, info := range d.bounced {
		gone = append(gone, info.ID)
	}
	if err := o.brokersLeft(ctx, gone); err != nil {
		return err
	}
	if err := o.brokersJoined(ctx, d.bounced); err != nil {
		return err
	}
	return o.brokersLeft(ctx, d.left)
}

// brokersJoined handles new brokers: they learn the cluster's metadata and their replicas, and what waited for them
// continues.
func (o *office) brokersJoined(ctx context.Context, infos []zkcoord.BrokerInfo) error {
	if len(infos) == 0 {
		return nil
	}
	var ids []int32
	for _, info := range infos {
		o.addBroker(info)
		ids = append(ids, info.ID)
		o.log.WithField(logx.Broker, info.ID).Info("broker has joined")
	}
	o.b.update(without(o.m.brokerIDs(), ids))
	o.flush()
	o.b.update(ids, o.m.partitions(func(_ topicPartition, p *partition) bool { return p.state != nil })...)
	o.flush() // this much goes only to the new ones
	o.greetReplicas(ids)
	o.flush()
	if err := o.bringOnline(ctx); err != nil {
		return err
	}
	o.flush()
	if err := o.resumeReassignmentsOn(ctx, ids); err != nil {
		return err
	}
	o.releaseDeletions(func(t *topic) bool { return t.hasReplicaOn(ids) })
	return o.resumeDeletions(ctx)
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
func (o *office) brokersLeft(ctx context.Context, ids []int32) error {
	if len(ids) == 0 {
		return nil
	}
	offline := make(map[int32][]topicPartition)
	for _, id := range ids {
		offline[id] = o.m.hosted(id)
		o.removeBroker(id)
		o.log.WithField(logx.Broker, id).Info("broker has left")
	}
	return o.replicasOffline(ctx, offline)
}

// replicasOffline handles replicas that have gone offline: it elects other leaders first, then shrinks ISRs
// (KafkaController.onReplicasBecomeOffline, 3.9).
func (o *office) replicasOffline(ctx context.Context, offline map[int32][]topicPartition) error {
	if err := o.bringOnline(ctx); err != nil {
		return err
	}
	o.flush()
	staying := make(map[int32][]topicPartition, len(offline))
	for id, partitions := range offline {
		for _, tp := range partitions {
			if o.m.deleting(tp) {
				o.failDeletion(tp, id)
			} else {
				staying[id] = append(staying[id], tp)
			}
		}
	}
	if err := o.dropOffline(ctx, staying); err != nil {
		return err
	}
	o.b.update(o.m.brokerIDs()) // at least the remaining ones
	o.flush()
	return o.resumeDeletions(ctx)
}

// answered handles a broker's response.
func (o *office) answered(ctx context.Context, from zkcoord.BrokerInfo, req kmsg.Request, resp kmsg.Response) error {
	b := o.m.brokers[from.ID]
	if b == nil || b.info.Epoch != from.Epoch {
		return nil
	}
	switch resp := resp.(type) {
	case *kmsg.LeaderAndISRResponse:
		o.logRefusal(from.ID, "LeaderAndIsr", resp.ErrorCode)
		return o.leadersAnswered(ctx, b, resp)
	case *kmsg.StopReplicaResponse:
		o.logRefusal(from.ID, "StopReplica", resp.ErrorCode)
		return o.stopAnswered(ctx, b, req.(*kmsg.StopReplicaRequest), resp)
	case *kmsg.UpdateMetadataResponse:
		o.logRefusal(from.ID, "UpdateMetadata", resp.ErrorCode)
	}
	return nil
}

func (o *office) logRefusal(broker int32, api string, code int16) {
	if err := kerr.ErrorForCode(code); err != nil {
		o.log.WithError(err).WithField(logx.Broker, broker).WithField(logx.API, api).Warn("broker refused a request of its controller")
	}
}

// leadersAnswered records which replicas are in a failed log directory, or back from it.
func (o *office) leadersAnswered(ctx context.Context, b *broker, resp *kmsg.LeaderAndISRResponse) error {
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
			note(o.m.names[t.TopicID], p)
		}
	}
	leaderless := false
	for _, tp := range back {
		if p := o.m.partition(tp); p != nil && p.state != nil && !o.m.deleting(tp) {
			o.b.lead(o.m, []int32{b.info.ID}, tp, false)
			leaderless = leaderless || o.m.leaderless(tp, p)
		}
	}
	if leaderless && len(failed) == 0 { // otherwise replicasOffline elects leaders
		if err := o.bringOnline(ctx); err != nil {
			return err
		}
	}
	if len(failed) == 0 {
		o.flush()
		return nil
	}
	return o.replicasOffline(ctx, map[int32][]topicPartition{b.info.ID: failed})
}

// logDirEvents asks brokers that have lost a log directory which replicas were in it, which their responses to
// LeaderAndIsr say.
func (o *office) logDirEvents(ctx context.Context) error {
	brokers, numbers, err := o.store.WatchLogDirEvents(ctx)
	if err != nil {
		return err
	}
	for _, id := range brokers {
		if o.m.brokers[id] == nil {
			continue
		}
		for _, tp := range o.m.hosted(id) {
			if o.m.partition(tp).state != nil && !o.m.deleting(tp) {
				o.b.lead(o.m, []int32{id}, tp, false)
			}
		}
	}
	o.flush()
	return o.store.RemoveLogDirEvents(ctx, o.term, numbers)
}

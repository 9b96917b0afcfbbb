package controller

import (
	"context"
	"errors"
	"maps"
	"slices"

	"barnabas/internal/logx"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deletion is the progress of a topic's deletion.
type deletion struct {
	begun    bool
	held     bool // until a broker comes back
	replicas map[replica]replicaDeletion
}

type replica struct {
	partition int32
	broker    int32
}

// replicaDeletion is the progress of a replica's deletion; the zero value means that it has not been requested.
type replicaDeletion int

const (
	deletionAsked  replicaDeletion = iota + 1 // StopReplica is in progress
	deletionDone                              // confirmed by the broker
	deletionFailed                            // its broker is down or could not do it
)

func (d *deletion) any(s replicaDeletion) bool {
	for _, is := range d.replicas {
		if is == s {
			return true
		}
	}
	return false
}

// deletionStep is the next step of a topic's deletion.
type deletionStep int

const (
	waitDeletion deletionStep = iota
	askReplicas               // tell the brokers to delete (again)
	finishDeletion
)

// nextStep decides what to do about a topic that is to be deleted.
func (t *topic) nextStep() deletionStep {
	d := t.deletion
	switch {
	case d.begun && t.allDeleted():
		return finishDeletion
	case d.held || d.any(deletionAsked):
		return waitDeletion
	case !d.begun || !t.allAsked():
		return askReplicas
	}
	return waitDeletion
}

func (t *topic) allDeleted() bool {
	for n, p := range t.partitions {
		for _, id := range p.replicas {
			if t.deletion.replicas[replica{n, id}] != deletionDone {
				return false
			}
		}
	}
	return true
}

// allAsked reports whether all replicas have been requested to be deleted.
func (t *topic) allAsked() bool {
	for n, p := range t.partitions {
		for _, id := range p.replicas {
			if s := t.deletion.replicas[replica{n, id}]; s != deletionAsked && s != deletionDone {
				return false
			}
		}
	}
	return true
}

// readDeletions reads which topics are to be deleted, and watches for more. With delete.topic.enable=false the requests
// are dropped.
func (ac *activeController) readDeletions(ctx context.Context) error {
	names, err := ac.store.WatchTopicDeletions(ctx)
	if err != nil {
		return err
	}
	slices.Sort(names)
	var fresh []*topic
	for _, name := range names {
		t := ac.m.topics[name]
		if t == nil || !ac.c.cfg.DeleteTopicEnable {
			if err := ac.store.WithdrawTopicDeletion(ctx, ac.term, name); err != nil {
				return err
			}
			continue
		}
		if t.deletion == nil {
			fresh = append(fresh, t)
		}
	}
	return ac.markDeleted(ctx, fresh)
}

// markDeleted marks topics as to be deleted, and ends their reassignments: Apache Kafka waits for these, forever if a
// target cannot get in sync.
func (ac *activeController) markDeleted(ctx context.Context, topics []*topic) error {
	if len(topics) == 0 {
		return nil
	}
	for _, t := range topics {
		ac.log.WithField(logx.Topic, t.name).Info("topic is to be deleted")
		t.deletion = &deletion{replicas: make(map[replica]replicaDeletion)}
		for n := range t.partitions {
			delete(ac.m.reassigning, topicPartition{Topic: t.name, Partition: n})
		}
	}
	return ac.trimAsked(ctx, func(tp topicPartition, _ []int32) bool { return ac.m.deleting(tp) })
}

func (ac *activeController) deletionsAsked(ctx context.Context) error {
	if err := ac.readDeletions(ctx); err != nil {
		return err
	}
	return ac.resumeDeletions(ctx)
}

// releaseDeletions lets held deletions continue.
func (ac *activeController) releaseDeletions(which func(*topic) bool) {
	for _, t := range ac.m.topics {
		if t.deletion != nil && which(t) {
			t.deletion.held = false
		}
	}
}

// resumeDeletions takes the next steps for topics that are to be deleted.
func (ac *activeController) resumeDeletions(ctx context.Context) error {
	defer ac.countDeletions()
	var ask []*topic
	for _, t := range ac.deletedTopics() {
		switch t.nextStep() {
		case askReplicas:
			ask = append(ask, t)
		case finishDeletion:
			if err := ac.finishDeletion(ctx, t); err != nil {
				return err
			}
		}
	}
	if len(ask) == 0 {
		return nil
	}
	return ac.askToDelete(ctx, ask)
}

func (ac *activeController) countDeletions() {
	var n DeletionCounts
	for _, t := range ac.deletedTopics() {
		n.Topics++
		if t.deletion.held {
			n.HeldTopics++
		}
		for number, p := range t.partitions {
			for _, id := range p.replicas {
				switch t.deletion.replicas[replica{number, id}] {
				case deletionDone:
					continue
				case deletionFailed:
					n.FailedReplicas++
				}
				n.Replicas++
			}
		}
	}
	ac.c.deletions.Store(&n)
}

func (ac *activeController) deletedTopics() []*topic {
	var topics []*topic
	for _, t := range ac.m.topics {
		if t.deletion != nil {
			topics = append(topics, t)
		}
	}
	slices.SortFunc(topics, byTopic)
	return topics
}

// askToDelete announces the deletion of the topics, takes their replicas out of service and tells the brokers to delete
// them. Replicas on brokers that are down hold the deletion.
func (ac *activeController) askToDelete(ctx context.Context, topics []*topic) error {
	alive := make(map[int32][]topicPartition)
	for _, t := range topics {
		t.deletion.begun = true
		for n, p := range t.partitions {
			tp := topicPartition{Topic: t.name, Partition: n}
			ac.b.update(ac.m.brokerIDs(), tp)
			for _, id := range ac.replicasToDelete(t, tp, p) {
				alive[id] = append(alive[id], tp)
			}
		}
	}
	ac.flush()
	for _, id := range slices.Sorted(maps.Keys(alive)) {
		slices.SortFunc(alive[id], topicPartition.Compare)
		for _, tp := range alive[id] {
			ac.b.stopReplica(id, tp, false)
		}
		withState := slices.DeleteFunc(slices.Clone(alive[id]), func(tp topicPartition) bool { return ac.m.partition(tp).state == nil })
		if _, err := ac.elect(ctx, withState, dropReplica(id)); err != nil {
			return err
		}
	}
	ac.flush()
	for id, partitions := range alive {
		for _, tp := range partitions {
			ac.m.topics[tp.Topic].deletion.replicas[replica{tp.Partition, id}] = deletionAsked
			ac.b.stopReplica(id, tp, true)
		}
	}
	ac.flush()
	return nil
}

// replicasToDelete lists the brokers that can be told to delete their replica of a partition. If there is another one that
// has not done it yet, it holds the deletion.
func (ac *activeController) replicasToDelete(t *topic, tp topicPartition, p *partition) []int32 {
	var alive []int32
	for _, id := range p.replicas {
		key := replica{tp.Partition, id}
		switch {
		case t.deletion.replicas[key] == deletionDone:
		case !ac.m.serving(id, tp):
			t.deletion.replicas[key] = deletionFailed
			t.deletion.held = true
		default:
			alive = append(alive, id)
		}
	}
	return alive
}

// stopAnswered records which replicas a broker has deleted.
func (ac *activeController) stopAnswered(ctx context.Context, b *broker, req *kmsg.StopReplicaRequest, resp *kmsg.StopReplicaResponse) error {
	asked := make(map[topicPartition]struct{})
	for _, t := range req.Topics {
		for _, p := range t.PartitionStates { // filled in for any version
			if p.Delete && p.LeaderEpoch == epochDuringDelete { // and not in order to move the partition away, before
				asked[topicPartition{Topic: t.Topic, Partition: p.Partition}] = struct{}{}
			}
		}
	}
	answered := make(map[topicPartition]int16)
	for _, p := range resp.Partitions {
		answered[topicPartition{Topic: p.Topic, Partition: p.Partition}] = p.ErrorCode
	}
	concerned := false
	for tp := range asked {
		t := ac.m.topics[tp.Topic]
		key := replica{tp.Partition, b.info.ID}
		if t == nil || t.deletion == nil || t.deletion.replicas[key] != deletionAsked {
			continue
		}
		concerned = true
		code, ok := answered[tp]
		if resp.ErrorCode != 0 || !ok || code != 0 {
			ac.log.WithError(errors.Join(kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(code))).
				WithField(logx.Broker, b.info.ID).WithField(logx.Topic, tp.Topic).Warn("a broker could not delete a replica")
			ac.failDeletion(tp, b.info.ID)
			continue
		}
		t.deletion.replicas[key] = deletionDone
	}
	if !concerned {
		return nil
	}
	return ac.resumeDeletions(ctx)
}

// failDeletion records that a replica cannot be deleted now.
func (ac *activeController) failDeletion(tp topicPartition, broker int32) {
	d := ac.m.topics[tp.Topic].deletion
	if d.replicas[replica{tp.Partition, broker}] == deletionAsked {
		d.replicas[replica{tp.Partition, broker}] = deletionFailed
		d.held = true
	}
}

func (ac *activeController) finishDeletion(ctx context.Context, t *topic) error {
	if err := ac.store.DeleteTopic(ctx, ac.term, t.name); err != nil {
		return err
	}
	ac.m.removeTopic(t.name)
	ac.log.WithField(logx.Topic, t.name).Info("topic deleted")
	return nil
}

package controller

import (
	"context"
	"errors"
	"slices"

	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// topicsChanged brings new topics online and forgets deleted ones.
func (o *office) topicsChanged(ctx context.Context) error {
	names, err := o.store.WatchTopics(ctx)
	if err != nil {
		return err
	}
	present := make(map[string]struct{}, len(names))
	var fresh []string
	for _, name := range names {
		present[name] = struct{}{}
		if o.m.topics[name] == nil {
			fresh = append(fresh, name)
		}
	}
	for name := range o.m.topics {
		if _, ok := present[name]; !ok {
			o.m.removeTopic(name)
		}
	}
	slices.Sort(fresh)
	added, err := o.enterTopics(ctx, fresh)
	if err != nil {
		return err
	}
	return o.partitionsAdded(ctx, added)
}

// topicChanged brings added partitions online.
func (o *office) topicChanged(ctx context.Context, name string) error {
	t := o.m.topics[name]
	if t == nil {
		return nil
	}
	if t.deletion != nil {
		return o.refusePartitions(ctx, t)
	}
	added, err := o.enterTopics(ctx, []string{name})
	if err != nil {
		return err
	}
	return o.partitionsAdded(ctx, added)
}

// refusePartitions reverts partitions that were added to a topic that is to be deleted.
func (o *office) refusePartitions(ctx context.Context, t *topic) error {
	infos, err := o.store.WatchTopicInfos(ctx, []string{t.name})
	if err != nil || len(infos) == 0 || len(infos[0].Partitions) <= len(t.partitions) {
		return err
	}
	o.log.WithField(logx.Topic, t.name).Warn("partitions added to a topic that is being deleted are dropped")
	t.version = infos[0].Version
	version, err := o.store.SetTopic(ctx, o.term, t.topicInfo())
	switch {
	case errors.Is(err, zkcoord.ErrConflict): // more were added: the watch will report them
		return nil
	case err == nil:
		t.version = version
	}
	return ignoreNoTopic(err)
}

func (o *office) partitionsAdded(ctx context.Context, added []topicPartition) error {
	if len(added) == 0 {
		return nil
	}
	o.log.WithField(logx.Count, len(added)).Info("new partitions")
	if err := o.create(ctx, added); err != nil {
		return err
	}
	o.flush()
	return nil
}

// isrsNotified reads the states that leaders have written themselves.
func (o *office) isrsNotified(ctx context.Context) error {
	partitions, numbers, err := o.store.WatchISRNotifications(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(partitions, topicPartition.Compare)
	partitions = slices.DeleteFunc(slices.Compact(partitions), func(tp topicPartition) bool { return o.m.partition(tp) == nil })
	if err := o.refresh(ctx, partitions); err != nil {
		return err
	}
	o.b.update(o.m.brokerIDs(), partitions...)
	o.flush()
	if err := o.store.RemoveISRNotifications(ctx, o.term, numbers); err != nil {
		return err
	}
	return o.completeReassignments(ctx, partitions)
}

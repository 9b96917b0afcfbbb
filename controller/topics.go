package controller

import (
	"context"
	"errors"
	"slices"

	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// topicsChanged brings new topics online and forgets deleted ones.
func (ac *activeController) topicsChanged(ctx context.Context) error {
	names, err := ac.store.WatchTopics(ctx)
	if err != nil {
		return err
	}
	present := make(map[string]struct{}, len(names))
	var fresh []string
	for _, name := range names {
		present[name] = struct{}{}
		if ac.m.topics[name] == nil {
			fresh = append(fresh, name)
		}
	}
	for name := range ac.m.topics {
		if _, ok := present[name]; !ok {
			ac.m.removeTopic(name)
		}
	}
	slices.Sort(fresh)
	added, err := ac.enterTopics(ctx, fresh)
	if err != nil {
		return err
	}
	return ac.partitionsAdded(ctx, added)
}

// topicChanged brings added partitions online.
func (ac *activeController) topicChanged(ctx context.Context, name string) error {
	t := ac.m.topics[name]
	if t == nil {
		return nil
	}
	if t.deletion != nil {
		return ac.refusePartitions(ctx, t)
	}
	added, err := ac.enterTopics(ctx, []string{name})
	if err != nil {
		return err
	}
	return ac.partitionsAdded(ctx, added)
}

// refusePartitions reverts partitions that were added to a topic that is to be deleted.
func (ac *activeController) refusePartitions(ctx context.Context, t *topic) error {
	infos, err := ac.store.WatchTopicInfos(ctx, []string{t.name})
	if err != nil || len(infos) == 0 || len(infos[0].Partitions) <= len(t.partitions) {
		return err
	}
	ac.log.WithField(logx.Topic, t.name).Warn("partitions added to a topic that is being deleted are dropped")
	t.version = infos[0].Version
	version, err := ac.store.SetTopic(ctx, ac.term, t.topicInfo())
	switch {
	case errors.Is(err, zkcoord.ErrConflict), errors.Is(err, zkcoord.ErrNoTopic): // more were added, or it is gone: the watch will report it
		return nil
	case err == nil:
		t.version = version
	}
	return err
}

func (ac *activeController) partitionsAdded(ctx context.Context, added []topicPartition) error {
	if len(added) == 0 {
		return nil
	}
	ac.log.WithField(logx.Count, len(added)).Info("new partitions")
	if err := ac.create(ctx, added); err != nil {
		return err
	}
	ac.flush()
	return nil
}

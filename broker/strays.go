package broker

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/replica"
	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// strays finds replicas that this broker should not have any more: partitions that were moved to other brokers, and
// topics that were deleted, while it was down or while the controller that should have told it lost its controllership.
// Apache Kafka keeps them. This broker looks them up in ZooKeeper when it first hears from a new controller, or from
// any controller that knows of this broker's new registration: later changes are announced to it.
type strays struct {
	s  *Server
	mu struct {
		sync.Mutex // leaf
		known      knownEpochs
		due        bool
	}
}

// knownEpochs says which controller knows which registration of this broker.
type knownEpochs struct {
	controllerEpoch int32
	brokerEpoch     int64
}

// strayDelay leaves the first moments after a failover to work that clients wait for.
const strayDelay = time.Second

// logsLoaded examines the logs that were not loaded at the last search. Before a controller has been heard from, there
// was none.
func (t *strays) logsLoaded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.known != (knownEpochs{}) && !t.mu.due {
		t.mu.due = true
		t.s.background(t.look)
	}
}

func (t *strays) controllerSpoke(epoch int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := knownEpochs{epoch, t.s.epoch.Load()}
	if now == t.mu.known {
		return
	}
	t.mu.known = now
	if !t.mu.due {
		t.mu.due = true
		t.s.background(t.look)
	}
}

func (t *strays) look() {
	if await.Pause(t.s.ctx, strayDelay) != nil {
		return
	}
	t.mu.Lock()
	t.mu.due = false // a controller that comes later starts another search
	t.mu.Unlock()
	if err := t.drop(t.s.ctx); err != nil && t.s.ctx.Err() == nil {
		t.s.log.WithError(err).Warn("cannot look for replicas of partitions that were moved away")
	}
}

// localReplica is a replica in the log directories.
type localReplica struct {
	tp    logstore.TopicPartition
	topic [16]byte // zero: not known
	epoch int32    // leader epoch of the hosted replica, or replica.NotHosted
}

func (t *strays) drop(ctx context.Context) error {
	local, snapshot := t.local(), t.s.metadata.Current() // read before ZooKeeper, so that what is newer is not taken for a stray
	ours := make(map[string]bool)
	for _, r := range local {
		ours[r.tp.Topic] = true
	}
	names, infos, err := t.s.zk.NewestTopics(ctx, func(name string) bool { return ours[name] })
	if err != nil {
		return err
	}
	again := make(map[string]bool) // topics whose settings may be those of a former topic with the same name
	for _, topic := range unlistedTopics(snapshot, names) {
		t.forget(topic)
		again[topic.Name] = true
	}
	found := strayReplicas(t.s.id, local, names, infos)
	if len(found) > 0 && len(names) == 0 {
		t.s.log.WithField(logx.Count, len(found)).Warn("there are no topics in ZooKeeper: keeping the replicas in log.dirs")
		return nil
	}
	if len(found) > 0 {
		if found, err = t.dropAll(ctx, found, infos); err != nil {
			return err
		}
	}
	for _, r := range found {
		again[r.tp.Topic] = true
	}
	var errs []error
	for topic := range again {
		errs = append(errs, t.s.topicChanged(topic))
	}
	return errors.Join(errs...)
}

// forget drops everything about a topic that was deleted without this broker being told.
func (t *strays) forget(topic *metadata.Topic) {
	if !t.s.metadata.Forget(topic) {
		return // a new topic has its name
	}
	partitions := make([]logstore.TopicPartition, len(topic.Partitions))
	for i, p := range topic.Partitions {
		partitions[i] = logstore.TopicPartition{Topic: topic.Name, Partition: p.Number}
	}
	t.s.topicsDeleted(partitions)
	t.s.log.WithField(logx.Topic, topic.Name).Info("a topic was deleted without this broker being told")
}

// dropAll deletes replicas that were found to be strays according to these topics, and returns those that still are: one
// may have been assigned to this broker again by the time the leader epochs are read.
func (t *strays) dropAll(ctx context.Context, found []localReplica, infos []zkcoord.TopicInfo) ([]localReplica, error) {
	until, err := t.lastEpochs(ctx, found, infos)
	if err != nil {
		return nil, err
	}
	ours := make(map[string]bool)
	for _, r := range found {
		ours[r.tp.Topic] = true
	}
	names, infos, err := t.s.zk.NewestTopics(ctx, func(name string) bool { return ours[name] })
	if err != nil {
		return nil, err
	}
	found = strayReplicas(t.s.id, found, names, infos)
	refused := false
	for _, r := range found {
		if t.dropReplica(r, until[r.tp]) && assigned(t.s.id, r.tp, infos) {
			refused = true
		}
	}
	if refused { // the replica of the new topic, as long as that of the former one was in its place
		t.s.reportLostLogs()
	}
	return found, nil
}

// lastEpochs returns the leader epochs up to which the controller may still announce replicas that it has meanwhile
// taken off their partitions. A topic with the id of a deleted one never returns.
func (t *strays) lastEpochs(ctx context.Context, found []localReplica, topics []zkcoord.TopicInfo) (map[logstore.TopicPartition]int32, error) {
	ids := make(map[string]zkcoord.ID, len(topics))
	for _, topic := range topics {
		ids[topic.Name] = topic.ID
	}
	until := make(map[logstore.TopicPartition]int32, len(found))
	var moved []zkcoord.TopicPartition
	for _, r := range found {
		id, exists := ids[r.tp.Topic]
		switch {
		case exists && [16]byte(id) == r.topic:
			until[r.tp] = replica.NotHosted // unless it has a state
			moved = append(moved, zkcoord.TopicPartition(r.tp))
		case r.topic != [16]byte{}:
			until[r.tp] = math.MaxInt32
		default:
			until[r.tp] = replica.NotHosted // another topic of that name could not be told from it
		}
	}
	states, err := t.s.zk.PartitionStates(ctx, moved)
	for tp, state := range states {
		until[logstore.TopicPartition(tp)] = state.LeaderEpoch
	}
	return until, err
}

// assigned reports whether a broker has a replica of a partition.
func assigned(broker int32, tp logstore.TopicPartition, topics []zkcoord.TopicInfo) bool {
	return slices.ContainsFunc(topics, func(t zkcoord.TopicInfo) bool {
		return t.Name == tp.Topic && slices.Contains(t.Partitions[tp.Partition], broker)
	})
}

func (t *strays) dropReplica(r localReplica, until int32) bool {
	dropped, err := t.s.replicas.DropStray(r.tp, r.epoch, r.topic, until)
	log := t.s.log.WithFields(logrus.Fields{logx.Topic: r.tp.Topic, logx.Partition: r.tp.Partition})
	switch {
	case err != nil:
		log.WithError(err).Error("cannot delete the replica of a partition that was moved away")
	case dropped:
		log.Warn("deleted a replica: its partition was moved away, or its topic was deleted, without this broker being told")
	}
	return dropped && err == nil
}

func (t *strays) local() []localReplica {
	logs := t.s.logs.Logs()
	local := make([]localReplica, len(logs))
	for i, l := range logs {
		tp := l.TopicPartition()
		local[i] = localReplica{tp, l.TopicID(), t.s.replicas.HostedEpoch(tp)}
	}
	return local
}

// unlistedTopics returns the topics of a snapshot that are not among the names.
func unlistedTopics(snapshot *metadata.Snapshot, names []string) []*metadata.Topic {
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
	}
	var gone []*metadata.Topic
	for name, topic := range snapshot.Topics {
		if !present[name] {
			gone = append(gone, topic)
		}
	}
	return gone
}

// strayReplicas returns the replicas of a broker that belong to none of the named topics, to a former topic with the
// same name, or to a partition that is elsewhere. Replicas of a topic that could not be read are not strays.
func strayReplicas(broker int32, local []localReplica, names []string, topics []zkcoord.TopicInfo) []localReplica {
	byName := make(map[string]zkcoord.TopicInfo, len(topics))
	for _, t := range topics {
		byName[t.Name] = t
	}
	none := [16]byte{}
	var found []localReplica
	for _, r := range local {
		t, known := byName[r.tp.Topic]
		if !known && slices.Contains(names, r.tp.Topic) {
			continue
		}
		another := r.topic != none && t.ID != (zkcoord.ID{}) && [16]byte(t.ID) != r.topic
		if another || !slices.Contains(t.Partitions[r.tp.Partition], broker) {
			found = append(found, r)
		}
	}
	return found
}

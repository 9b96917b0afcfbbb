package broker

import (
	"context"
	"slices"
	"sync"

	"barnabas/broker/metadata"
	"barnabas/broker/replica"
	"barnabas/broker/status"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits on what is read for the groups of the status page.
const (
	groupsRead  = 500   // groups
	offsetsRead = 50000 // committed offsets of all groups
	endsAsked   = 5000  // partitions whose end offset is requested from other brokers
)

// groupStatus adds the groups that this broker coordinates, with their lag.
func (m *collector) groupStatus(ctx context.Context, snapshot *metadata.Snapshot, r *status.Reading) {
	list, _ := m.s.groups.List(nil, nil) // groups of partitions that are being loaded are left out
	var committed [][]groupOffset
	offsets := 0
	for i, g := range list {
		if i == groupsRead || offsets >= offsetsRead {
			r.GroupsUnread = len(list) - i
			break
		}
		of := m.committed(snapshot, g.Group)
		offsets += len(of)
		committed = append(committed, of)
		r.Groups = append(r.Groups, status.GroupLag{Name: g.Group, State: g.GroupState})
	}
	ends := m.ends(ctx, snapshot, committed)
	for i := range r.Groups {
		r.Groups[i].Partitions = len(committed[i])
		for _, o := range committed[i] {
			end, ok := ends[o.tp]
			r.Groups[i].Unknown += one(!ok)
			if ok {
				r.Groups[i].Lag += max(0, end-o.offset)
			}
		}
	}
}

// groupOffset is the offset that a group has committed for a partition.
type groupOffset struct {
	tp     logstore.TopicPartition
	offset int64
}

// committed returns a group's offsets for partitions that exist.
func (m *collector) committed(snapshot *metadata.Snapshot, group string) []groupOffset {
	topics, err := m.s.groups.FetchOffsets(group, nil, false)
	if err != nil { // it has just moved to another coordinator
		return nil
	}
	var offsets []groupOffset
	for _, t := range topics {
		for _, p := range t.Partitions {
			if _, ok := snapshot.Partition(t.Topic, p.Partition); ok && p.Offset >= 0 && p.ErrorCode == 0 {
				offsets = append(offsets, groupOffset{logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Offset})
			}
		}
	}
	return offsets
}

// ends returns the end offsets of partitions. For those that are not hosted here, their leaders are asked.
func (m *collector) ends(ctx context.Context, snapshot *metadata.Snapshot, committed [][]groupOffset) map[logstore.TopicPartition]int64 {
	ends := make(map[logstore.TopicPartition]int64)
	elsewhere := make(map[int32]map[logstore.TopicPartition]bool)
	asked := 0
	for _, offsets := range committed {
		for _, o := range offsets {
			if _, ok := ends[o.tp]; ok {
				continue
			}
			if end, ok := m.hostedEnd(o.tp); ok {
				ends[o.tp] = end
				continue
			}
			p, _ := snapshot.Partition(o.tp.Topic, o.tp.Partition)
			if p.Leader < 0 || p.Leader == m.s.id || asked == endsAsked || elsewhere[p.Leader][o.tp] {
				continue
			}
			if elsewhere[p.Leader] == nil {
				elsewhere[p.Leader] = make(map[logstore.TopicPartition]bool)
			}
			elsewhere[p.Leader][o.tp] = true
			asked++
		}
	}
	var mu sync.Mutex // guards ends
	var wg sync.WaitGroup
	for leader, partitions := range elsewhere {
		wg.Go(func() {
			m.askEnds(ctx, leader, partitions, func(tp logstore.TopicPartition, end int64) {
				mu.Lock()
				defer mu.Unlock()
				ends[tp] = end
			})
		})
	}
	wg.Wait()
	return ends
}

// askEnds asks a leader for end offsets. What it does not report stays unknown.
func (m *collector) askEnds(ctx context.Context, leader int32, partitions map[logstore.TopicPartition]bool, found func(logstore.TopicPartition, int64)) {
	const latest = -1
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 4, -1 // known to brokers since 2.1
	topics := make(map[string]int)
	for tp := range partitions {
		at, ok := topics[tp.Topic]
		if !ok {
			at = len(req.Topics)
			topics[tp.Topic] = at
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = tp.Partition, latest
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, p)
	}
	answer, err := m.s.peers.SendTo(ctx, leader, req)
	if err != nil {
		return
	}
	for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range t.Partitions {
			if kerr.ErrorForCode(p.ErrorCode) == nil {
				found(logstore.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Offset)
			}
		}
	}
}

// hostedEnd returns the high watermark of a partition that this broker hosts.
func (m *collector) hostedEnd(tp logstore.TopicPartition) (int64, bool) {
	p, ok := m.s.replicas.Partition(tp)
	if !ok {
		return 0, false
	}
	state := p.State()
	if state.Role == replica.Offline || !slices.Contains(state.ISR, m.s.id) { // a replica that is catching up knows only its own end
		return 0, false
	}
	return p.Log().HighWatermark(), true
}

package broker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/metrics"
	"barnabas/broker/status"
	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	statusTimeout = 3 * time.Second // for asking other brokers
	worstShown    = 50              // partitions with problems
)

// serveStatus serves the status page at the root of the metrics listener.
func (m *collector) serveStatus(server *metrics.Server) {
	server.Handle("GET /{$}", status.Page())
	server.Handle("GET /status.json", m.board)
	ctx, cancel := context.WithCancel(m.s.ctx)
	var running sync.WaitGroup
	running.Go(func() { m.board.Run(ctx) })
	m.s.onStop(func() { cancel(); running.Wait() })
}

// reading collects everything that the status page shows. It completes even if its requester has gone: others get the
// same result.
func (m *collector) reading(ctx context.Context) status.Reading {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
	defer cancel()
	stop := context.AfterFunc(m.s.ctx, cancel)
	defer stop()
	r := status.Reading{Broker: *m.identity.Load()}
	r.Broker.State = stateName(m.state.Load())
	if r.Broker.State == "starting" {
		r.Broker.Doing = *m.s.doing.Load()
	}
	r.Loading = loadingStatus(m.loading.Dirs())
	if !m.complete.Load() {
		return r
	}
	snapshot := m.s.metadata.Current()
	r.Cluster = clusterStatus(snapshot, m.s.static.ControlPlaneListener)
	r.Listeners = m.listenerStatus()
	dirs := m.s.logs.Dirs()
	r.Dirs, r.DirMoves = dirStatus(dirs), m.dirMoves(dirs)
	m.topicStatus(snapshot, &r)
	m.groupStatus(ctx, snapshot, &r)
	m.reassignmentStatus(ctx, snapshot, &r)
	return r
}

func stateName(state int32) string {
	switch state {
	case stateRunning:
		return "running"
	case stateShuttingDown:
		return "stopping"
	}
	return "starting"
}

// clusterStatus summarizes what the controller has announced.
func clusterStatus(snapshot *metadata.Snapshot, controlPlane string) *status.Cluster {
	c := &status.Cluster{Controller: snapshot.Controller, Topics: len(snapshot.Topics)}
	members := make(map[int32]*status.Member)
	member := func(id int32) *status.Member {
		if members[id] == nil {
			members[id] = &status.Member{ID: id}
		}
		return members[id]
	}
	for id, b := range snapshot.Brokers {
		m := member(id)
		m.Alive, m.Address = true, addressOf(b, controlPlane)
		if b.Rack != nil {
			m.Rack = *b.Rack
		}
	}
	for name, t := range snapshot.Topics {
		for _, p := range t.Partitions {
			countReplicas(member, &p)
			countPartition(c, name, &p)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		c.Brokers = append(c.Brokers, *members[id])
	}
	c.Worst = worst(c.Worst)
	return c
}

// countReplicas counts a partition for the members that have it.
func countReplicas(member func(id int32) *status.Member, p *metadata.Partition) {
	for _, id := range p.Replicas {
		member(id).Replicas++
	}
	for _, id := range p.ISR {
		member(id).InSync++
	}
	if p.Leader >= 0 {
		member(p.Leader).Leads++
	}
}

// countPartition counts a partition, and keeps it if it has a problem.
func countPartition(c *status.Cluster, topic string, p *metadata.Partition) {
	c.Partitions++
	c.Leaderless += one(p.Leaderless())
	c.UnderReplicated += one(p.UnderReplicated())
	if !p.Leaderless() && !p.UnderReplicated() {
		return
	}
	c.Worst = append(c.Worst, status.Partition{Topic: topic, Partition: p.Number, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR})
	if len(c.Worst) == 10*worstShown { // every partition may be in trouble, but few are shown
		c.Worst = worst(c.Worst)
	}
}

// worst returns the first partitions to show: those without a leader, then those with the fewest in-sync replicas.
func worst(list []status.Partition) []status.Partition {
	slices.SortFunc(list, func(a, b status.Partition) int {
		return cmp.Or(cmp.Compare(min(a.Leader, 0), min(b.Leader, 0)), cmp.Compare(len(a.ISR)-len(a.Replicas), len(b.ISR)-len(b.Replicas)),
			comparePartitions(a.Topic, a.Partition, b.Topic, b.Partition))
	})
	return list[:min(len(list), worstShown)]
}

func comparePartitions(topicA string, partitionA int32, topicB string, partitionB int32) int {
	return cmp.Or(strings.Compare(topicA, topicB), cmp.Compare(partitionA, partitionB))
}

// addressOf returns where clients reach a broker, at each of its listeners.
func addressOf(b *metadata.Broker, controlPlane string) string {
	var named []string
	address := ""
	for _, name := range slices.Sorted(maps.Keys(b.Endpoints)) {
		if name != controlPlane {
			address = b.Address(name)
			named = append(named, name+"://"+address)
		}
	}
	if len(named) == 1 {
		return address
	}
	return strings.Join(named, ", ")
}

// listenerStatus returns the state of each advertised listener of this broker.
func (m *collector) listenerStatus() []status.Listener {
	connections, authentications := m.s.network.ConnectionCounts(), m.s.network.Authentications()
	var all []status.Listener
	for _, e := range m.s.listening.endpoints() {
		l := status.Listener{Name: e.Name, Protocol: e.Protocol, Address: net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), Open: connections[e.Name].Open}
		if n := authentications[e.Name]; n != nil {
			l.Guarded, l.Accepted, l.Refused = true, n.Succeeded.Load(), n.Failed.Load()
		}
		if end := m.s.secured.expires(e.Name); !end.IsZero() {
			l.Expires = end.UnixMilli()
		}
		all = append(all, l)
	}
	return all
}

func loadingStatus(dirs []logstore.DirLoading) []status.Loading {
	list := make([]status.Loading, len(dirs))
	for i, d := range dirs {
		list[i] = status.Loading{Dir: d.Dir, Loaded: d.Loaded, Total: d.Total, Read: d.Read, ToRead: d.ToRead, Recovering: d.Recovering,
			Done: d.Done, RemainingMs: d.Remaining.Milliseconds()}
	}
	return list
}

func dirStatus(infos []logstore.DirInfo) []status.Dir {
	dirs := make([]status.Dir, len(infos))
	for i, info := range infos {
		dirs[i] = status.Dir{Path: info.Path, Online: info.Online, Total: info.Total, Usable: info.Usable, Refuses: info.Refuses, Logs: len(info.Logs)}
		for _, l := range info.Logs {
			dirs[i].Size += l.Size
		}
	}
	return dirs
}

// dirMoves returns the logs that are being moved to another directory.
func (m *collector) dirMoves(infos []logstore.DirInfo) []status.DirMove {
	at := make(map[logstore.TopicPartition]string)
	for _, info := range infos {
		for _, l := range info.Logs {
			if !l.Future {
				at[l.TopicPartition] = info.Path
			}
		}
	}
	var moves []status.DirMove
	for _, info := range infos {
		for _, l := range info.Logs {
			log, ok := m.s.logs.Log(l.TopicPartition)
			if !l.Future || !ok {
				continue
			}
			all := log.LogEndOffset() - log.LogStartOffset()
			moves = append(moves, status.DirMove{Topic: l.Topic, Partition: l.Partition, From: at[l.TopicPartition], To: info.Path,
				Left: l.OffsetLag, Size: l.Size, Progress: share(all-l.OffsetLag, all)})
		}
	}
	slices.SortFunc(moves, func(a, b status.DirMove) int { return comparePartitions(a.Topic, a.Partition, b.Topic, b.Partition) })
	return moves
}

func (m *collector) topicStatus(snapshot *metadata.Snapshot, r *status.Reading) {
	sizes := make(map[string]int64)
	for _, l := range m.s.logs.Logs() {
		sizes[l.TopicPartition().Topic] += l.Size()
	}
	traffic := make(map[string]status.Traffic)
	m.s.metrics.Traffic(func(topic string, t *metrics.TopicTraffic) {
		traffic[topic] = status.Traffic{BytesIn: t.BytesIn.Load(), BytesOut: t.BytesOut.Load(), MessagesIn: t.MessagesIn.Load()}
	})
	r.Traffic = traffic[""]
	for name, t := range snapshot.Topics {
		counts := status.TopicCounts{Name: name, Partitions: len(t.Partitions), SizeBytes: sizes[name], Traffic: traffic[name]}
		for _, p := range t.Partitions {
			counts.Leaderless += one(p.Leaderless())
			counts.UnderReplicated += one(p.UnderReplicated())
		}
		r.Topics = append(r.Topics, counts)
	}
}

// reassignmentStatus asks the controller which replicas are being moved.
func (m *collector) reassignmentStatus(ctx context.Context, snapshot *metadata.Snapshot, r *status.Reading) {
	resp, err := m.reassignments(ctx, snapshot)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		r.Trouble = append(r.Trouble, unanswered(err))
		return
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			move := status.Reassignment{Topic: t.Topic, Partition: p.Partition, Replicas: p.Replicas, Adding: p.AddingReplicas, Removing: p.RemovingReplicas}
			m.progress(snapshot, &move)
			r.Reassignments = append(r.Reassignments, move)
		}
	}
	slices.SortFunc(r.Reassignments, func(a, b status.Reassignment) int {
		return comparePartitions(a.Topic, a.Partition, b.Topic, b.Partition)
	})
}

// unanswered explains why reassignments are not shown. They need an operation that brokers do not need otherwise.
func unanswered(err error) string {
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return "Reassignments are not known: the user that brokers log in as may not ask the controller for them (kafka-acls.sh --operation Describe --cluster)."
	}
	return "The controller could not be asked for reassignments: " + err.Error() + "."
}

func (m *collector) reassignments(ctx context.Context, snapshot *metadata.Snapshot) (*kmsg.ListPartitionReassignmentsResponse, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = int32(statusTimeout.Milliseconds())
	if m.s.controller.Active() {
		return m.s.controller.ListPartitionReassignments(ctx, req), nil
	}
	if snapshot.Controller < 0 || snapshot.Controller == m.s.id { // it is being elected
		return kmsg.NewPtrListPartitionReassignmentsResponse(), nil
	}
	resp, err := m.s.peers.SendTo(ctx, snapshot.Controller, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.ListPartitionReassignmentsResponse), nil
}

// progress sets how much of a partition its slowest new replica has, according to the leader.
func (m *collector) progress(snapshot *metadata.Snapshot, move *status.Reassignment) {
	p, _ := snapshot.Partition(move.Topic, move.Partition)
	for _, id := range move.Adding {
		move.InSync += one(p != nil && slices.Contains(p.ISR, id))
	}
	if move.InSync == len(move.Adding) {
		move.Progress = 1
		return
	}
	move.Progress = -1
	hosted, ok := m.s.replicas.Partition(logstore.TopicPartition{Topic: move.Topic, Partition: move.Partition})
	if !ok {
		return
	}
	ends := hosted.FollowerEnds()
	if ends == nil {
		return
	}
	start, end := hosted.Log().LogStartOffset(), hosted.Log().LogEndOffset()
	move.Progress = 1
	for _, id := range move.Adding {
		if id != m.s.id {
			move.Progress = min(move.Progress, share(ends[id]-start, end-start))
		}
	}
}

// share returns the fraction have/all.
func share(have, all int64) float64 {
	if all <= 0 {
		return 1
	}
	return min(1, float64(max(0, have))/float64(all))
}

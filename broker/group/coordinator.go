package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"barnabas/internal/errcode"
	"barnabas/internal/logx"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is the internal topic that stores groups.
const Topic = "__consumer_offsets"

// Partition is a partition of the internal topic that this broker hosts.
type Partition interface {
	// AppendInEpoch appends as the leader in an epoch; it fails in any other.
	AppendInEpoch(epoch int32, data []byte, allAcks bool, o logstore.LeaderAppend) (logstore.AppendInfo, error)
	// Replicated reports whether everything below an offset, as appended in a leader epoch, is on all in-sync replicas.
	Replicated(epoch int32, end int64) (bool, error)
	// AwaitReplicated waits until Replicated is true.
	AwaitReplicated(ctx context.Context, epoch int32, end int64) error
	Log() *logstore.Log
	logReader
}

// Config is what a Coordinator needs to know about the broker and its settings.
type Config struct {
	MinSessionTimeout     time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout     time.Duration // group.max.session.timeout.ms
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MaxSize               int           // group.max.size
	MetadataMaxBytes      int           // offset.metadata.max.bytes, which counts UTF-16 units
	Retention             time.Duration // offsets.retention.minutes
	RetentionCheck        time.Duration // offsets.retention.check.interval.ms
	CommitTimeout         time.Duration // offsets.commit.timeout.ms
	CommitAcks            int16         // offsets.commit.required.acks: -1 all in-sync replicas
	LoadBufferBytes       int32         // offsets.load.buffer.size
	Codec                 record.Codec  // offsets.topic.compression.codec
	ValueVersions         ValueVersions

	Partition    func(number int32) (Partition, bool) // of the internal topic
	PartitionFor func(groupID string) int32           // that stores a group
	Gone         Gone                                 // may be nil
	Loaded       func(took time.Duration)             // called for each partition that was loaded; may be nil
	Logger       *logrus.Entry
	Now          func() time.Time
}

// Gone returns those of some topics that certainly do not exist.
type Gone func(ctx context.Context, topics []string) ([]string, error)

// Client describes the client that sends a member's request.
type Client struct {
	ID   string // client.id
	Host string // its address as Java prints one: "/127.0.0.1"
}

// Coordinator coordinates the groups of the partitions that this broker leads. Safe for concurrent use.
type Coordinator struct {
	cfg    Config
	limits *limits
	log    *logrus.Entry

	ctx     context.Context // of the background work
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	loading logx.Tally
	loaders chan struct{} // bounds how many partitions are loaded at once, and with them the buffers
	done    work

	mu struct {
		sync.RWMutex
		closed bool
		shards map[int32]*shard
	}
}

// parallelLoads bounds how many partitions are loaded at once.
const parallelLoads = 4

// New returns a Coordinator without groups. LeadershipChanged tells it which partitions to load.
func New(cfg Config) *Coordinator {
	c := &Coordinator{cfg: cfg, log: cfg.Logger, loaders: make(chan struct{}, parallelLoads)}
	c.limits = &limits{
		minSession: cfg.MinSessionTimeout, maxSession: cfg.MaxSessionTimeout, initialDelay: cfg.InitialRebalanceDelay,
		maxSize: cfg.MaxSize, valueVersions: cfg.ValueVersions,
	}
	c.mu.shards = make(map[int32]*shard)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Start begins to look for expired offsets, until Close.
func (c *Coordinator) Start() {
	c.tasks.Go(func() {
		ticker := time.NewTicker(c.cfg.RetentionCheck)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.expire()
			case <-c.ctx.Done():
				return
			}
		}
	})
}

// Close gives up all partitions and ends the background work. Waiting members are told to look for another coordinator.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.mu.closed = true
	shards := c.mu.shards
	c.mu.shards = nil
	c.mu.Unlock()
	c.cancel()
	for _, s := range shards {
		s.close()
	}
	c.tasks.Wait()
}

// LeadershipChanged loads a partition that this broker leads in an epoch, in the background, or drops it.
func (c *Coordinator) LeadershipChanged(number, leaderEpoch int32, leads bool) {
	c.mu.Lock()
	s := c.mu.shards[number]
	var dropped *shard
	switch {
	case c.mu.closed:
	case !leads:
		delete(c.mu.shards, number)
		dropped = s
	case s != nil: // it has been the leader all the time: its state is valid
		s.setEpoch(leaderEpoch)
	default:
		if p, ok := c.cfg.Partition(number); ok {
			s = newShard(c, number, leaderEpoch, p)
			c.mu.shards[number] = s
			c.loading.Begin(time.Now())
			c.tasks.Go(s.loadAndTell)
		}
	}
	c.mu.Unlock()
	if dropped != nil {
		dropped.close()
	}
}

// shardOf finds the shard of a group. Errors: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE if this broker is stopping,
// NOT_COORDINATOR. Only old versions of requests that commit and fetch offsets may name the empty group.
func (c *Coordinator) shardOf(groupID string, emptyAllowed bool) (*shard, error) {
	if groupID == "" && !emptyAllowed {
		return nil, kerr.InvalidGroupID
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.mu.closed {
		return nil, kerr.CoordinatorNotAvailable
	}
	if s := c.mu.shards[c.cfg.PartitionFor(groupID)]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("group %q: %w", groupID, kerr.NotCoordinator)
}

func (c *Coordinator) shards() []*shard {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*shard, 0, len(c.mu.shards))
	for _, s := range c.mu.shards {
		all = append(all, s)
	}
	return all
}

// step lets a group handle one event. missing is the error for a group that does not exist; if nil, the group is
// created.
func (c *Coordinator) step(groupID string, emptyAllowed bool, missing error, event func(*group, *step)) error {
	s, err := c.shardOf(groupID, emptyAllowed)
	if err != nil {
		return err
	}
	return s.step(groupID, missing, event)
}

// Join answers JoinGroup once the member is part of a generation.
func (c *Coordinator) Join(req *kmsg.JoinGroupRequest, from Client) Answer[*kmsg.JoinGroupResponse] {
	s, err := c.shardOf(req.Group, false)
	if err == nil {
		err = s.serving()
	}
	if err != nil {
		return ready(joinFailed(req.MemberID, err))
	}
	if session := milliseconds(req.SessionTimeoutMillis); session < c.limits.minSession || session > c.limits.maxSession {
		return ready(joinFailed(req.MemberID, kerr.InvalidSessionTimeout))
	}
	missing := error(kerr.UnknownMemberID)
	if req.MemberID == "" {
		missing = nil
	}
	r := newJoinRequest(req, from)
	if err := s.step(req.Group, missing, func(g *group, st *step) { g.join(st, r) }); err != nil {
		return ready(joinFailed(req.MemberID, err))
	}
	return r.reply.answer()
}

// Sync answers SyncGroup once the leader has sent the assignment.
func (c *Coordinator) Sync(req *kmsg.SyncGroupRequest) Answer[*kmsg.SyncGroupResponse] {
	reply := newPromise[*kmsg.SyncGroupResponse]()
	err := c.step(req.Group, false, kerr.UnknownMemberID, func(g *group, st *step) { g.sync(st, req, reply) })
	switch {
	case errors.Is(err, kerr.CoordinatorLoadInProgress):
		// The rebalance is lost, so the member must rejoin. Old clients would not understand the other code.
		return ready(syncFailed(kerr.RebalanceInProgress))
	case err != nil:
		return ready(syncFailed(err))
	}
	return reply.answer()
}

// Heartbeat keeps a member alive. While the group is being loaded, any heartbeat is accepted.
func (c *Coordinator) Heartbeat(req *kmsg.HeartbeatRequest) error {
	var result error
	err := c.step(req.Group, false, kerr.UnknownMemberID, func(g *group, st *step) { result = g.heartbeat(st, req) })
	switch {
	case errors.Is(err, kerr.CoordinatorLoadInProgress):
		return nil
	case err != nil:
		return err
	}
	return result
}

// Leave removes members from a group. It returns one error for each, or one for the request.
func (c *Coordinator) Leave(groupID string, members []kmsg.LeaveGroupRequestMember) ([]error, error) {
	errs := make([]error, len(members))
	for i := range errs {
		errs[i] = kerr.UnknownMemberID
	}
	err := c.step(groupID, false, errNoGroup, func(g *group, st *step) {
		for i, m := range members {
			errs[i] = g.leave(st, m)
		}
	})
	if err != nil && !errors.Is(err, errNoGroup) {
		return nil, err
	}
	return errs, nil
}

// Describe describes a group. A group that does not exist is Dead.
func (c *Coordinator) Describe(groupID string) kmsg.DescribeGroupsResponseGroup {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = groupID
	err := c.step(groupID, true, errNoGroup, func(g *group, _ *step) { g.describe(&out) })
	switch {
	case errors.Is(err, errNoGroup):
		out.State = Dead.String()
	case err != nil:
		out.ErrorCode = errcode.Of(err)
	}
	return out
}

func (g *group) describe(out *kmsg.DescribeGroupsResponseGroup) {
	out.State, out.ProtocolType = g.state.String(), g.protocolType
	if g.state == Stable {
		out.Protocol = g.protocol
	}
	for _, m := range g.order {
		about := kmsg.NewDescribeGroupsResponseGroupMember()
		about.MemberID, about.InstanceID, about.ClientID, about.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		about.ProtocolMetadata, about.MemberAssignment = []byte{}, []byte{}
		if g.state == Stable { // otherwise they belong to no generation
			about.ProtocolMetadata, about.MemberAssignment = m.metadata(g.protocol), m.assignment
		}
		out.Members = append(out.Members, about)
	}
}

// List lists the groups in the given states and of the given types, where none means any; case does not matter. The
// error is COORDINATOR_LOAD_IN_PROGRESS if there may be more.
func (c *Coordinator) List(states, types []string) ([]kmsg.ListGroupsResponseGroup, error) {
	c.mu.RLock()
	closed := c.mu.closed
	c.mu.RUnlock()
	if closed {
		return nil, kerr.CoordinatorNotAvailable
	}
	var incomplete error
	var list []kmsg.ListGroupsResponseGroup
	for _, s := range c.shards() {
		err := s.each(func(g *group) {
			if !named(states, g.state.String()) || !named(types, classic) {
				return
			}
			out := kmsg.NewListGroupsResponseGroup()
			out.Group, out.ProtocolType, out.GroupState, out.GroupType = g.id, g.protocolType, g.state.String(), classic
			list = append(list, out)
		})
		if errors.Is(err, kerr.CoordinatorLoadInProgress) {
			incomplete = err
		}
	}
	return list, incomplete
}

// classic is the type of all groups coordinated here (KIP-848).
const classic = "classic"

func named(filter []string, name string) bool {
	for _, f := range filter {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return len(filter) == 0
}

func (c *Coordinator) logger(groupID string) *logrus.Entry {
	return c.log.WithField(logx.Group, groupID)
}

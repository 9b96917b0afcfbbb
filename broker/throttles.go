package broker

import (
	"math"
	"sync"
	"time"

	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/config"
	"barnabas/logstore"
)

// replicationRate is the rate at which throttled replicas are sent or fetched, with its limit.
type replicationRate struct {
	bound func() int64 // bytes per second; math.MaxInt64: unlimited

	mu struct {
		sync.Mutex
		rate quota.Rate
	}
}

func (r *replicationRate) exceeded() bool {
	bound := r.bound()
	if bound == math.MaxInt64 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.rate.Exceeds(float64(bound), time.Now())
}

func (r *replicationRate) record(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.rate.Add(float64(bytes), time.Now())
}

// throttle creates the throttle of one direction: bound is the broker's limit, replicas are those of a topic that it
// applies to.
func (s *Server) throttle(bound func(*config.Broker) int64, replicas func(*config.Topic) config.ThrottledReplicas) replica.Throttle {
	c := s.static
	covers := func(tp logstore.TopicPartition) bool { return replicas(s.topics.get(tp.Topic)).Has(tp.Partition, s.id) }
	return s.throttleOf(bound, quota.Windows{Count: c.ReplicationQuotaWindowNum, Size: c.ReplicationQuotaWindowSize}, covers)
}

func (s *Server) throttleOf(bound func(*config.Broker) int64, windows quota.Windows, covers func(logstore.TopicPartition) bool) replica.Throttle {
	rate := &replicationRate{bound: func() int64 { return bound(s.config.Current()) }}
	rate.mu.rate = quota.Rate{Windows: windows, AtOnce: true}
	return replica.Throttle{Covers: covers, Exceeded: rate.exceeded, Record: rate.record}
}

// moveThrottle returns the throttle for copying between log directories.
func (s *Server) moveThrottle() replica.Throttle {
	c := s.static
	return s.throttleOf(func(c *config.Broker) int64 { return c.AlterLogDirsMaxBytesPerSecond },
		quota.Windows{Count: c.AlterLogDirsQuotaWindowNum, Size: c.AlterLogDirsQuotaWindowSize},
		func(logstore.TopicPartition) bool { return true })
}

func (s *Server) leaderThrottle() replica.Throttle {
	return s.throttle(
		func(c *config.Broker) int64 { return c.LeaderReplicationThrottledRate },
		func(t *config.Topic) config.ThrottledReplicas { return t.LeaderThrottledReplicas })
}

func (s *Server) followerThrottle() replica.Throttle {
	return s.throttle(
		func(c *config.Broker) int64 { return c.FollowerReplicationThrottledRate },
		func(t *config.Topic) config.ThrottledReplicas { return t.FollowerThrottledReplicas })
}

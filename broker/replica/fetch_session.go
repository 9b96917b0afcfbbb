package replica

import (
	"maps"
	"slices"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchFrom is where to fetch next in a partition. If it is unchanged, it need not be sent again in a session.
type fetchFrom struct {
	topicID     [16]byte
	leaderEpoch int32
	lastEpoch   int32
	offset      int64
	logStart    int64
}

// fetchSession is a follower's side of an incremental fetch session (KIP-227): it remembers what the leader knows, so
// that a request contains only changes. The zero value begins a new session.
type fetchSession struct {
	id    int32
	epoch int32
	byID  bool // topics are identified by id
	known map[logstore.TopicPartition]fetchFrom
}

func (s *fetchSession) request(wanted map[logstore.TopicPartition]fetchFrom, cfg FetchConfig) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = cfg.Version
	byID := cfg.Version >= fetchByID && allHaveIDs(wanted)
	if !byID {
		req.Version = min(req.Version, fetchByID-1)
	}
	if byID != s.byID { // the leader identifies topics differently: a new session replaces this one
		s.epoch, s.known, s.byID = 0, nil, byID
	}
	req.MaxWaitMillis = int32(cfg.MaxWait.Milliseconds())
	req.MinBytes, req.MaxBytes = cfg.MinBytes, cfg.ResponseMaxBytes
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	changed := make([]logstore.TopicPartition, 0, len(wanted))
	for tp, at := range wanted {
		if s.known == nil || s.known[tp] != at {
			changed = append(changed, tp)
		}
	}
	slices.SortFunc(changed, logstore.TopicPartition.Compare)
	for _, tp := range changed {
		addFetchPartition(req, tp, wanted[tp], cfg.MaxBytes)
	}
	for tp, at := range s.known {
		if now, ok := wanted[tp]; !ok || now.topicID != at.topicID {
			addForgotten(req, tp, at.topicID)
		}
	}
	s.known = maps.Clone(wanted)
	return req
}

// fetchByID is the first version of Fetch that identifies topics by id (KIP-516). Topics that were created with an
// inter.broker.protocol.version below 2.8 have none.
const fetchByID = 13

func allHaveIDs(wanted map[logstore.TopicPartition]fetchFrom) bool {
	for _, at := range wanted {
		if at.topicID == ([16]byte{}) {
			return false
		}
	}
	return true
}

// answered records whether the session continues after the leader's response.
func (s *fetchSession) answered(id int32) {
	if id == 0 {
		*s = fetchSession{}
		return
	}
	s.id = id
	if s.epoch++; s.epoch <= 0 {
		s.epoch = 1
	}
}

func addFetchPartition(req *kmsg.FetchRequest, tp logstore.TopicPartition, at fetchFrom, maxBytes int32) {
	if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = tp.Topic, at.topicID
		req.Topics = append(req.Topics, t)
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LastFetchedEpoch = tp.Partition, at.leaderEpoch, at.lastEpoch
	p.FetchOffset, p.LogStartOffset, p.PartitionMaxBytes = at.offset, at.logStart, maxBytes
	t := &req.Topics[len(req.Topics)-1]
	t.Partitions = append(t.Partitions, p)
}

func addForgotten(req *kmsg.FetchRequest, tp logstore.TopicPartition, id [16]byte) {
	t := kmsg.NewFetchRequestForgottenTopic()
	t.Topic, t.TopicID, t.Partitions = tp.Topic, id, []int32{tp.Partition}
	req.ForgottenTopics = append(req.ForgottenTopics, t)
}

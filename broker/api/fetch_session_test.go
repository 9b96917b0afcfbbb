package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSessionWithoutPartitions: a session from which all partitions are removed ends. The request's own partitions are
// read nevertheless (FetchManager.newContext, 3.9).
func TestSessionWithoutPartitions(t *testing.T) {
	for _, listed := range []int{0, 1} {
		s := newFetchSessions(2)
		id := s.open([]fetchPartition{{topic: "t"}}, false, false, time.Now())
		req := &kmsg.FetchRequest{Version: 12, SessionID: id, SessionEpoch: 1,
			ForgottenTopics: []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{0}}}}
		if listed > 0 {
			req.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{{Partition: 0}}}}
		}
		c, err := s.begin(req, time.Now())
		if err != nil || len(c.asked) != listed || c.session != nil || len(s.mu.byID) != 0 {
			t.Errorf("%d partitions listed: %+v, %v, %d sessions", listed, c, err, len(s.mu.byID))
		}
	}
}

package replica

import (
	"context"
	"fmt"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// divergingVersion is the first version of Fetch whose responses tell a follower where its log diverges from the
// leader's (KIP-595). With older ones it asks with OffsetForLeaderEpoch before it fetches (KIP-101, 279).
const divergingVersion = 12

// settle truncates the partitions that are new to this fetcher to where their logs agree with the leader's. It returns
// those of the wanted ones that can be fetched now.
func (t *fetcher) settle(ctx context.Context, conn Requester, wanted map[logstore.TopicPartition]fetchFrom) (map[logstore.TopicPartition]fetchFrom, error) {
	unsettled := make(map[logstore.TopicPartition]fetchFrom)
	for tp, at := range wanted {
		if at.lastEpoch != noEpoch && t.set.cfg.Version >= divergingVersion {
			continue // Fetch finds the divergence
		}
		if f := t.at(tp, at); f == nil || !f.settled {
			unsettled[tp] = at
		}
	}
	if len(unsettled) == 0 {
		return wanted, nil
	}
	ends, err := t.leaderEpochs(ctx, conn, unsettled)
	if err != nil {
		return nil, err
	}
	for tp, at := range unsettled {
		f := t.at(tp, at)
		if f != nil {
			t.write(f, func() error { return f.settleAt(at, ends[tp]) })
		}
		if f == nil || !f.settled || f.offset != at.offset { // fetched with the next request, rather than make the others wait for it
			delete(wanted, tp)
		}
	}
	return wanted, nil
}

// leaderEpochEnd is where an epoch ends in the leader's log, or why the leader does not say.
type leaderEpochEnd struct {
	EpochEnd
	err error
}

// leaderEpochs asks where our latest epochs end in the leader's logs. Logs without any epoch are left out.
func (t *fetcher) leaderEpochs(ctx context.Context, conn Requester, of map[logstore.TopicPartition]fetchFrom) (map[logstore.TopicPartition]leaderEpochEnd, error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = t.set.cfg.EpochVersion, t.set.brokerID
	ends := make(map[logstore.TopicPartition]leaderEpochEnd)
	for tp, at := range of {
		if at.lastEpoch == noEpoch {
			continue
		}
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = tp.Partition, at.leaderEpoch, at.lastEpoch
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic, topic.Partitions = tp.Topic, append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		ends[tp] = leaderEpochEnd{err: fmt.Errorf("%v: the leader's answer to OffsetForLeaderEpoch lacks the partition", tp)}
	}
	if len(req.Topics) == 0 {
		return ends, nil
	}
	answer, err := conn.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.OffsetForLeaderEpochResponse)
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			ends[logstore.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = leaderEpochEnd{
				EpochEnd{p.LeaderEpoch, p.EndOffset}, kerr.ErrorForCode(p.ErrorCode)}
		}
	}
	return ends, nil
}

// settleAt truncates to where the leader's epoch ends. If the leader returns an older epoch that we have too, it is
// asked again about that one (AbstractFetcherThread.getOffsetTruncationState, 3.9).
func (f *fetched) settleAt(at fetchFrom, end leaderEpochEnd) error {
	log := f.partition.Log()
	switch {
	case end.err != nil:
		return end.err
	case at.lastEpoch == noEpoch, end.Offset < 0: // no epochs on either side: above the high watermark nothing is certain
		return f.settleTo(log.HighWatermark())
	case end.Epoch < 0: // a leader that does not return the epoch
		return f.settleTo(end.Offset)
	}
	ours, _ := log.EndOffsetForEpoch(end.Epoch)
	if err := f.truncate(end.Epoch, end.Offset); err != nil {
		return err
	}
	f.settled = ours < 0 || ours == end.Epoch
	return nil
}

// settleTo truncates the log to an offset. If it fails, nothing may be fetched, since it would follow records that
// should be gone.
func (f *fetched) settleTo(offset int64) error {
	log := f.partition.Log()
	if offset < log.LogEndOffset() {
		if err := f.partition.cut(offset); err != nil {
			return err
		}
	}
	f.offset, f.settled = log.LogEndOffset(), true
	return nil
}

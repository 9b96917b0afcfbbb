package replica

import (
	"context"
	"fmt"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// divergingVersion is the first version of Fetch whose answers tell a follower where its log departs from the leader's
// (KIP-595). With older ones it asks by OffsetForLeaderEpoch before it fetches (KIP-101, 279).
const divergingVersion = 12

// settle truncates the partitions that are new to this fetcher to where the leader's log agrees with theirs. It gives those
// of the wanted ones that can be fetched now.
func (t *fetcher) settle(ctx context.Context, conn Requester, wanted map[logstore.TopicPartition]fetchFrom) (map[logstore.TopicPartition]fetchFrom, error) {
	unsettled := make(map[logstore.TopicPartition]fetchFrom)
	for tp, at := range wanted {
		if at.lastEpoch != noEpoch && t.set.cfg.Version >= divergingVersion {
			continue // Fetch tells
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
		if f == nil || !f.settled || f.offset != at.offset { // else the others would be waited for first
			delete(wanted, tp)
		}
	}
	return wanted, nil
}

// leaderEpochEnd is where the leader's log ends an epoch, or why it does not say.
type leaderEpochEnd struct {
	EpochEnd
	err error
}

// leaderEpochs asks where the leader's logs end our latest epochs. A log without any epoch is not asked for.
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

// settleAt truncates to what the leader has said. Where it has an older epoch than ours, that we have too, it is asked
// again about that one (AbstractFetcherThread.getOffsetTruncationState, 3.9).
func (f *fetched) settleAt(at fetchFrom, end leaderEpochEnd) error {
	log := f.partition.Log()
	switch {
	case end.err != nil:
		return end.err
	case at.lastEpoch == noEpoch, end.Offset < 0: // no epochs here or there: above the high watermark nothing is sure
		return f.settleTo(log.HighWatermark())
	case end.Epoch < 0: // a leader that does not tell the epoch
		return f.settleTo(end.Offset)
	}
	ours, _ := log.EndOffsetForEpoch(end.Epoch)
	if err := f.truncate(end.Epoch, end.Offset); err != nil {
		return err
	}
	f.settled = ours < 0 || ours == end.Epoch
	return nil
}

// settleTo cuts the log to an offset; when it can't, nothing may be fetched to stand behind what should be gone.
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

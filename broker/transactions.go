package broker

import (
	"context"
	"time"

	"barnabas/broker/replica"
	"barnabas/broker/txn"
	"barnabas/config"
	"barnabas/internal/javahash"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (s *Server) transactionsConfig() txn.Config {
	c := s.static
	return txn.Config{
		BrokerID: s.id, PartitionOf: s.transactionPartition, Log: s.transactionLog, Leader: s.leaderOf,
		TopicID: s.topicID, Verified: func() bool { return s.config.Current().TransactionPartitionVerify }, MetadataChanged: &s.metadata.Changed, Send: s.peers.SendTo, ProducerIDs: s.producerIDs,
		MarkersVersion: s.writeTxnMarkersVersion(), VerifyVersion: s.verifyVersion(),
		MaxTimeout: c.TransactionMaxTimeout, Expiration: c.TransactionalIDExpiration,
		AbortInterval: c.TransactionAbortTimedOutInterval, ExpireInterval: c.TransactionRemoveExpiredInterval,
		Loaded: s.collector.transactionsLoaded, Now: time.Now, Logger: s.loggers.Entry(config.TransactionLogger),
	}
}

// transactionPartition returns the partition of __transaction_state that a transactional id belongs to.
func (s *Server) transactionPartition(id string) int32 {
	count := s.static.TransactionStateLogPartitions
	if t := s.metadata.Current().Topics[txn.Topic]; t != nil {
		count = len(t.Partitions)
	}
	return javahash.PartitionFor(id, count)
}

// leaderOf finds a partition's leader in the metadata of the cluster. While there is no snapshot yet, every partition
// counts as existing.
func (s *Server) leaderOf(tp logstore.TopicPartition) (broker int32, exists bool) {
	snapshot := s.metadata.Current()
	p, ok := snapshot.Partition(tp.Topic, tp.Partition)
	switch {
	case !ok:
		return -1, len(snapshot.Topics) == 0
	case snapshot.Brokers[p.Leader] == nil:
		return -1, true
	}
	return p.Leader, true
}

func (s *Server) transactionLog(partition int32) (txn.Log, bool) {
	p, ok := s.replicas.Partition(logstore.TopicPartition{Topic: txn.Topic, Partition: partition})
	if !ok {
		return nil, false
	}
	return transactionLog{p, int32(s.static.TransactionStateLogLoadBuffer)}, true
}

// transactionLog is a partition of __transaction_state as used by its coordinator.
type transactionLog struct {
	*replica.Partition
	bufferBytes int32 // transaction.state.log.load.buffer.size
}

// Append writes a batch that must be replicated to all in-sync replicas.
func (l transactionLog) Append(epoch int32, batch record.Batch) (end int64, err error) {
	info, err := l.AppendInEpoch(epoch, batch, true, logstore.LeaderAppend{Origin: logstore.Coordinator})
	return info.LastOffset + 1, err
}

// HighWatermark returns the high watermark.
func (l transactionLog) HighWatermark() int64 { return l.Log().HighWatermark() }

// MaxBatchBytes returns max.message.bytes of the topic.
func (l transactionLog) MaxBatchBytes() int { return int(l.Log().Config().MaxMessageBytes) }

// Load reads all batches. Offsets may be missing if the log was compacted, also at its end.
func (l transactionLog) Load(ctx context.Context, fn func(record.Batch) error) (int64, error) {
	end := l.Log().LogEndOffset()
	var buffer []byte
	for offset := l.Log().LogStartOffset(); offset < end && ctx.Err() == nil; {
		err := l.ReadLog(func(log *logstore.Log) error {
			r, err := log.Read(offset, l.bufferBytes, end, true)
			if err != nil {
				return err
			}
			defer r.Close()
			buffer, err = r.Append(buffer[:0])
			return err
		})
		if err != nil {
			return 0, err
		}
		next, err := eachBatch(buffer, offset, fn)
		if err != nil {
			return 0, err
		}
		if next == offset {
			break // nothing is left above it
		}
		offset = next
	}
	return end, context.Cause(ctx)
}

// eachBatch calls fn with the whole batches in data that reach offset or beyond, and returns the offset after them.
func eachBatch(data []byte, offset int64, fn func(record.Batch) error) (int64, error) {
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		if b.LastOffset() < offset {
			continue
		}
		if err := fn(b); err != nil {
			return offset, err
		}
		offset = b.LastOffset() + 1
	}
	return offset, walk.Err()
}

func (s *Server) topicID(name string) [16]byte {
	if t := s.metadata.Current().Topics[name]; t != nil {
		return t.ID
	}
	return [16]byte{}
}

// allocateProducerIDs takes a block of producer ids for this broker (KIP-730).
func (s *Server) allocateProducerIDs(ctx context.Context) (txn.Block, error) {
	if !s.since(config.IBP30IV0) { // the controller of such a cluster may not know the request
		block, err := s.zk.NextProducerIDs(ctx, s.id)
		return txn.Block{First: block.Start, Count: int32(block.End - block.Start + 1)}, err
	}
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = s.id, s.epoch.Load()
	answer, err := s.peers.ToController(ctx, req)
	if err != nil {
		return txn.Block{}, err
	}
	resp := answer.(*kmsg.AllocateProducerIDsResponse)
	return txn.Block{First: resp.ProducerIDStart, Count: resp.ProducerIDLen}, kerr.ErrorForCode(resp.ErrorCode)
}

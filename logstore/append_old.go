package logstore

import (
	"fmt"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// oldFormat is a produced batch for a log with a message format older than batches, ready to become messages.
type oldFormat struct {
	records []record.Record
	how     record.Messages
}

// collect collects the produced records. Producers with an id, and so transactions, require batches
// (LogValidator.validateBatch, 3.9).
func (v *validator) collect(data []byte, first record.Batch, codec record.Codec, level int) (validated, error) {
	if first.HasProducerID() || first.Transactional() {
		return validated{}, fmt.Errorf("a batch of producer %d, transactional %v, cannot be expressed in message format %d: %w",
			first.ProducerID(), first.Transactional(), v.cfg.Magic, kerr.UnsupportedForMessageFormat)
	}
	old := oldFormat{how: record.Messages{Magic: v.cfg.Magic, Codec: codec, Level: level, TimestampType: v.cfg.TimestampType}}
	if err := v.each(data, first, func(r *record.Record) { old.records = append(old.records, *r) }); err != nil {
		return validated{}, err
	}
	return validated{old: old}, old.how.Check(old.records)
}

// appendOld is AppendLeader for a log with a message format older than batches. The offsets are inside the compressed
// data, so it is built when they are known. Such a log has no leader epochs.
func (l *Log) appendOld(cfg *Config, v validated) (AppendInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return AppendInfo{}, err
	}
	first := l.end.offset.Load()
	how, records := v.old.how, v.old.records
	for i := range records {
		records[i].Offset = first + int64(i)
	}
	appendTime := record.NoTimestamp
	if cfg.TimestampType == record.LogAppendTime {
		appendTime = l.env.now().UnixMilli()
		how.AppendTime = appendTime
	}
	data, err := how.Append(nil, records)
	if err != nil {
		return AppendInfo{}, err
	}
	a, err := examine(data)
	if err == nil {
		err = fitsMessages(cfg, data)
	}
	if err == nil {
		err = l.makeRoomLocked(cfg, &a)
	}
	if err == nil {
		err = l.writeLocked(cfg, a)
	}
	if err != nil {
		return AppendInfo{}, err
	}
	return AppendInfo{FirstOffset: first, LastOffset: a.last, LogAppendTime: appendTime,
		LogStartOffset: l.start.Load(), Records: len(records)}, nil
}

// fitsMessages checks the sizes of the messages built here.
func fitsMessages(cfg *Config, data []byte) error {
	for walk := record.Split(data); walk.Next(); {
		if size := len(walk.Batch()); size > int(cfg.MaxMessageBytes) {
			return fmt.Errorf("message of %d bytes exceeds the limit of %d: %w", size, cfg.MaxMessageBytes, kerr.MessageTooLarge)
		}
	}
	return nil
}

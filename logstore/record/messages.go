package record

import (
	"errors"
	"fmt"
)

// Messages says how to convert records to messages of magic 0 or 1.
type Messages struct {
	Magic         int8
	Codec         Codec // None: one message per record; otherwise one wrapper around all
	Level         int   // of the codec
	TimestampType TimestampType
	AppendTime    int64 // ms, the time of all records with LogAppendTime; magic 0 has none
}

// Check returns an error if records cannot be represented in this format, which has neither headers nor zstd. Apache
// Kafka has no code for that, so the error has none.
func (m Messages) Check(records []Record) error {
	if m.Codec == Zstd {
		return fmt.Errorf("zstd has no form in message format %d", m.Magic)
	}
	for i := range records {
		if records[i].headerCount > 0 {
			return fmt.Errorf("record %d has headers, which have no form in message format %d", i, m.Magic)
		}
	}
	return nil
}

// Append appends records with their offsets. In a wrapper, inner offsets are relative in magic 1 and absolute in magic
// 0.
func (m Messages) Append(dst []byte, records []Record) ([]byte, error) {
	if len(records) == 0 {
		return dst, errors.New("no record to make a message of")
	}
	attrs := byte(m.Codec)
	if m.Magic > 0 && m.TimestampType == LogAppendTime {
		attrs |= attrAppendTime
	}
	if m.Codec == None {
		for _, r := range records {
			dst = appendMessage(dst, m.Magic, attrs, r.Offset, m.time(r.Timestamp), r.Key, r.Value)
		}
		return dst, nil
	}
	var set []byte
	var base int64
	if m.Magic == 1 {
		base = records[0].Offset
	}
	maxTimestamp := NoTimestamp
	for _, r := range records {
		set = AppendMessage(set, m.Magic, r.Offset-base, r.Timestamp, r.Key, r.Value)
		maxTimestamp = max(maxTimestamp, r.Timestamp)
	}
	value, err := Compress(nil, m.Codec, m.Level, set)
	if err != nil {
		return nil, err
	}
	last := records[len(records)-1].Offset
	return appendMessage(dst, m.Magic, attrs, last, m.time(maxTimestamp), nil, value), nil
}

// time returns the timestamp to store for a record.
func (m Messages) time(own int64) int64 {
	if m.TimestampType == LogAppendTime {
		return m.AppendTime
	}
	return own
}

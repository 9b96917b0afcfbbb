package logstore

import (
	"fmt"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Origin says who appends as the leader; it determines what is checked.
type Origin int8

// The origins.
const (
	// Client is a Produce request: everything is checked.
	Client Origin = iota
	// Coordinator is a group or transaction coordinator of this broker: control batches and batches without sequence
	// numbers are allowed.
	Coordinator
)

// RecordError says what is wrong with a record of a rejected batch.
type RecordError struct {
	Index   int32 // in the batch, from 0
	Message string
}

// validator checks what a leader is about to append and converts it to its stored form: one batch of magic 2. It does
// not deal with offsets, leader epochs and append times, and so needs no lock (LogValidator, 3.9).
type validator struct {
	cfg    *Config
	tp     TopicPartition
	origin Origin
	now    time.Time

	rejections  *Rejections
	errors      []RecordError
	badTime     bool // the errors include invalid timestamps
	maxTime     int64
	codec       record.Codec // of the input
	recordCount int
	keyless     int // records without a required key
}

// validated is what may be appended once it has its offsets: a batch or, for a log with an old format, what becomes
// messages.
type validated struct {
	batch   record.Batch
	count   int   // of records
	maxTime int64 // of the records, as set by their producer

	appendTime int64 // set when it is appended; ms, -1 with CreateTime
	old        oldFormat
	empty      bool // there is nothing to append, which is no error
}

// run validates data, which is modified if the batch is kept as it is. It counts what it rejects.
func (v *validator) run(data []byte) (validated, error) {
	ready, err := v.validate(data)
	if err != nil {
		v.rejections.inside(err)
		v.rejections.Keyless.Add(int64(v.keyless))
	}
	return ready, err
}

func (v *validator) validate(data []byte) (validated, error) {
	first, err := v.envelope(data)
	if err != nil {
		return validated{}, err
	}
	v.maxTime = record.NoTimestamp
	target, level := v.cfg.codec(v.codec)
	if v.cfg.Magic < record.NewestMagic {
		return v.collect(data, first, target, level)
	}
	if first.Control() && v.codec == record.None {
		target = record.None // control records are not compressed
	}
	if first.Magic() < 2 || target != v.codec {
		return v.rebuild(data, first, target, level)
	}
	keep, err := v.inPlace(first)
	if err != nil {
		return validated{}, err
	}
	if !keep {
		return v.rebuild(data, first, target, level)
	}
	if v.cfg.TimestampType == record.CreateTime {
		first.SetMaxTimestamp(record.CreateTime, v.maxTime)
	}
	return validated{batch: first, count: v.recordCount, maxTime: v.maxTime}, nil
}

// envelope checks each batch from outside, sizes and checksums, and then whether they can be stored as one batch.
func (v *validator) envelope(data []byte) (first record.Batch, err error) {
	count := 0
	walk := record.Split(data)
	for walk.Next() {
		b := walk.Batch()
		if err := v.batchBytes(b); err != nil {
			return nil, err
		}
		switch codec := b.Codec(); {
		case codec > record.Zstd:
			return nil, fmt.Errorf("unknown %v: %w", codec, kerr.UnknownServerError)
		case codec != record.None:
			v.codec = codec
		}
		if count++; count == 1 {
			first = b
		}
	}
	switch {
	case walk.Err() != nil:
		return nil, walk.Err()
	case count == 0:
		return nil, fmt.Errorf("no record batch: %w", kerr.InvalidRecord)
	case count > 1 && (first.Magic() >= 2 || v.codec != record.None):
		return nil, fmt.Errorf("more than one record batch: %w", kerr.InvalidRecord)
	}
	if err := v.batchHeader(first); err != nil {
		v.rejections.Offset.Add(1)
		return nil, err
	}
	return first, nil
}

// batchBytes checks size and checksum (UnifiedLog.analyzeAndValidateRecords, 3.9).
func (v *validator) batchBytes(b record.Batch) error {
	if b.Magic() >= 2 && v.origin == Client && b.BaseOffset() != 0 {
		return fmt.Errorf("base offset of a produced batch is %d, not 0: %w", b.BaseOffset(), kerr.InvalidRecord)
	}
	if len(b) > int(v.cfg.MaxMessageBytes) {
		return v.tooLarge(b)
	}
	if !b.Valid() {
		v.rejections.Checksum.Add(1)
		return fmt.Errorf("stored checksum %d: %w", b.CRC(), errChecksum)
	}
	return nil
}

var errChecksum = fmt.Errorf("record batch has a wrong checksum: %w", kerr.CorruptMessage)

func (v *validator) tooLarge(b record.Batch) error {
	return fmt.Errorf("record batch of %d bytes exceeds the limit of %d: %w", len(b), v.cfg.MaxMessageBytes, kerr.MessageTooLarge)
}

// batchHeader checks that a client's header is consistent (LogValidator.validateBatch, 3.9).
func (v *validator) batchHeader(b record.Batch) error {
	if v.origin != Client || b.Magic() < 2 {
		return nil
	}
	switch count := int64(b.Count()); {
	case count <= 0 || count != int64(b.LastOffsetDelta())+1:
		return fmt.Errorf("batch counts %d records and has a last offset delta of %d: %w", count, b.LastOffsetDelta(), kerr.InvalidRecord)
	case b.Control():
		return fmt.Errorf("clients cannot write control records: %w", kerr.InvalidRecord)
	case b.HasProducerID() && b.BaseSequence() < 0:
		return fmt.Errorf("producer %d sends sequence %d: %w", b.ProducerID(), b.BaseSequence(), kerr.InvalidRecord)
	}
	return nil
}

// inPlace checks the records of a magic 2 batch. keep is false if their offsets are not consecutive, for which a
// compressed batch is rewritten.
func (v *validator) inPlace(b record.Batch) (keep bool, err error) {
	if s, ok := b.Survey(); ok && v.allFit(b, s) {
		v.recordCount, v.maxTime = int(b.Count()), s.MaxTimestamp
		return s.Consecutive || v.codec == record.None, nil
	}
	if v.codec != record.None {
		return v.compressed(b)
	}
	var r record.Record
	it := b.Iter(b.Body())
	for it.Next(&r) {
		v.record(b, r.Offset, r.Timestamp, r.Key != nil)
	}
	if it.Err() != nil {
		return false, it.Err()
	}
	return true, v.verdict()
}

// allFit reports whether record would accept all records of a batch.
func (v *validator) allFit(b record.Batch, s record.Survey) bool {
	return !(v.cfg.Compact && s.NullKeys) && v.timeFits(b, s.MinTimestamp) && v.timeFits(b, s.MaxTimestamp)
}

func (v *validator) compressed(b record.Batch) (keep bool, err error) {
	skim, err := b.Skim()
	if err != nil {
		return false, err
	}
	defer skim.Close()
	keep = true
	base := b.BaseOffset()
	for i := int64(0); skim.Next(); i++ {
		v.record(b, skim.Offset, skim.Timestamp, skim.HasKey)
		keep = keep && skim.Offset == base+i
	}
	if skim.Err() != nil {
		return false, skim.Err()
	}
	return keep, v.verdict()
}

// each checks all records and passes them on. Messages are checked one after the other, and the first with a fault
// determines the error, be it of the message or of its records (LogValidator.validateBatch, 3.9).
func (v *validator) each(data []byte, first record.Batch, add func(*record.Record)) error {
	for walk := record.Split(data); walk.Next(); {
		b := walk.Batch()
		if b.Magic() != first.Magic() {
			v.rejections.Magic.Add(1)
			return fmt.Errorf("magic %d follows magic %d: %w", b.Magic(), first.Magic(), kerr.InvalidRecord)
		}
		err := b.Records(func(r *record.Record) error {
			v.record(b, r.Offset, r.Timestamp, r.Key != nil)
			add(r)
			return nil
		})
		if err != nil {
			return err
		}
		if err := v.verdict(); err != nil {
			return err
		}
	}
	return nil
}

// record checks one record and counts it.
func (v *validator) record(b record.Batch, offset, timestamp int64, hasKey bool) {
	index := int32(v.recordCount)
	v.recordCount++
	switch {
	case v.cfg.Compact && !hasKey:
		v.keyless++
		v.reject(index, func() string {
			return fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %v.", v.tp)
		})
	case !v.timeFits(b, timestamp):
		v.badTime = true
		v.reject(index, func() string { return v.timeMessage(offset, timestamp) })
	default:
		v.maxTime = max(v.maxTime, timestamp)
	}
}

// maxRecordErrors bounds the records of a batch that are reported as invalid: a batch of a few kilobytes can contain
// millions.
const maxRecordErrors = 10_000

func (v *validator) reject(index int32, why func() string) {
	if len(v.errors) < maxRecordErrors {
		v.errors = append(v.errors, RecordError{index, why()})
	}
}

// timeFits reports whether a record's timestamp may be stored. Append times are set by the broker.
func (v *validator) timeFits(b record.Batch, timestamp int64) bool {
	if v.cfg.TimestampType == record.CreateTime && timestamp != record.NoTimestamp {
		if v.cfg.TimestampBeforeMax < 0 && v.cfg.TimestampAfterMax < 0 {
			return true
		}
		age := saturatedMillis(v.now.UnixMilli() - timestamp)
		return (v.cfg.TimestampBeforeMax < 0 || age <= v.cfg.TimestampBeforeMax) &&
			(v.cfg.TimestampAfterMax < 0 || -age <= v.cfg.TimestampAfterMax)
	}
	return b.TimestampType() != record.LogAppendTime
}

func (v *validator) timeMessage(offset, timestamp int64) string {
	return fmt.Sprintf("Timestamp %d of message with offset %d is out of range or of a type that a producer cannot set.",
		timestamp, offset)
}

// verdict returns the error for all the records' errors.
func (v *validator) verdict() error {
	switch {
	case len(v.errors) == 0:
		return nil
	case v.badTime:
		return fmt.Errorf("%d records have an invalid timestamp: %w", len(v.errors), kerr.InvalidTimestamp)
	}
	return fmt.Errorf("%d records are invalid: %w", len(v.errors), kerr.InvalidRecord)
}

// message returns what a client is told about rejected records; empty for other errors.
func (v *validator) message() string {
	switch {
	case len(v.errors) == 0:
		return ""
	case v.badTime:
		return "One or more records have been rejected due to invalid timestamp"
	}
	return fmt.Sprintf("One or more records have been rejected due to %d record errors, the first: %s",
		len(v.errors), v.errors[0].Message)
}

// rebuild builds one magic 2 batch from the input, with the topic's codec.
func (v *validator) rebuild(data []byte, first record.Batch, codec record.Codec, level int) (validated, error) {
	v.recordCount, v.maxTime, v.errors, v.keyless = 0, record.NoTimestamp, nil, 0
	w := record.NewBuilder()
	w.Codec, w.Level = codec, level
	w.ProducerID, w.ProducerEpoch, w.BaseSequence = first.ProducerID(), first.ProducerEpoch(), first.BaseSequence()
	w.Transactional, w.Control = first.Transactional(), first.Control()
	err := v.each(data, first, func(r *record.Record) {
		r.Offset = int64(v.recordCount - 1)
		w.AddRecord(r)
	})
	if err != nil {
		return validated{}, err
	}
	b, err := w.Build()
	if err != nil {
		return validated{}, err
	}
	if len(b) > int(v.cfg.MaxMessageBytes) {
		return validated{}, v.tooLarge(b)
	}
	return validated{batch: b, count: v.recordCount, maxTime: v.maxTime}, nil
}

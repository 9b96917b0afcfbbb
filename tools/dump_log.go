package tools

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"barnabas/logstore/record"
)

// dumpOptions says what kafka-dump-log is to print.
type dumpOptions struct {
	deep, contents, skipMetadata, sanityOnly, verifyOnly bool
	maxBytes                                             int64
	parse                                                recordParser
}

// recordParser returns what to print for a record's key and value, nil for nothing.
type recordParser func(r *record.Record) (key, value *string)

func dumpLog(ctx context.Context, env *Env) error {
	o := newOptions("kafka-dump-log", "print the content of log segments, indexes and snapshots.")
	files := o.String("files", "", "the `files`, separated by commas (required)")
	o.Bool("deep-iteration", false, "print each record")
	o.Bool("print-data-log", false, "print keys and values of records")
	o.Bool("skip-record-metadata", false, "with --print-data-log: print only keys and values")
	o.Bool("index-sanity-check", false, "only check indexes as a broker does at its start, without printing entries")
	o.Bool("verify-index-only", false, "only compare indexes with the log, without printing entries")
	o.Bool("offsets-decoder", false, "decode records of __consumer_offsets")
	o.Bool("transaction-log-decoder", false, "decode records of __transaction_state")
	o.Bool("cluster-metadata-decoder", false, "not supported: clusters with ZooKeeper have no such log")
	o.Bool("remote-log-metadata-decoder", false, "not supported: there is no tiered storage")
	o.Int32("max-message-size", 5<<20, "accepted; batches may have any `size`")
	maxBytes := o.Int32("max-bytes", math.MaxInt32, "read at most this `size` of a log, in bytes")
	keyClass := o.String("key-decoder-class", "", "how keys are printed; a `class` of Apache Kafka's decoders")
	o.valueOptional("key-decoder-class", stringDecoder)
	valueClass := o.String("value-decoder-class", "", "how values are printed; a `class` of Apache Kafka's decoders")
	o.valueOptional("value-decoder-class", stringDecoder)
	if err := o.parse(env); err != nil {
		return err
	}
	if err := o.require("files"); err != nil {
		return err
	}
	d := dumpOptions{sanityOnly: o.has("index-sanity-check"), verifyOnly: o.has("verify-index-only"),
		skipMetadata: o.has("skip-record-metadata"), maxBytes: int64(*maxBytes)}
	var err error
	if d.parse, err = newRecordParser(o, *keyClass, *valueClass); err != nil {
		return err
	}
	for _, option := range []string{"print-data-log", "offsets-decoder", "transaction-log-decoder", "key-decoder-class", "value-decoder-class"} {
		d.contents = d.contents || o.has(option)
	}
	d.deep = d.contents || o.has("deep-iteration")
	return dumpFiles(ctx, env, &d, strings.Split(*files, ","))
}

func dumpFiles(ctx context.Context, env *Env, d *dumpOptions, files []string) error {
	problems := &dumpProblems{}
	var failed error
	for _, file := range files {
		file = strings.TrimSpace(file)
		env.printf("Dumping %s\n", file)
		if failed = dumpFile(ctx, env, d, file, problems); failed != nil {
			failed = fmt.Errorf("%s: %w", file, failed)
			break
		}
	}
	if err := env.flush(); err != nil {
		return err
	}
	problems.print(env)
	return failed
}

func dumpFile(ctx context.Context, env *Env, d *dumpOptions, file string, problems *dumpProblems) error {
	switch filepath.Ext(file) {
	case ".log":
		return dumpSegment(ctx, env, d, file, problems)
	case ".index":
		return dumpOffsetIndex(env, d, file, problems)
	case ".timeindex":
		return dumpTimeIndex(env, d, file, problems)
	case ".snapshot":
		return dumpSnapshot(env, file)
	case ".txnindex":
		return dumpTxnIndex(env, file)
	}
	if _, err := os.Stat(file); err != nil {
		return pathless(err)
	}
	env.errorf("Ignoring unknown file %s", file)
	return nil
}

// baseOffset returns the offset in a file's name.
func baseOffset(file string) (int64, error) {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return 0, errors.New("its name does not begin with an offset")
	}
	return n, nil
}

// dumpSegment prints a segment's batches and, if deep, its records.
func dumpSegment(ctx context.Context, env *Env, d *dumpOptions, file string, problems *dumpProblems) error {
	base, err := baseOffset(file)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return pathless(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return pathless(err)
	}
	env.printf("Log starting offset: %d\n", base)
	in := newBatchReader(f, 0, min(info.Size(), d.maxBytes))
	last := int64(-1)
	for ctx.Err() == nil {
		position := in.position
		b, err := in.next()
		if err == nil && b == nil {
			break
		}
		if err != nil {
			return err
		}
		printBatch(env, b, position)
		if !d.deep {
			continue
		}
		if err := printRecords(env, d, b, &last, file, problems); err != nil {
			return err
		}
	}
	if trailing := info.Size() - in.position; trailing > 0 && d.maxBytes == math.MaxInt32 {
		env.printf("Found %d invalid bytes at the end of %s\n", trailing, filepath.Base(file))
	}
	return ctx.Err()
}

// pathless returns a file error without the path, which is printed beside it.
func pathless(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// batchReader reads batches one after another.
type batchReader struct {
	in       *bufio.Reader
	limit    int64 // size in bytes
	position int64 // after the last whole batch
	buf      []byte
}

// newBatchReader reads limit bytes of a log, beginning at a position.
func newBatchReader(log io.ReaderAt, position, limit int64) *batchReader {
	return &batchReader{in: bufio.NewReaderSize(io.NewSectionReader(log, position, limit), 1<<20), limit: limit}
}

// next returns the next batch, valid until the next call, or nil if there is no whole one. What follows may be anything
// then, so it is examined only if it has the length that it claims.
func (r *batchReader) next() (record.Batch, error) {
	const upToMagic = record.Overhead + 5
	head, err := r.in.Peek(upToMagic)
	if len(head) < upToMagic {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if claimed := record.Overhead + int64(int32(binary.BigEndian.Uint32(head[8:]))); claimed > r.limit-r.position {
		return nil, nil
	}
	size, err := record.SizeOf(head)
	if err != nil {
		return nil, err
	}
	if cap(r.buf) < size {
		r.buf = make([]byte, size)
	}
	r.buf = r.buf[:size]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return nil, err
	}
	r.position += int64(size)
	return record.Batch(r.buf), nil
}

func timestampName(b record.Batch) string {
	switch {
	case b.Magic() == 0:
		return "NoTimestampType"
	case b.TimestampType() == record.LogAppendTime:
		return "LogAppendTime"
	}
	return "CreateTime"
}

func printBatch(env *Env, b record.Batch, position int64) {
	if b.Magic() >= 2 {
		horizon := "OptionalLong.empty"
		if ms, ok := b.DeleteHorizon(); ok {
			horizon = fmt.Sprintf("OptionalLong[%d]", ms)
		}
		env.printf("baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
			"partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s", b.BaseOffset(), b.LastOffset(), b.Count(),
			b.BaseSequence(), b.LastSequence(), b.ProducerID(), b.ProducerEpoch(), b.LeaderEpoch(), b.Transactional(), b.Control(), horizon)
	} else {
		env.printf("offset: %d", b.LastOffset())
	}
	env.printf(" position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n", position, timestampName(b),
		b.MaxTimestamp(), len(b), b.Magic(), b.Codec(), b.CRC(), b.Valid())
}

// printRecords prints the records of a batch. last is the offset of the previous one, -1 at first.
func printRecords(env *Env, d *dumpOptions, b record.Batch, last *int64, file string, problems *dumpProblems) error {
	stamp := timestampName(b)
	sequence := b.BaseSequence()
	return b.Records(func(r *record.Record) error {
		if *last != -1 && r.Offset != *last+1 {
			problems.gap(file, *last, r.Offset)
		}
		*last = r.Offset
		prefix := "| "
		if !d.skipMetadata {
			prefix = " "
			printMetadata(env, b, r, stamp, sequence)
		}
		if d.contents && !b.Control() {
			key, value := d.parse(r)
			if key != nil {
				env.printf("%skey: %s", prefix, *key)
			}
			if value != nil {
				env.printf(" payload: %s", *value)
			}
		}
		env.println()
		return nil
	})
}

func printMetadata(env *Env, b record.Batch, r *record.Record, stamp string, sequence int32) {
	env.printf("| offset: %d %s: %d keySize: %d valueSize: %d", r.Offset, stamp, r.Timestamp, sizeOrNull(r.Key), sizeOrNull(r.Value))
	if b.Magic() >= 2 {
		if sequence != record.NoSequence {
			sequence = record.AddSequence(sequence, int32(r.Offset-b.BaseOffset()))
		}
		headers := r.Headers()
		names := make([]string, len(headers))
		for i, h := range headers {
			names[i] = h.Key
		}
		env.printf(" sequence: %d headerKeys: [%s]", sequence, strings.Join(names, ","))
	}
	if b.Magic() < 2 {
		env.printf(" %s", legacyChecksum(b, r))
	}
	if b.Control() {
		env.printf(" %s", controlText(r))
	}
}

func sizeOrNull(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// legacyChecksum prints a message's own checksum. For one inside a wrapper it is computed from what a broker would
// store. The surplus brace is in the original.
func legacyChecksum(b record.Batch, r *record.Record) string {
	m := b
	if b.Codec() != record.None {
		m = record.Batch(record.AppendMessage(nil, b.Magic(), r.Offset, r.Timestamp, r.Key, r.Value))
	}
	return fmt.Sprintf("isValid: %t crc: %d}", m.Valid(), m.CRC())
}

// controlText describes a control record: int16 version, int16 type in the key; int16 version, int32 coordinator epoch
// in the value (KIP-98).
func controlText(r *record.Record) string {
	if len(r.Key) < 4 {
		return "controlType: UNKNOWN"
	}
	kind := int16(binary.BigEndian.Uint16(r.Key[2:]))
	if kind != 0 && kind != 1 || len(r.Value) < 6 {
		return fmt.Sprintf("controlType: UNKNOWN(%d)", kind)
	}
	marker := "ABORT"
	if kind == 1 {
		marker = "COMMIT"
	}
	return fmt.Sprintf("endTxnMarker: %s coordinatorEpoch: %d", marker, int32(binary.BigEndian.Uint32(r.Value[2:])))
}

// dumpSnapshot prints the producers' state. Layout: int16 version, uint32 CRC-32C of what follows, int32 count, entries
// of 46 bytes.
func dumpSnapshot(env *Env, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return pathless(err)
	}
	entries, err := snapshotEntries(data)
	if err != nil {
		env.errorf("%s: %v", file, err)
		return nil
	}
	be := binary.BigEndian
	for ; len(entries) > 0; entries = entries[snapshotEntrySize:] {
		e := entries[:snapshotEntrySize]
		lastSeq, lastOffset, delta := int32(be.Uint32(e[10:])), int64(be.Uint64(e[14:])), int32(be.Uint32(e[22:]))
		timestamp := int64(be.Uint64(e[26:]))
		env.printf("producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d ",
			int64(be.Uint64(e)), int16(be.Uint16(e[8:])), int32(be.Uint32(e[34:])), optionalLong(int64(be.Uint64(e[38:]))), timestamp)
		if lastOffset >= 0 {
			env.printf("firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
				subtractSequence(lastSeq, delta), lastSeq, lastOffset, delta, timestamp)
		}
		env.println()
	}
	return nil
}

const (
	snapshotHeader    = 10
	snapshotEntrySize = 46
)

func snapshotEntries(data []byte) ([]byte, error) {
	be := binary.BigEndian
	switch {
	case len(data) < snapshotHeader:
		return nil, errors.New("the snapshot is too short")
	case be.Uint16(data) != 1:
		return nil, fmt.Errorf("the snapshot has the unknown version %d", be.Uint16(data))
	case be.Uint32(data[2:]) != crc32.Checksum(data[6:], crc32.MakeTable(crc32.Castagnoli)):
		return nil, errors.New("the snapshot has a wrong checksum")
	case int64(len(data)-snapshotHeader) != int64(be.Uint32(data[6:]))*snapshotEntrySize:
		return nil, fmt.Errorf("the snapshot is too short for its %d entries", be.Uint32(data[6:]))
	}
	return data[snapshotHeader:], nil
}

func optionalLong(n int64) string {
	if n < 0 {
		return "OptionalLong.empty"
	}
	return fmt.Sprintf("OptionalLong[%d]", n)
}

// subtractSequence returns the sequence number n before seq, which wraps around below 0.
func subtractSequence(seq, n int32) int32 {
	if seq < n {
		return math.MaxInt32 - (n - seq) + 1
	}
	return seq - n
}

// dumpTxnIndex prints aborted transactions. An entry is int16 version, int64 producer id, first, last and last stable
// offset.
func dumpTxnIndex(env *Env, file string) error {
	const size = 34
	data, err := os.ReadFile(file)
	if err != nil {
		return pathless(err)
	}
	be := binary.BigEndian
	for ; len(data) >= size; data = data[size:] {
		env.printf("version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n", be.Uint16(data),
			int64(be.Uint64(data[2:])), int64(be.Uint64(data[10:])), int64(be.Uint64(data[18:])), int64(be.Uint64(data[26:])))
	}
	return nil
}

package tools

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// formatter appends a record to the output.
type formatter interface {
	format(dst []byte, r *kgo.Record) ([]byte, error)
}

// Names of the formatters, including those of older releases.
const (
	formatterPackage = "org.apache.kafka.tools.consumer."
	defaultFormatter = formatterPackage + "DefaultMessageFormatter"
)

func newFormatter(class string, props map[string]string) (formatter, error) {
	switch class {
	case defaultFormatter, "kafka.tools.DefaultMessageFormatter",
		formatterPackage + "LoggingMessageFormatter", "kafka.tools.LoggingMessageFormatter": // logs at a level that is not shown, beside printing
		return newPlainFormatter(props)
	case formatterPackage + "NoOpMessageFormatter", "kafka.tools.NoOpMessageFormatter":
		return silentFormatter{}, nil
	case formatterPackage + "OffsetsMessageFormatter", "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter":
		return jsonFormatter{offsetsJSON}, nil
	case formatterPackage + "GroupMetadataMessageFormatter", "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter":
		return jsonFormatter{groupMetadataJSON}, nil
	case formatterPackage + "TransactionLogMessageFormatter", "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter":
		return jsonFormatter{transactionJSON}, nil
	}
	return nil, usagef("unknown formatter %s", class)
}

type silentFormatter struct{}

func (silentFormatter) format(dst []byte, _ *kgo.Record) ([]byte, error) { return dst, nil }

// plainFormatter prints the selected parts of a record, with separators.
type plainFormatter struct {
	timestamp, partition, offset, headers, key, value bool
	separator, lineSeparator, headersSeparator, null  string
	decodeKey, decodeValue, decodeHeader              decoder
}

func newPlainFormatter(props map[string]string) (*plainFormatter, error) {
	f := &plainFormatter{value: true, separator: "\t", lineSeparator: "\n", headersSeparator: ",", null: "null"}
	flags := map[string]*bool{"print.timestamp": &f.timestamp, "print.partition": &f.partition, "print.offset": &f.offset,
		"print.headers": &f.headers, "print.key": &f.key, "print.value": &f.value}
	texts := map[string]*string{"key.separator": &f.separator, "line.separator": &f.lineSeparator,
		"headers.separator": &f.headersSeparator, "null.literal": &f.null}
	decoders := map[string]*decoder{"key.deserializer": &f.decodeKey, "value.deserializer": &f.decodeValue, "headers.deserializer": &f.decodeHeader}
	for name, v := range props {
		switch {
		case flags[name] != nil:
			*flags[name] = isTrue(v)
		case texts[name] != nil:
			*texts[name] = v
		case decoders[name] != nil:
			d, err := newDecoder(v)
			if err != nil {
				return nil, err
			}
			*decoders[name] = d
		}
	}
	return f, nil
}

func (f *plainFormatter) format(dst []byte, r *kgo.Record) ([]byte, error) {
	first := true
	next := func() {
		if !first {
			dst = append(dst, f.separator...)
		}
		first = false
	}
	if f.timestamp {
		next()
		dst = appendTimestamp(dst, r)
	}
	if f.partition {
		next()
		dst = strconv.AppendInt(append(dst, "Partition:"...), int64(r.Partition), 10)
	}
	if f.offset {
		next()
		dst = strconv.AppendInt(append(dst, "Offset:"...), r.Offset, 10)
	}
	var err error
	if f.headers {
		next()
		if dst, err = f.appendHeaders(dst, r.Headers); err != nil {
			return dst, err
		}
	}
	if f.key {
		next()
		if dst, err = f.append(dst, r.Key, f.decodeKey); err != nil {
			return dst, fmt.Errorf("key: %w", err)
		}
	}
	if f.value {
		next()
		if dst, err = f.append(dst, r.Value, f.decodeValue); err != nil {
			return dst, fmt.Errorf("value: %w", err)
		}
	}
	return append(dst, f.lineSeparator...), nil
}

func (f *plainFormatter) appendHeaders(dst []byte, headers []kgo.RecordHeader) ([]byte, error) {
	if len(headers) == 0 {
		return append(dst, "NO_HEADERS"...), nil
	}
	for i, h := range headers {
		if i > 0 {
			dst = append(dst, f.headersSeparator...)
		}
		dst = append(append(dst, h.Key...), ':')
		var err error
		if dst, err = f.append(dst, h.Value, f.decodeHeader); err != nil {
			return dst, fmt.Errorf("header %s: %w", h.Key, err)
		}
	}
	return dst, nil
}

func (f *plainFormatter) append(dst, b []byte, d decoder) ([]byte, error) {
	if b == nil || d == nil {
		return appendNullable(dst, b, f.null), nil
	}
	return d(dst, b)
}

func appendNullable(dst, b []byte, null string) []byte {
	if b == nil {
		return append(dst, null...)
	}
	return append(dst, b...)
}

func appendTimestamp(dst []byte, r *kgo.Record) []byte {
	switch r.Attrs.TimestampType() {
	case 0:
		dst = append(dst, "CreateTime:"...)
	case 1:
		dst = append(dst, "LogAppendTime:"...)
	default:
		return append(dst, "NO_TIMESTAMP"...)
	}
	return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10)
}

// decoder appends the decoded form of bytes. A nil decoder appends them as they are.
type decoder func(dst, b []byte) ([]byte, error)

// newDecoder returns the decoder for one of Apache Kafka's deserializers.
func newDecoder(class string) (decoder, error) {
	switch strings.TrimPrefix(class, "org.apache.kafka.common.serialization.") {
	case "StringDeserializer", "ByteArrayDeserializer", "BytesDeserializer", "ByteBufferDeserializer":
		return nil, nil
	case "ShortDeserializer":
		return sized(2, func(dst, b []byte) []byte {
			return strconv.AppendInt(dst, int64(int16(binary.BigEndian.Uint16(b))), 10)
		}), nil
	case "IntegerDeserializer":
		return sized(4, func(dst, b []byte) []byte {
			return strconv.AppendInt(dst, int64(int32(binary.BigEndian.Uint32(b))), 10)
		}), nil
	case "LongDeserializer":
		return sized(8, func(dst, b []byte) []byte { return strconv.AppendInt(dst, int64(binary.BigEndian.Uint64(b)), 10) }), nil
	case "FloatDeserializer":
		return sized(4, func(dst, b []byte) []byte {
			return appendFloat(dst, float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 32)
		}), nil
	case "DoubleDeserializer":
		return sized(8, func(dst, b []byte) []byte {
			return appendFloat(dst, math.Float64frombits(binary.BigEndian.Uint64(b)), 64)
		}), nil
	case "BooleanDeserializer":
		return sized(1, func(dst, b []byte) []byte { return strconv.AppendBool(dst, b[0] != 0) }), nil
	case "UUIDDeserializer", "VoidDeserializer":
		return func(dst, b []byte) ([]byte, error) { return append(dst, b...), nil }, nil
	}
	return nil, usagef("unknown deserializer %s", class)
}

func sized(size int, appendTo func(dst, b []byte) []byte) decoder {
	return func(dst, b []byte) ([]byte, error) {
		if len(b) != size {
			return dst, fmt.Errorf("size of data received is %d, not %d", len(b), size)
		}
		return appendTo(dst, b), nil
	}
}

// appendFloat always includes a decimal point, as Java does.
func appendFloat(dst []byte, f float64, bits int) []byte {
	text := strconv.FormatFloat(f, 'f', -1, bits)
	if !strings.Contains(text, ".") && !math.IsInf(f, 0) && !math.IsNaN(f) {
		text += ".0"
	}
	return append(dst, text...)
}

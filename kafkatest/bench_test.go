package kafkatest_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceFrame is one Produce request with one batch, as a client encodes it.
func produceFrame(b *testing.B, topic string, records, valueBytes int) []byte {
	b.Helper()
	w := record.NewBuilder()
	for range records {
		w.Add(1_790_000_000_000, nil, make([]byte, valueBytes))
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 8, 1, 30000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Records = w.MustBuild()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}

// BenchmarkProduce sends the same request repeatedly over one connection, with some in flight. The client's share of
// the cost is one write(2) and one read(2) for several requests.
func BenchmarkProduce(b *testing.B) {
	for _, bench := range []struct {
		name                string
		records, valueBytes int
		inFlight            int
	}{{"batch=16KiB", 140, 100, 5}, {"batch=100B", 1, 100, 1}} {
		b.Run(bench.name, func(b *testing.B) {
			c := kafkatest.Run(b)
			if _, err := kadm.NewClient(client(b, c)).CreateTopic(b.Context(), 1, 1, nil, "t"); err != nil {
				b.Fatal(err)
			}
			conn, err := net.Dial("tcp", c.Broker(0).Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			b.SetBytes(int64(bench.records * bench.valueBytes))
			produceMany(b, conn, produceFrame(b, "t", bench.records, bench.valueBytes), bench.inFlight)
		})
	}
}

// produceMany sends a request repeatedly, with some in flight.
func produceMany(b *testing.B, conn net.Conn, frame []byte, inFlight int) {
	answers := make([]byte, 64<<10)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		n := min(inFlight, b.N-sent)
		for range n {
			if _, err := conn.Write(frame); err != nil {
				b.Fatal(err)
			}
		}
		for range n {
			readFrame(b, conn, answers)
		}
		sent += n
	}
}

func readFrame(b *testing.B, r io.Reader, buf []byte) {
	if _, err := io.ReadFull(r, buf[:4]); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(r, buf[:binary.BigEndian.Uint32(buf)]); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkFetch repeatedly reads a log of 64 MiB, 1 MiB per request, and discards what it reads.
func BenchmarkFetch(b *testing.B) {
	c := kafkatest.Run(b)
	if _, err := kadm.NewClient(client(b, c)).CreateTopic(b.Context(), 1, 1, nil, "t"); err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", c.Broker(0).Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fetchMany(b, conn)
}

// fetchMany fills topic t with 64 MiB and repeatedly reads it, 1 MiB per request.
func fetchMany(b *testing.B, conn net.Conn) {
	const records, valueBytes, batches = 140, 100, 4096
	frame, answer := produceFrame(b, "t", records, valueBytes), make([]byte, 2<<20)
	for range batches {
		if _, err := conn.Write(frame); err != nil {
			b.Fatal(err)
		}
		readFrame(b, conn, answer)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.SessionEpoch = 11, 50<<20, 1, 500, -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t.Topic, t.Partitions = "t", append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		req.Topics[0].Partitions[0].FetchOffset = int64(i*65%(batches-100)) * records
		if _, err := conn.Write(format.AppendRequest(nil, req, 1)); err != nil {
			b.Fatal(err)
		}
		readFrame(b, conn, answer)
	}
}

package integration

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"barnabas/kafkatest"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a connection that sends single requests, in the versions that a test chooses.
type wire struct {
	t        testing.TB
	conn     net.Conn
	next     int32
	clientID *string // nil: null
}

func dialWire(t testing.TB, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	id := "test"
	return &wire{t: t, conn: conn, clientID: &id}
}

// send writes a request.
func (w *wire) send(req kmsg.Request) {
	w.t.Helper()
	w.next++
	var opts []kmsg.RequestFormatterOpt
	if w.clientID != nil {
		opts = append(opts, kmsg.FormatterClientID(*w.clientID))
	}
	if _, err := w.conn.Write(kmsg.NewRequestFormatter(opts...).AppendRequest(nil, network.LaidOut(req), w.next)); err != nil {
		w.t.Fatal(err)
	}
}

// frame reads one response without its size: correlation id and body.
func (w *wire) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(w.conn, body)
	return body, err
}

// call sends a request and decodes its response.
func (w *wire) call(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	w.send(req)
	body, err := w.frame()
	if err != nil {
		w.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return w.decode(req, body)
}

// decode decodes the response to the last request.
func (w *wire) decode(req kmsg.Request, body []byte) kmsg.Response {
	w.t.Helper()
	if got := int32(binary.BigEndian.Uint32(body)); got != w.next {
		w.t.Fatalf("response %d to request %d", got, w.next)
	}
	body = body[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if body[0] != 0 {
			w.t.Fatal("the response header has tagged fields")
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		w.t.Fatalf("%s v%d: the response cannot be decoded: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		w.t.Fatalf("%s v%d: the response has %d bytes, of which %d were decoded", kmsg.NameForKey(req.Key()), req.GetVersion(), len(body), len(again))
	}
	return resp
}

// closed checks that the broker closes the connection without a response.
func (w *wire) closed() {
	w.t.Helper()
	n, err := w.conn.Read(make([]byte, 1))
	if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatalf("the connection is not closed: %d bytes, %v", n, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newClient returns a client that the caller closes.
func newClient(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// admin returns a client to prepare a cluster for a test.
func admin(t *testing.T, c *kafkatest.Cluster) *kadm.Client {
	t.Helper()
	return adminAt(t, c.Addrs()...)
}

// adminAt returns a client of the brokers at these addresses, which is closed when the test ends.
func adminAt(t testing.TB, addrs ...string) *kadm.Client {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addrs...))
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// newTopic creates a topic and returns its id.
func newTopic(t *testing.T, c *kafkatest.Cluster, name string, partitions int32, replicas int16, settings ...string) [16]byte {
	t.Helper()
	configs := make(map[string]*string)
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	resp, err := admin(t, c).CreateTopic(t.Context(), partitions, replicas, configs, name)
	if err != nil {
		t.Fatal(err)
	}
	return resp.ID
}

// batch returns a record batch of values, one record each.
func batch(values ...string) *record.Builder {
	w := record.NewBuilder()
	for _, v := range values {
		w.Add(1_790_000_000_000, []byte("k"), []byte(v))
	}
	return w
}

// producing returns a Produce request with one batch for partition 0 of a topic.
func producing(version int16, topic string, data []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 30000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Records = data
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produce sends one batch and returns partition 0's response.
func (w *wire) produce(version int16, topic string, data []byte) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	resp := w.call(producing(version, topic, data)).(*kmsg.ProduceResponse)
	return resp.Topics[0].Partitions[0]
}

// fetching returns a Fetch request for partition 0 of a topic from an offset.
func fetching(version int16, topic string, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes = version, 1<<20, 1
	req.SessionEpoch = -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetch sends the request and returns partition 0's response.
func (w *wire) fetch(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	resp := w.call(req).(*kmsg.FetchResponse)
	if len(resp.Topics) == 0 {
		w.t.Fatalf("Fetch v%d: error %d, no topics", req.Version, resp.ErrorCode)
	}
	return resp.Topics[0].Partitions[0]
}

// offsets returns the base offsets of the batches in a response.
func offsets(data []byte) []int64 {
	var bases []int64
	for walk := record.Split(data); walk.Next(); {
		bases = append(bases, walk.Batch().BaseOffset())
	}
	return bases
}

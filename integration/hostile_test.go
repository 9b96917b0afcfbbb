package integration

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const hostileInputs = 10000

// TestHostileInputs sends random bytes, truncated frames, huge lengths and valid requests with corrupted fields. The
// broker stays up, its memory bounded and its data intact.
func TestHostileInputs(t *testing.T) {
	p := newProcess(t, 0, zookeeper(t))
	p.start()
	cl := newClient(t, kgo.SeedBrokers(p.addr()), kgo.AllowAutoTopicCreation())
	defer cl.Close()
	for i := range 100 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "kept", Value: fmt.Appendf(nil, "value %d", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	before := p.residentBytes()
	for range hostileInputs {
		attack(t, p.addr(), hostile(random))
	}
	if grown := p.residentBytes() - before; grown > 200<<20 {
		t.Errorf("the broker's memory has grown by %d MiB", grown>>20)
	}
	values := readAll(t, p.addr(), "kept", 0)
	if len(values) < 100 {
		t.Fatalf("%d records are left of 100", len(values))
	}
	for i := range 100 {
		if values[i] != fmt.Sprintf("value %d", i) {
			t.Errorf("record %d is %q", i, values[i])
		}
	}
	p.stop()
}

// attack sends bytes over a new connection and reads whatever arrives within a moment.
func attack(t *testing.T, addr string, data []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("the broker no longer accepts connections: %v", err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(2 * time.Millisecond))
	_, _ = c.Write(data)
	_, _ = c.Read(make([]byte, 100))
}

func hostile(r *rand.Rand) []byte {
	switch r.IntN(5) {
	case 0: // random bytes
		return noise(r, r.IntN(300))
	case 1: // a huge length with little after it
		return append(binary.BigEndian.AppendUint32(nil, r.Uint32()|0x01000000), noise(r, r.IntN(50))...)
	case 2: // random bytes in a frame with a real API key
		body := binary.BigEndian.AppendUint16(nil, uint16(r.IntN(70)))
		body = binary.BigEndian.AppendUint16(body, uint16(r.IntN(14)))
		return inFrame(append(body, noise(r, r.IntN(200))...))
	}
	request := validRequest(r)
	switch r.IntN(3) {
	case 0: // truncated
		return request[:r.IntN(len(request))]
	case 1: // some bytes changed after key and version
		for range 1 + r.IntN(4) {
			request[8+r.IntN(len(request)-8)] = byte(r.Uint32())
		}
	default: // a field of 4 bytes set to an extreme value
		if at := 8 + r.IntN(len(request)-8); at+4 <= len(request) {
			copy(request[at:], [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}}[r.IntN(3)])
		}
	}
	return request
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func inFrame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// validRequest returns a request that a client could send, of any API except those that change leaders.
func validRequest(r *rand.Rand) []byte {
	keys := []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.FindCoordinator,
		kmsg.JoinGroup, kmsg.SyncGroup, kmsg.ApiVersions, kmsg.InitProducerID, kmsg.OffsetForLeaderEpoch, kmsg.DescribeConfigs,
		kmsg.DescribeLogDirs, kmsg.DescribeProducers, kmsg.DescribeCluster, kmsg.CreatePartitions, kmsg.IncrementalAlterConfigs}
	req := kmsg.RequestForKey(keys[r.IntN(len(keys))].Int16())
	req.SetVersion(int16(r.IntN(int(req.MaxVersion()) + 1)))
	topic := "hostile"
	switch q := req.(type) {
	case *kmsg.ProduceRequest:
		q.Acks, q.TimeoutMillis = int16(r.IntN(3)-1), 100
		q.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: noise(r, 100)}}}}
	case *kmsg.FetchRequest:
		q.MaxWaitMillis, q.MaxBytes = 1, 1<<20
		q.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 1 << 20}}}}
	case *kmsg.MetadataRequest:
		q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	case *kmsg.ListOffsetsRequest:
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}
	case *kmsg.DescribeConfigsRequest:
		q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: topic}}
	}
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

package integration

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"barnabas/kafkatest"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sendAll writes requests at once, as a producer with several in flight does, and returns their responses.
func (w *wire) sendAll(reqs []*kmsg.ProduceRequest) []*kmsg.ProduceResponse {
	w.t.Helper()
	var all []byte
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(*w.clientID))
	for i, req := range reqs {
		all = append(all, formatter.AppendRequest(nil, network.LaidOut(req), int32(i+1))...)
	}
	if _, err := w.conn.Write(all); err != nil {
		w.t.Fatal(err)
	}
	var resps []*kmsg.ProduceResponse
	for i, req := range reqs {
		body, err := w.frame()
		if err != nil {
			w.t.Fatalf("%s, response %d: %v", req.Topics[0].Topic, i, err)
		}
		if got := int(binary.BigEndian.Uint32(body)); got != i+1 {
			w.t.Fatalf("response %d comes as number %d", got, i+1)
		}
		w.next = int32(i + 1)
		resps = append(resps, w.decode(req, body).(*kmsg.ProduceResponse))
	}
	return resps
}

// pipelined are requests for a topic of two partitions: good ones, and what a client may do wrong.
func pipelined(version int16, acks int16, topic string) []*kmsg.ProduceRequest {
	idempotent := func(epoch int16, sequence int32, values ...string) []byte {
		b := batch(values...)
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = 4000, epoch, sequence
		return b.MustBuild()
	}
	broken := batch("broken").MustBuild()
	broken[len(broken)-1] ^= 1
	keyless := record.NewBuilder()
	keyless.Add(1_790_000_000_000, nil, []byte("no key"))
	transactional := batch("transactional")
	transactional.ProducerID, transactional.Transactional = 4001, true
	var reqs []*kmsg.ProduceRequest
	for _, data := range [][]byte{
		batch("a").MustBuild(), batch("b", "c").MustBuild(), broken, idempotent(0, 0, "d"), idempotent(0, 1, "e", "f"),
		idempotent(0, 1, "e", "f"), idempotent(0, 7, "gap"), idempotent(0, 3, "g"), keyless.MustBuild(), nil, {1, 2, 3},
		idempotent(1, 0, "next epoch"), idempotent(0, 4, "old epoch"), idempotent(1, 1, "h"), transactional.MustBuild(),
		batch("i").MustBuild(),
	} {
		req := producing(version, topic, data)
		req.Acks = acks
		second := kmsg.NewProduceRequestTopicPartition()
		second.Partition, second.Records = 1, batch("of the second partition").MustBuild()
		missing := kmsg.NewProduceRequestTopicPartition()
		missing.Partition, missing.Records = 9, batch("of no partition").MustBuild()
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, second, missing)
		reqs = append(reqs, req)
	}
	return reqs
}

// TestPipelinedProduce: requests that arrive together have the answers of requests sent one after the other, although
// their batches are written together.
func TestPipelinedProduce(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(2))
	for _, version := range []int16{3, 8, 9, 11} {
		for _, acks := range []int16{-1, 1} {
			for _, replicas := range [][]int32{{0}, {0, 1}} {
				topic := fmt.Sprintf("v%d-acks%d-on%d", version, acks, len(replicas))
				newCompactedTopic(t, c, topic+"-alone", replicas)
				newCompactedTopic(t, c, topic+"-joined", replicas)
				var alone []*kmsg.ProduceResponse
				w := dialWire(t, c.Broker(0).Addr())
				for _, req := range pipelined(version, acks, topic+"-alone") {
					alone = append(alone, w.call(req).(*kmsg.ProduceResponse))
				}
				joined := dialWire(t, c.Broker(0).Addr()).sendAll(pipelined(version, acks, topic+"-joined"))
				for i := range alone {
					if diff := cmp.Diff(asText(t, alone[i]), strings.ReplaceAll(asText(t, joined[i]), "-joined", "-alone")); diff != "" {
						t.Errorf("%s, request %d (-alone +joined):\n%s", topic, i, diff)
					}
				}
			}
		}
	}
}

func asText(t *testing.T, resp *kmsg.ProduceResponse) string {
	t.Helper()
	text, err := json.MarshalIndent(resp, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newCompactedTopic creates a topic whose two partitions are led by broker 0.
func newCompactedTopic(t *testing.T, c *kafkatest.Cluster, name string, replicas []int32) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	for p := range int32(2) {
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: replicas})
	}
	policy := kmsg.NewCreateTopicsRequestTopicConfig()
	policy.Name, policy.Value = "cleanup.policy", new("compact")
	topic.Configs = append(topic.Configs, policy)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = 5, 30000, append(req.Topics, topic)
	resp := dialWire(t, controllerAddr(t, c)).call(req).(*kmsg.CreateTopicsResponse)
	if resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("creating %s: %+v", name, resp.Topics[0])
	}
	leader := dialWire(t, c.Broker(0).Addr())
	until(t, "the partitions are led", func(context.Context) bool { return leader.leads(name, 0) && leader.leads(name, 1) })
}

// leads reports whether the broker leads a partition.
func (w *wire) leads(topic string, partition int32) bool {
	w.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	req.Version, req.Topics = 5, []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return w.call(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode == 0
}

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchConversation sends Fetch requests to brokers 0, 1 and 2 and describes their responses.
type fetchConversation struct {
	t     *testing.T
	addrs []string
	names map[[16]byte]string
	told  []string
}

// ask sends a request to a broker, over w unless that is nil, and returns the response.
func (c *fetchConversation) ask(w *wire, broker int, what string, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.t.Helper()
	if w == nil {
		w = dialWire(c.t, c.addrs[broker])
	}
	req.MaxWaitMillis = 10
	resp := w.call(req).(*kmsg.FetchResponse)
	var s strings.Builder
	fmt.Fprintf(&s, "v%d %s, broker %d: code %d session %v", req.Version, what, broker, resp.ErrorCode, resp.SessionID != 0)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&s, "\n %s%s-%d code %d marks %d %d %d diverging %d@%d leader %d in %d preferred %d, %d bytes", t.Topic, c.names[t.TopicID], p.Partition, p.ErrorCode,
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset, p.CurrentLeader.LeaderID,
				p.CurrentLeader.LeaderEpoch, p.PreferredReadReplica, len(p.RecordBatches))
		}
	}
	for _, b := range resp.Brokers {
		fmt.Fprintf(&s, "\n endpoint of %d %v", b.NodeID, c.addrs[b.NodeID] == fmt.Sprintf("%s:%d", b.Host, b.Port))
	}
	c.told = append(c.told, s.String())
	return resp
}

// fetchEverywhere fetches by topic id from leaders, followers and others, in sessions and without, as consumers and as
// followers. Topic t has its leader on broker 0 and a replica on broker 1.
func fetchEverywhere(t *testing.T, addrs []string) []string {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addrs...), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	for _, topic := range []string{"t", "u"} {
		assigned(t, cl, topic, [][]int32{{0, 1}, {1, 2}})
		for partition := range int32(2) {
			must(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte("v")}).FirstErr())
		}
	}
	adm := kadm.NewClient(cl)
	topics, err := adm.ListTopics(t.Context(), "t", "u")
	must(t, err)
	known, other, unknown := topics["t"].ID, topics["u"].ID, [16]byte{1}
	c := &fetchConversation{t: t, addrs: addrs, names: map[[16]byte]string{known: "t", other: "u", unknown: "unknown", {}: ""}}
	for version := int16(12); version <= 17; version++ {
		request := func(id [16]byte, partitions ...int32) *kmsg.FetchRequest {
			req := fetching(version, "t", 0)
			part := req.Topics[0].Partitions[0]
			part.CurrentLeaderEpoch, part.LastFetchedEpoch = -1, -1
			req.Topics[0].TopicID, req.Topics[0].Partitions = id, nil
			for _, part.Partition = range partitions {
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
			}
			return req
		}
		for broker := range addrs {
			c.ask(nil, broker, "known", request(known, 0, 1))
			c.ask(nil, broker, "unknown", request(unknown, 0))
			c.ask(nil, broker, "no id", request([16]byte{}, 0))
			c.ask(nil, broker, "unknown partition", request(known, 0, 7))
			for _, epoch := range []int32{0, 9} {
				req := request(known, 0, 1)
				for i := range req.Topics[0].Partitions {
					req.Topics[0].Partitions[i].CurrentLeaderEpoch = epoch
				}
				c.ask(nil, broker, fmt.Sprint("current epoch ", epoch), req)
			}
			for _, last := range []int32{0, 3} {
				req := request(known, 0)
				req.Topics[0].Partitions[0].LastFetchedEpoch, req.Topics[0].Partitions[0].FetchOffset = last, 1
				c.ask(nil, broker, fmt.Sprint("last fetched epoch ", last), req)
			}
			for _, replica := range []int32{1, 2, 7} {
				for _, epoch := range []int64{-1, 5} {
					req := request(known, 0)
					req.ReplicaID = replica
					if version >= 15 {
						req.ReplicaID, req.ReplicaState.ID, req.ReplicaState.Epoch = -1, replica, epoch
					}
					c.ask(nil, broker, fmt.Sprintf("replica %d with epoch %d", replica, epoch), req)
				}
			}
		}
		w := dialWire(t, addrs[0])
		step := func(what string, session, epoch int32, req *kmsg.FetchRequest) int32 {
			t.Helper()
			req.SessionID, req.SessionEpoch = session, epoch
			return c.ask(w, 0, what, req).SessionID
		}
		nothing := func() *kmsg.FetchRequest {
			req := request(known)
			req.Topics = nil
			return req
		}
		id := step("full", 0, 0, request(known, 0))
		step("nothing new", id, 1, nothing())
		step("adds unknown", id, 2, request(unknown, 0, 1))
		step("unknown stays", id, 3, nothing())
		step("wrong epoch", id, 9, nothing())
		step("wrong session", id+1, 4, nothing())
		req := nothing()
		req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "unknown", TopicID: unknown, Partitions: []int32{0}}}
		step("forgets unknown", id, 4, req)
		if version == 13 || version == 17 {
			req = fetching(12, "t", 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch, req.Topics[0].Partitions[0].LastFetchedEpoch = -1, -1
			step("continues by name", id, 5, req)
		}
		req = request(known, 1)
		req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", TopicID: known, Partitions: []int32{0}}}
		step("forgets the last and adds another", id, 5, req)
		step("ends", id, -1, nothing())
		step("is over", id, 6, nothing())
		id = step("full by id or name", 0, 0, request(known, 0))
		if version == 12 {
			req = request(known, 0)
			req.Version = 13
			step("continues by id", id, 1, req)
		}
	}
	return c.told
}

// assigned creates a topic with these replicas, and waits until all its leaders are known everywhere.
func assigned(t *testing.T, cl *kgo.Client, topic string, replicas [][]int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	for i, on := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), on
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	req.TimeoutMillis, req.Topics = 10000, append(req.Topics, rt)
	if resp, err := req.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatal(topic, err, resp)
	}
	until(t, "the leaders of "+topic, func(ctx context.Context) bool {
		topics, err := kadm.NewClient(cl).ListTopics(ctx, topic)
		return err == nil && len(topics[topic].Partitions) == len(replicas) && !slices.ContainsFunc(topics[topic].Partitions.Sorted(),
			func(p kadm.PartitionDetail) bool { return p.Leader < 0 || len(p.ISR) != len(replicas[p.Partition]) })
	})
}

// TestFetchByTopicIDIsThatOfApacheKafka: Fetch in the versions from which topics have ids (KIP-516), at three brokers.
func TestFetchByTopicIDIsThatOfApacheKafka(t *testing.T) {
	peer(t)
	server := zookeeper(t)
	type broker interface {
		start()
		stop()
		addr() string
	}
	run := func(chroot string, make func(id int, zk string) broker) []string {
		var brokers []broker
		var addrs []string
		for id := range 3 {
			b := make(id, server+chroot)
			b.start()
			brokers, addrs = append(brokers, b), append(addrs, b.addr())
		}
		defer func() {
			for _, b := range brokers {
				b.stop()
			}
		}()
		return fetchEverywhere(t, addrs)
	}
	want := run("/theirs", func(id int, zk string) broker { return newPeer(t, id, zk, "broker.rack=r1") })
	got := run("/ours", func(id int, zk string) broker { return newProcess(t, id, zk, "broker.rack=r1") })
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("Apache Kafka's answer (-) and ours (+)\n%s", cmp.Diff(want[i], got[i]))
		}
	}
}

package api

import (
	"testing"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/replica"
	"barnabas/logstore"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unreplicated is a Produce request whose records have been appended in t-0 and wait for another replica.
func unreplicated(t *testing.T, p *replica.Partition, version int16) (*kmsg.ProduceResponse, []produced) {
	t.Helper()
	b := record.NewBuilder()
	b.Add(1000, nil, []byte("v"))
	info, err := p.Append(b.MustBuild(), true, logstore.LeaderAppend{ProduceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = version
	resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: make([]kmsg.ProduceResponseTopicPartition, 1)}}
	out := &resp.Topics[0].Partitions[0]
	out.Default()
	out.BaseOffset, out.LogStartOffset = info.FirstOffset, info.LogStartOffset
	return resp, []produced{{p, info.LeaderEpoch, info.LastOffset + 1, out}}
}

// TestProduceThatIsNotReplicated: the response has the offsets of records that this broker has appended although they
// are not known to be on enough replicas, and names the new leader if there is one (KIP-951).
func TestProduceThatIsNotReplicated(t *testing.T) {
	replicas := newReplicas(t)
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: replicas}}
	p := assign(t, replicas, 1, 0, 1, 2)

	resp, waits := unreplicated(t, p, 10)
	h.awaitReplicas(t.Context(), "PLAINTEXT", time.Now(), waits, resp)
	if out := waits[0].out; out.ErrorCode != kerr.RequestTimedOut.Code || out.BaseOffset != 0 || out.LogStartOffset != 0 || out.CurrentLeader.LeaderID != -1 {
		t.Errorf("timed out: %+v", out)
	}

	resp, waits = unreplicated(t, p, 10)
	assign(t, replicas, 2, 1, 1, 2) // the metadata does not know it yet
	h.awaitReplicas(t.Context(), "PLAINTEXT", time.Now().Add(time.Minute), waits, resp)
	if out := waits[0].out; out.ErrorCode != kerr.NotLeaderForPartition.Code || out.BaseOffset != 1 || out.CurrentLeader.LeaderID != 2 || out.CurrentLeader.LeaderEpoch != 1 {
		t.Errorf("another leader: %+v", out)
	}
}

// TestHintWithoutALeader: where there is no leader, clients get no hint (KIP-951), not even an epoch.
func TestHintWithoutALeader(t *testing.T) {
	replicas := newReplicas(t)
	h := &Handlers{Deps: Deps{Metadata: metadata.NewCache(), Replicas: replicas}}
	if _, ok := h.leaderHint("PLAINTEXT", "t", 0); ok {
		t.Error("hint for an unknown partition")
	}
	assign(t, replicas, 2, 1, 1, 2)
	if hint, ok := h.leaderHint("PLAINTEXT", "t", 0); !ok || hint.leader != 2 || hint.epoch != 1 {
		t.Errorf("%+v, %v", hint, ok)
	}
	assign(t, replicas, -1, 2, 1, 2)
	if hint, ok := h.leaderHint("PLAINTEXT", "t", 0); ok {
		t.Errorf("without a leader: %+v", hint)
	}
}

// TestWaitingProduceWithoutItsRequest: an answer that waits does not use the request, which the connection uses for the
// next one meanwhile.
func TestWaitingProduceWithoutItsRequest(t *testing.T) {
	replicas := newReplicas(t)
	h := newHandlers(t)
	h.Metadata, h.Replicas = metadata.NewCache(), replicas
	assign(t, replicas, 1, 0, 1, 2)
	b := record.NewBuilder()
	b.Add(1000, nil, []byte("v"))
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 10, -1, 60_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b.MustBuild()}}}}
	r := &network.Request{Version: 10, Conn: &network.Conn{Listener: "PLAINTEXT"}, Arrived: time.Now()}
	answer := h.produce(t.Context(), &Call{Request: r}, req)
	*r = network.Request{}
	assign(t, replicas, 2, 1, 1, 2)
	resp := answer.Wait(t.Context()).(*kmsg.ProduceResponse)
	if out := resp.Topics[0].Partitions[0]; out.ErrorCode != kerr.NotLeaderForPartition.Code || out.CurrentLeader.LeaderID != 2 {
		t.Errorf("%+v", out)
	}
}

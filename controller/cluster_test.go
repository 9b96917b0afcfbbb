package controller_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"barnabas/controller"
	"barnabas/internal/await"
	"barnabas/internal/testwait"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeBrokers answer the controller's requests and record their content.
type fakeBrokers struct {
	changed await.Signal
	mu      struct {
		sync.Mutex
		leaders  map[int32]map[zkcoord.TopicPartition]kmsg.LeaderAndISRRequestTopicPartition
		metadata map[int32]map[zkcoord.TopicPartition]kmsg.UpdateMetadataRequestTopicPartition
		live     map[int32][]int32
		storage  map[int32]bool // brokers that answer LeaderAndIsr with KAFKA_STORAGE_ERROR
		deleted  []zkcoord.TopicPartition
	}
}

func newFakeBrokers() *fakeBrokers {
	f := new(fakeBrokers)
	f.mu.leaders = make(map[int32]map[zkcoord.TopicPartition]kmsg.LeaderAndISRRequestTopicPartition)
	f.mu.metadata = make(map[int32]map[zkcoord.TopicPartition]kmsg.UpdateMetadataRequestTopicPartition)
	f.mu.live = make(map[int32][]int32)
	f.mu.storage = make(map[int32]bool)
	return f
}

func (f *fakeBrokers) Send(_ context.Context, to zkcoord.BrokerInfo, req kmsg.Request) (kmsg.Response, error) {
	f.mu.Lock()
	defer f.changed.Notify()
	defer f.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.LeaderAndISRRequest:
		return f.lead(to.ID, req), nil
	case *kmsg.UpdateMetadataRequest:
		f.update(to.ID, req)
	case *kmsg.StopReplicaRequest:
		return f.stop(req), nil
	}
	return req.ResponseKind(), nil
}

func (f *fakeBrokers) lead(id int32, req *kmsg.LeaderAndISRRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.LeaderAndISRResponse)
	if f.mu.leaders[id] == nil {
		f.mu.leaders[id] = make(map[zkcoord.TopicPartition]kmsg.LeaderAndISRRequestTopicPartition)
	}
	for _, t := range req.TopicStates {
		out := kmsg.NewLeaderAndISRResponseTopic()
		out.TopicID = t.TopicID
		for _, p := range t.PartitionStates {
			f.mu.leaders[id][zkcoord.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p
			answer := kmsg.NewLeaderAndISRResponseTopicPartition()
			answer.Partition = p.Partition
			if f.mu.storage[id] {
				answer.ErrorCode = 56
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (f *fakeBrokers) update(id int32, req *kmsg.UpdateMetadataRequest) {
	if f.mu.metadata[id] == nil {
		f.mu.metadata[id] = make(map[zkcoord.TopicPartition]kmsg.UpdateMetadataRequestTopicPartition)
	}
	f.mu.live[id] = nil
	for _, b := range req.LiveBrokers {
		f.mu.live[id] = append(f.mu.live[id], b.ID)
	}
	for _, t := range req.TopicStates {
		for _, p := range t.PartitionStates {
			f.mu.metadata[id][zkcoord.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p
		}
	}
}

func (f *fakeBrokers) stop(req *kmsg.StopReplicaRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.StopReplicaResponse)
	for _, t := range req.Topics {
		for _, p := range t.PartitionStates {
			answer := kmsg.NewStopReplicaResponsePartition()
			answer.Topic, answer.Partition = t.Topic, p.Partition
			resp.Partitions = append(resp.Partitions, answer)
			if p.Delete {
				f.mu.deleted = append(f.mu.deleted, zkcoord.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			}
		}
	}
	return resp
}

// await waits until check passes for what the brokers were told.
func (f *fakeBrokers) await(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := await.Until(ctx, func() (bool, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return check(), nil
	}, &f.changed)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// told returns what a broker was last told of a partition.
func (f *fakeBrokers) told(id int32, tp zkcoord.TopicPartition) (leader, epoch int32, isr []int32) {
	p, ok := f.mu.metadata[id][tp]
	if !ok {
		return -9, -9, nil
	}
	return p.Leader, p.LeaderEpoch, p.ISR
}

// cluster consists of registered brokers, each with its session, and a controller in the first one.
type cluster struct {
	t        *testing.T
	connect  string
	brokers  *fakeBrokers
	sessions map[int32]*zkcoord.Client
	epochs   map[int32]int64
	c        *controller.Controller
}

func startCluster(t *testing.T, ids ...int32) *cluster {
	t.Helper()
	k := &cluster{t: t, connect: zktest.Connect(t), brokers: newFakeBrokers(),
		sessions: make(map[int32]*zkcoord.Client), epochs: make(map[int32]int64)}
	for _, id := range ids {
		k.join(id)
	}
	k.c = k.run(ids[0])
	k.awaitActive(k.c)
	return k
}

func (k *cluster) awaitActive(c *controller.Controller) {
	k.t.Helper()
	testwait.Until(k.t, "an active controller", c.Active)
}

func (k *cluster) join(id int32) {
	k.t.Helper()
	s := zktest.Client(k.t, k.connect)
	k.sessions[id] = s
	epoch, err := s.RegisterBroker(k.t.Context(), zkcoord.BrokerInfo{ID: id, JMXPort: -1,
		Endpoints: []zkcoord.Endpoint{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: 27190 + id}}})
	if err != nil {
		k.t.Fatal(err)
	}
	k.epochs[id] = epoch
}

func (k *cluster) leave(id int32) { k.sessions[id].Close() }

func (k *cluster) run(id int32) *controller.Controller {
	protocol := controller.NewestProtocol()
	c := controller.New(controller.Config{BrokerID: id, Listener: "PLAINTEXT", Protocol: protocol, DeleteTopicEnable: true},
		k.sessions[id], k.brokers, zktest.Logger(k.t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	k.t.Cleanup(func() { cancel(); <-done })
	return c
}

func (k *cluster) create(topic string, assignment map[int32][]int32, configs map[string]string) {
	k.t.Helper()
	if _, err := k.sessions[0].CreateTopic(k.t.Context(), topic, assignment, configs); err != nil {
		k.t.Fatal(err)
	}
}

func (k *cluster) awaitLeader(on int32, tp zkcoord.TopicPartition, leader, epoch int32, isr ...int32) {
	k.t.Helper()
	var l, e int32
	var i []int32
	k.t.Cleanup(func() {
		if k.t.Failed() {
			k.t.Logf("broker %d knows of %v: leader %d epoch %d isr %v", on, tp, l, e, i)
		}
	})
	k.brokers.await(k.t, tp.String(), func() bool {
		l, e, i = k.brokers.told(on, tp)
		return l == leader && e == epoch && slices.Equal(i, isr)
	})
}

func TestTopicComesAndGoes(t *testing.T) {
	k := startCluster(t, 0, 1)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {1, 0}}, nil)
	k.awaitLeader(0, tp, 1, 0, 1, 0)
	k.awaitLeader(1, tp, 1, 0, 1, 0)
	if err := k.sessions[1].AddPartitions(t.Context(), "t", map[int32][]int32{1: {0, 1}}); err != nil {
		t.Fatal(err)
	}
	k.awaitLeader(1, zkcoord.TopicPartition{Topic: "t", Partition: 1}, 0, 0, 0, 1)

	if err := k.sessions[1].RequestTopicDeletion(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	k.brokers.await(t, "metadata of the deleted topic", func() bool { l, _, _ := k.brokers.told(1, tp); return l == -2 })
	k.awaitDeleted()
	if len(k.brokers.mu.deleted) != 4 {
		t.Fatalf("replicas deleted: %v", k.brokers.mu.deleted)
	}
	k.create("t", map[int32][]int32{0: {0}}, nil)
	k.awaitLeader(0, tp, 0, 0, 0)
}

func TestBrokerDiesAndReturns(t *testing.T) {
	k := startCluster(t, 0, 1, 2)
	both, alone := zkcoord.TopicPartition{Topic: "both"}, zkcoord.TopicPartition{Topic: "alone"}
	k.create("both", map[int32][]int32{0: {1, 2}}, nil)
	k.create("alone", map[int32][]int32{0: {1}}, nil)
	k.awaitLeader(0, both, 1, 0, 1, 2)
	k.awaitLeader(0, alone, 1, 0, 1)
	k.leave(1)
	k.awaitLeader(0, both, 2, 1, 2)
	k.awaitLeader(0, alone, -1, 1, 1)
	k.join(1)
	k.awaitLeader(0, alone, 1, 2, 1)
	k.brokers.await(t, "the broker that is back knows all", func() bool { return len(k.brokers.mu.live[1]) == 3 })

	// Its follower requests to rejoin the ISR.
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 1, 2, k.epochs[2]
	topic := kmsg.NewAlterPartitionRequestTopic()
	topic.Topic = "both"
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.LeaderEpoch, p.NewISR, p.PartitionEpoch = 1, []int32{2, 1}, 1
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp := k.c.AlterPartition(t.Context(), req)
	if resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 || resp.Topics[0].Partitions[0].PartitionEpoch != 2 {
		t.Fatalf("%+v", resp)
	}
	k.awaitLeader(0, both, 2, 1, 2, 1)

	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Version = 2
	answer := k.c.ElectLeaders(t.Context(), elect)
	if len(answer.Topics) != 1 || answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", answer)
	}
	k.awaitLeader(0, both, 1, 2, 2, 1)
}

func TestControlledShutdown(t *testing.T) {
	k := startCluster(t, 0, 1)
	led, followed := zkcoord.TopicPartition{Topic: "led"}, zkcoord.TopicPartition{Topic: "followed"}
	k.create("led", map[int32][]int32{0: {1, 0}}, nil)
	k.create("followed", map[int32][]int32{0: {0, 1}}, nil)
	k.awaitLeader(0, led, 1, 0, 1, 0)
	k.awaitLeader(0, followed, 0, 0, 0, 1)
	req := kmsg.NewPtrControlledShutdownRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, 1, k.epochs[1]
	if resp := k.c.ControlledShutdown(t.Context(), req); resp.ErrorCode != 0 || len(resp.PartitionsRemaining) != 0 {
		t.Fatalf("%+v", resp)
	}
	k.awaitLeader(0, led, 0, 1, 0)
	k.awaitLeader(0, followed, 0, 1, 0)
}

func TestReassignment(t *testing.T) {
	k := startCluster(t, 0, 1, 2)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {2, 0}}, nil)
	k.awaitLeader(0, tp, 2, 0, 2, 0)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = "t"
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = []int32{1, 2}
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	if resp := k.c.AlterPartitionReassignments(t.Context(), req); resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	k.awaitLeader(0, tp, 2, 1, 2, 0)
	list := k.c.ListPartitionReassignments(t.Context(), kmsg.NewPtrListPartitionReassignmentsRequest())
	if len(list.Topics) != 1 || !slices.Equal(list.Topics[0].Partitions[0].Replicas, []int32{1, 2, 0}) {
		t.Fatalf("%+v", list)
	}
	alter := kmsg.NewPtrAlterPartitionRequest()
	alter.Version, alter.BrokerID, alter.BrokerEpoch = 1, 2, k.epochs[2]
	at := kmsg.NewAlterPartitionRequestTopic()
	at.Topic = "t"
	ap := kmsg.NewAlterPartitionRequestTopicPartition()
	ap.LeaderEpoch, ap.NewISR, ap.PartitionEpoch = 1, []int32{2, 0, 1}, 1
	at.Partitions = append(at.Partitions, ap)
	alter.Topics = append(alter.Topics, at)
	if resp := k.c.AlterPartition(t.Context(), alter); resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	k.awaitLeader(0, tp, 2, 3, 2, 1)
	info, _, err := k.sessions[0].Topic(t.Context(), "t")
	if err != nil || !slices.Equal(info.Partitions[0], []int32{1, 2}) || len(info.Adding)+len(info.Removing) != 0 {
		t.Fatalf("%+v %v", info, err)
	}
}

func TestAnotherTakesOver(t *testing.T) {
	k := startCluster(t, 0, 1)
	tp := zkcoord.TopicPartition{Topic: "t"}
	k.create("t", map[int32][]int32{0: {0, 1}}, nil)
	k.awaitLeader(1, tp, 0, 0, 0, 1)
	second := k.run(1)
	k.leave(0)
	k.awaitLeader(1, tp, 1, 2, 1)
	k.awaitActive(second)
	if second.ControllerID() != 1 {
		t.Fatal("the other broker is not the controller")
	}
}

package metadata

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func partition(number, leader, epoch int32) kmsg.UpdateMetadataRequestTopicPartition {
	return kmsg.UpdateMetadataRequestTopicPartition{Partition: number, Leader: leader, LeaderEpoch: epoch}
}

func TestUpdate(t *testing.T) {
	c, id, id2 := NewCache(), [16]byte{1}, [16]byte{2}
	send := func(topic string, id [16]byte, partitions ...kmsg.UpdateMetadataRequestTopicPartition) {
		c.Update(&kmsg.UpdateMetadataRequest{Version: 8, ControllerID: 3, TopicStates: []kmsg.UpdateMetadataRequestTopicState{
			{Topic: topic, TopicID: id, PartitionStates: partitions}}})
	}
	send("t", id, partition(2, 1, 0), partition(0, 1, 0), partition(1, 2, 0))
	first := c.Current()
	send("t", id, partition(1, 3, 5))
	second := c.Current()

	if p, ok := first.Partition("t", 1); !ok || p.Leader != 2 {
		t.Errorf("a snapshot has changed: %+v", p)
	}
	if p, ok := second.Partition("t", 1); !ok || p.Leader != 3 || p.LeaderEpoch != 5 {
		t.Errorf("partition 1 is %+v, want leader 3 at epoch 5", p)
	}
	if p, ok := second.Partition("t", 2); !ok || p.Leader != 1 {
		t.Errorf("partition 2 is %+v, want it kept", p)
	}
	if _, ok := second.Partition("t", 7); ok {
		t.Error("partition 7 exists")
	}
	if _, ok := second.Partition("other", 0); ok {
		t.Error("a topic exists that the controller never sent")
	}
	if name, ok := second.TopicName(id); !ok || name != "t" {
		t.Errorf("topic id has name %q, %v", name, ok)
	}

	send("t", id2, partition(0, 1, 9)) // created again with another id
	if _, ok := c.Current().TopicName(id); ok {
		t.Error("the old id still names the topic")
	}
	if got := len(c.Current().Topics["t"].Partitions); got != 1 {
		t.Errorf("%d partitions, including those of the earlier topic", got)
	}
	send("t", id2, partition(0, LeaderDuringDelete, 0), partition(1, LeaderDuringDelete, 0), partition(2, LeaderDuringDelete, 0))
	if len(c.Current().Topics) != 0 {
		t.Error("a deleted topic still exists")
	}
	if _, ok := c.Current().TopicName(id2); ok {
		t.Error("a deleted topic's id is still known")
	}
}

func TestBrokersAreReplacedWhole(t *testing.T) {
	c := NewCache()
	broker := func(id int32) kmsg.UpdateMetadataRequestLiveBroker {
		return kmsg.UpdateMetadataRequestLiveBroker{ID: id, Endpoints: []kmsg.UpdateMetadataRequestLiveBrokerEndpoint{
			{Host: "h", Port: 9092, ListenerName: "EXT"}, {Host: "h", Port: 9093, SecurityProtocol: 1}}}
	}
	c.Update(&kmsg.UpdateMetadataRequest{ControllerID: 1, LiveBrokers: []kmsg.UpdateMetadataRequestLiveBroker{broker(1), broker(2)}})
	c.Update(&kmsg.UpdateMetadataRequest{ControllerID: 2, LiveBrokers: []kmsg.UpdateMetadataRequestLiveBroker{broker(2)}})
	p := c.Current()
	if len(p.Brokers) != 1 || p.Controller != 2 {
		t.Fatalf("brokers %v, controller %d", p.Brokers, p.Controller)
	}
	if e := p.Brokers[2].Endpoints; e["EXT"].Port != 9092 || e["SSL"].Port != 9093 {
		t.Errorf("endpoints %v", e)
	}
}

func TestForget(t *testing.T) {
	c := NewCache()
	send := func(topic string, id byte) *Topic {
		c.Update(&kmsg.UpdateMetadataRequest{TopicStates: []kmsg.UpdateMetadataRequestTopicState{
			{Topic: topic, TopicID: [16]byte{id}, PartitionStates: []kmsg.UpdateMetadataRequestTopicPartition{partition(0, 1, 0)}}}})
		return c.Current().Topics[topic]
	}
	gone := send("gone", 1)
	send("stays", 2)
	c.Forget(gone)
	if _, named := c.Current().TopicName(gone.ID); named || c.Current().Topics["gone"] != nil || c.Current().Topics["stays"] == nil {
		t.Fatalf("%+v", c.Current().Topics)
	}
	again := send("gone", 3)
	c.Forget(gone)
	if c.Current().Topics["gone"] != again {
		t.Error("a newer topic was forgotten with the deleted one")
	}
}

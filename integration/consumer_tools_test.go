package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"barnabas/kafkatest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWhatToolsCommit: a tool that reads as a member of a group leaves the same committed offsets as the original tool,
// also of partitions from which it read nothing. BROKER is an address, GROUP a new group, FILE disables commits. Topic
// t has records in partition 0, none in 1, and only deleted ones in 2.
func TestWhatToolsCommit(t *testing.T) {
	t.Parallel()
	launcher := peer(t)
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 3, 1)
	cl := newClient(t, kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	for _, partition := range []int32{0, 0, 0, 0, 0, 2, 2, 2} {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: partition, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	adm := kadm.NewClient(cl)
	if _, err := adm.DeleteRecords(t.Context(), kadm.Offsets{"t": {2: {Topic: "t", Partition: 2, At: 3}}}); err != nil {
		t.Fatal(err)
	}
	file := propertiesFile(t, "enable.auto.commit=false")
	for i, line := range []string{
		"org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server BROKER --topic t --group GROUP --from-beginning --timeout-ms 3000",
		"org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server BROKER --topic t --group GROUP --timeout-ms 3000",
		"org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server BROKER --topic t --group GROUP --isolation-level read_committed --timeout-ms 3000",
		"org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server BROKER --include t --group GROUP --from-beginning --max-messages 2",
		"org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server BROKER --topic t --group GROUP --from-beginning --timeout-ms 3000 --consumer-property enable.auto.commit=false",
		"org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server BROKER --topic t --from-beginning --max-messages 1 --consumer-property enable.auto.commit=false",
		"org.apache.kafka.tools.ConsumerPerformance --bootstrap-server BROKER --topic t --group GROUP --messages 5",
		"org.apache.kafka.tools.ConsumerPerformance --bootstrap-server BROKER --topic t --group GROUP --messages 5 --consumer.config FILE",
		"org.apache.kafka.tools.VerifiableConsumer --bootstrap-server BROKER --topic t --group-id GROUP --enable-autocommit --max-messages 5",
		"org.apache.kafka.tools.VerifiableConsumer --bootstrap-server BROKER --topic t --group-id GROUP --max-messages 5",
	} {
		t.Run(line, func(t *testing.T) {
			left := func(group, program, first string) map[int32]int64 {
				words := strings.Fields(strings.NewReplacer("BROKER", c.Broker(0).Addr(), "GROUP", group, "FILE", file).Replace(line))
				out, err := exec.Command(program, append([]string{first}, words...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				committed, err := adm.FetchOffsets(t.Context(), group)
				if err != nil {
					t.Fatal(err)
				}
				offsets := make(map[int32]int64)
				for partition, o := range committed["t"] {
					offsets[partition] = o.At
				}
				return offsets
			}
			theirs, ours := left(fmt.Sprint("theirs-", i), launcher, "tool"), left(fmt.Sprint("ours-", i), brokerBinary(t), "run-class")
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("offsets committed by Apache Kafka's tool (-) and ours (+)\n%s", diff)
			}
		})
	}
}

// TestToolsJoinGroupsOfOthers: a tool can join a group whose members only support range assignment, like old clients,
// and one whose members are cooperative.
func TestToolsJoinGroupsOfOthers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	newTopic(t, c, "t", 2, 1)
	for _, balancer := range []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()} {
		t.Run(balancer.ProtocolName(), func(t *testing.T) {
			group := "of " + balancer.ProtocolName()
			joined := make(chan struct{}, 10)
			cl := newClient(t, kgo.SeedBrokers(c.Addrs()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), kgo.Balancers(balancer), kgo.HeartbeatInterval(100*time.Millisecond),
				kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joined <- struct{}{} }))
			defer cl.Close()
			select {
			case <-joined:
			case <-time.After(groupPatience):
				t.Fatal("the first member does not join")
			}
			ourTool(t, "", "console-consumer", "--bootstrap-server", c.Broker(0).Addr(), "--topic", "t", "--group", group, "--timeout-ms", "1000")
		})
	}
}

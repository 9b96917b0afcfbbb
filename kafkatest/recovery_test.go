package kafkatest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testwait"
	"barnabas/kafkatest"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// holdRecovery leaves the directories of a stopped broker as after a kill, and blocks the loading of one partition
// until letGo is called: opening a named pipe for reading blocks until it is opened for writing.
func holdRecovery(t *testing.T, b *kafkatest.Broker, partition string) (letGo func()) {
	t.Helper()
	name, held := filepath.Join(b.LogDir(), partition, "leader-epoch-checkpoint"), filepath.Join(b.LogDir(), partition+".held")
	err := errors.Join(os.Rename(name, held+".content"), syscall.Mkfifo(name, 0o644), os.Link(name, held))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b.LogDir(), ".kafka_cleanshutdown")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	letGo = sync.OnceFunc(func() {
		content, err := os.ReadFile(held + ".content")
		if err = errors.Join(err, os.Rename(held+".content", name)); err != nil { // a reader that opens the file from now on finds its content
			t.Error(err)
		}
		for range 20 { // a reader that opened it before waits at the pipe, or will in a moment
			if f, err := os.OpenFile(held, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				_, _ = f.Write(content)
				_ = f.Close()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	t.Cleanup(letGo)
	return letGo
}

// errorOf sends a broker a request about a partition and returns the error code of the response.
func errorOf(t *testing.T, cl *kgo.Client, broker int, topic string, ask func(topic string) kmsg.Request) error {
	t.Helper()
	answer, err := cl.Broker(broker).RetriableRequest(t.Context(), ask(topic))
	if err != nil {
		t.Fatal(err)
	}
	switch r := answer.(type) {
	case *kmsg.ProduceResponse:
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.ListOffsetsResponse:
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.DeleteRecordsResponse:
		return kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode)
	}
	t.Fatalf("%T", answer)
	return nil
}

func askProduce(topic string) kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	batch := record.NewBuilder()
	batch.Add(1_790_000_000_000, nil, []byte("v"))
	rp.Records = batch.MustBuild()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func askListOffsets(topic string) kmsg.Request {
	req := kmsg.NewPtrListOffsetsRequest()
	rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = -1
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func askDeleteRecords(topic string) kmsg.Request {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 1000
	rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// TestPartitionsServeWhileOthersRecover: after a crash a partition is served while the log of another is still being
// recovered, and that one as soon as it is loaded.
func TestPartitionsServeWhileOthersRecover(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	cl := client(t, c)
	for _, topic := range []string{"ready", "late"} {
		createOn(t, cl, topic, 0)
		produce(t, cl, topic, 0, 5)
	}
	c.Broker(0).Stop()
	letGo := holdRecovery(t, c.Broker(0), "late-0")
	if err := c.Broker(0).Start(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "ready", 5, 10)
	consume(t, c, "ready", 10)
	for name, ask := range map[string]func(string) kmsg.Request{"Produce": askProduce, "ListOffsets": askListOffsets, "DeleteRecords": askDeleteRecords} {
		if err := errorOf(t, cl, 0, "late", ask); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("%s while it is being recovered: %v", name, err)
		}
	}
	dirs, err := kadm.NewClient(cl).DescribeAllLogDirs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := dirs[0].Lookup(c.Broker(0).LogDir(), "late", 0); !ok || d.Size == 0 {
		t.Errorf("its directory is reported with %+v for it", d)
	}
	waiting := make(chan error)
	go func() { // a client retries by itself
		waiting <- cl.ProduceSync(t.Context(), &kgo.Record{Topic: "late", Value: []byte("value 5")}).FirstErr()
	}()
	letGo()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	consume(t, c, "late", 6)
}

// TestReplicaRecoversBesideTheOthers: while one replica is being recovered, the others serve without it, and it rejoins
// the ISR when it has caught up.
func TestReplicaRecoversBesideTheOthers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("min.insync.replicas", "2"))
	cl := client(t, c, kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	createOn(t, cl, "t", 2, 0, 1)
	produce(t, cl, "t", 0, 5)
	c.Broker(2).Stop()
	produce(t, cl, "t", 5, 10)
	letGo := holdRecovery(t, c.Broker(2), "t-0")
	if err := c.Broker(2).Start(); err != nil {
		t.Fatal(err)
	}
	if isr := inSync(t, cl, "t"); slices.Contains(isr, 2) {
		t.Errorf("in-sync replicas: %v", isr)
	}
	produce(t, cl, "t", 10, 15)
	letGo()
	testwait.Until(t, "all in sync", func() bool { return len(inSync(t, cl, "t")) == 3 })
	consume(t, c, "t", 15)
}

func inSync(t *testing.T, cl *kgo.Client, topic string) []int32 {
	t.Helper()
	topics, err := kadm.NewClient(cl).ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return topics[topic].Partitions[0].ISR
}

// TestTopicIsDeletedWhileItRecovers: a topic can be deleted and created again while the log of its partition is being
// recovered.
func TestTopicIsDeletedWhileItRecovers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t)
	cl := client(t, c)
	createOn(t, cl, "t", 0)
	produce(t, cl, "t", 0, 5)
	c.Broker(0).Stop()
	letGo := holdRecovery(t, c.Broker(0), "t-0")
	if err := c.Broker(0).Start(); err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(cl)
	if deleted, err := adm.DeleteTopics(t.Context(), "t"); err != nil || deleted.Error() != nil {
		t.Fatal(deleted, err)
	}
	letGo()
	testwait.Until(t, "the deletion", func() bool {
		created, err := adm.CreateTopics(t.Context(), 1, 1, nil, "t")
		return err == nil && created.Error() == nil
	})
	produce(t, cl, "t", 0, 3)
	consume(t, c, "t", 3)
	ends, err := adm.ListEndOffsets(t.Context(), "t")
	if o, _ := ends.Lookup("t", 0); err != nil || o.Offset != 3 {
		t.Errorf("its log ends at %d, %v", o.Offset, err)
	}
}

// TestGroupRecoversWithItsOffsets: a group whose offsets are being recovered has no coordinator meanwhile, and then
// continues where it was.
func TestGroupRecoversWithItsOffsets(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, kafkatest.Setting("offsets.topic.num.partitions", "1"))
	cl := client(t, c)
	createOn(t, cl, "t", 0)
	produce(t, cl, "t", 0, 5)
	adm := kadm.NewClient(cl)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "t", At: 3, LeaderEpoch: -1})
	if committed, err := adm.CommitOffsets(t.Context(), "g", offsets); err != nil || committed.Error() != nil {
		t.Fatal(committed, err)
	}
	c.Broker(0).Stop()
	letGo := holdRecovery(t, c.Broker(0), "__consumer_offsets-0")
	if err := c.Broker(0).Start(); err != nil {
		t.Fatal(err)
	}
	type result struct {
		offsets kadm.OffsetResponses
		err     error
	}
	fetched := make(chan result, 1)
	go func() { // it retries as long as there is no coordinator
		for {
			offsets, err := adm.FetchOffsets(t.Context(), "g")
			if err == nil || t.Context().Err() != nil {
				fetched <- result{offsets, err}
				return
			}
		}
	}()
	produce(t, cl, "t", 5, 10)
	select {
	case got := <-fetched:
		t.Errorf("offsets that are being recovered: %v %v", got.offsets, got.err)
		return
	default:
	}
	letGo()
	got := <-fetched
	if o, ok := got.offsets.Lookup("t", 0); got.err != nil || !ok || o.At != 3 {
		t.Errorf("the group's offset is %+v, %v", o, got.err)
	}
}

// TestNothingIsLostWhileReplicasRecover stops all brokers and delays the recovery of half of each one's replicas,
// leaders and followers alike, while a producer continues. Each of its records is stored exactly once.
func TestNothingIsLostWhileReplicasRecover(t *testing.T) {
	t.Parallel()
	const partitions, before, after = 8, 160, 160
	c := kafkatest.Run(t, kafkatest.Brokers(3), kafkatest.Setting("controlled.shutdown.enable", "false"))
	cl := client(t, c, kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if created, err := kadm.NewClient(cl).CreateTopics(t.Context(), partitions, 3, nil, "t"); err != nil || created.Error() != nil {
		t.Fatal(created, err)
	}
	produce(t, cl, "t", 0, before)
	for id := range 3 {
		c.Broker(id).Stop()
	}
	var letGo []func()
	for id := range 3 {
		for p := range partitions {
			if (p+id)%2 == 0 {
				letGo = append(letGo, holdRecovery(t, c.Broker(id), fmt.Sprintf("t-%d", p)))
			}
		}
	}
	var starting sync.WaitGroup
	for id := range 3 {
		starting.Go(func() {
			if err := c.Broker(id).Start(); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	var acked sync.WaitGroup
	for i := before; i < before+after; i++ {
		acked.Add(1)
		cl.Produce(t.Context(), &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "value %d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
			acked.Done()
		})
		if i%10 == 0 && len(letGo) > 0 {
			letGo[0]()
			letGo = letGo[1:]
		}
	}
	for _, f := range letGo {
		f()
	}
	acked.Wait()
	testwait.Until(t, "all in sync", func() bool {
		topics, err := kadm.NewClient(cl).ListTopics(t.Context(), "t")
		if err != nil {
			return false
		}
		for _, p := range topics["t"].Partitions {
			if len(p.ISR) != 3 {
				return false
			}
		}
		return true
	})
	reader := client(t, c, kgo.ConsumeTopics("t"))
	seen := make(map[string]int)
	for n := 0; n < before+after; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
		n += fetches.NumRecords()
	}
	for i := range before + after {
		if value := fmt.Sprintf("value %d", i); seen[value] != 1 {
			t.Errorf("%s is stored %d times", value, seen[value])
		}
	}
}

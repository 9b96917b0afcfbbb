package api

import (
	"errors"
	"fmt"
	"testing"

	"barnabas/broker/metadata"
	"barnabas/config"
	"barnabas/internal/errcode"
	"barnabas/internal/testlog"
	"barnabas/logstore/record"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestUnverified(t *testing.T) {
	tests := []struct {
		err     *kerr.Error
		version int16
		want    *kerr.Error
		text    bool
	}{
		{kerr.ProducerFenced, 9, kerr.InvalidProducerEpoch, false},
		{kerr.TransactionAbortable, 10, kerr.InvalidTxnState, true},
		{kerr.TransactionAbortable, 11, kerr.TransactionAbortable, false},
		{kerr.ClusterAuthorizationFailed, 9, kerr.InvalidTxnState, true},
		{kerr.ConcurrentTransactions, 9, kerr.NotEnoughReplicas, true},
		{kerr.NetworkException, 9, kerr.NotEnoughReplicas, true},
		{kerr.CoordinatorLoadInProgress, 9, kerr.NotEnoughReplicas, true},
		{kerr.CoordinatorNotAvailable, 9, kerr.NotEnoughReplicas, true},
		{kerr.NotCoordinator, 11, kerr.NotEnoughReplicas, true},
		{kerr.InvalidProducerIDMapping, 9, kerr.InvalidProducerIDMapping, false},
		{kerr.UnknownTopicOrPartition, 9, kerr.UnknownTopicOrPartition, false},
	}
	for _, test := range tests {
		text, err := unverified(fmt.Errorf("asked: %w", test.err), test.version)
		if !errors.Is(err, test.want) || errcode.Of(err) != test.want.Code || (text != "") != test.text {
			t.Errorf("%v for version %d became %v with text %q", test.err.Message, test.version, err, text)
		}
	}
}

// TestProducersOfATransaction: the records of a Produce request's transaction must be of one producer in one epoch.
// Batches without a producer, and those that will be refused in any case, do not count
// (ReplicaManager.handleProduceAppend, 3.9).
func TestProducersOfATransaction(t *testing.T) {
	replicas := newReplicas(t)
	assign(t, replicas, 1, 0, 1)
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181", "transaction.partition.verification.enable": "false"})
	if err != nil {
		t.Fatal(err)
	}
	h := &Handlers{Deps: Deps{Config: config.NewDynamic(cfg, testlog.Quiet()), Metadata: metadata.NewCache(), Replicas: replicas}}
	batch := func(partition int32, id int64, epoch int16) kmsg.ProduceRequestTopicPartition {
		b := record.NewBuilder()
		b.ProducerID, b.ProducerEpoch, b.Transactional = id, epoch, true
		b.Add(1000, nil, []byte("v"))
		return kmsg.ProduceRequestTopicPartition{Partition: partition, Records: b.MustBuild()}
	}
	for name, test := range map[string]struct {
		batches []kmsg.ProduceRequestTopicPartition
		want    int16
	}{
		"another epoch":                     {[]kmsg.ProduceRequestTopicPartition{batch(0, 7, 0), batch(0, 7, 1)}, kerr.InvalidProducerIDMapping.Code},
		"another producer":                  {[]kmsg.ProduceRequestTopicPartition{batch(0, 7, 0), batch(0, 8, 0)}, kerr.InvalidProducerIDMapping.Code},
		"no producer":                       {[]kmsg.ProduceRequestTopicPartition{batch(0, 7, 0), batch(0, -1, -1)}, 0},
		"a partition that is not there":     {[]kmsg.ProduceRequestTopicPartition{batch(0, 7, 0), batch(5, 7, 1)}, 0},
		"one that is not there comes first": {[]kmsg.ProduceRequestTopicPartition{batch(5, 7, 1), batch(0, 7, 0)}, 0},
	} {
		req := kmsg.NewPtrProduceRequest()
		req.TransactionID = kmsg.StringPtr("id")
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: test.batches}}
		v := h.verifyProduce(t.Context(), &Call{Request: &network.Request{Version: 11}}, req)
		if errcode.Of(v.all) != test.want || (v.text != "") != (test.want != 0) {
			t.Errorf("%s: %v, text %q", name, v.all, v.text)
		}
	}
}

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTransactionsWithApacheKafka runs transactions over partitions of both kinds of brokers, with coordinators of
// both: each writes markers to the other's partitions and verifies transactions with the other. Then each continues
// with the other's transaction log.
func TestTransactionsWithApacheKafka(t *testing.T) {
	zk := zookeeper(t)
	settings := []string{"transaction.state.log.replication.factor=2", "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=4",
		"offsets.topic.replication.factor=2", "offsets.topic.num.partitions=2", "auto.leader.rebalance.enable=false"}
	ours := newProcess(t, 0, zk, settings...)
	ours.start()
	theirs, _, stopTheirs := startPeer(t, 1, zk, settings...)
	addrs := []string{ours.addr(), theirs}
	cl := newClient(t, kgo.SeedBrokers(addrs...))
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(t.Context(), 2*txnPatience)
	defer cancel()
	await(t, "the brokers know each other", func(ctx context.Context) (string, bool) {
		_, err := adm.CreateTopic(ctx, 4, 2, nil, "t")
		return fmt.Sprint(err), err == nil
	})
	coordinators := make(map[int32]bool)
	clients := make(map[string]*kgo.Client)
	var want []string
	for i := range 8 {
		id := fmt.Sprintf("mixed-%d", i)
		clients[id] = newTxnClient(t, addrs, id)
		for round := range 3 {
			value, end := fmt.Sprintf("%s/%d", id, round), kgo.TransactionEndTry(round != 1)
			writeTxn(t, clients[id], "t", 4, value, end)
			if end {
				want = append(want, value)
			}
		}
		coordinators[adm.FindTxnCoordinators(ctx, id)[id].NodeID] = true
	}
	if !coordinators[0] || !coordinators[1] {
		t.Errorf("all coordinators are of one kind: %v", coordinators)
	}
	check := func(when string, addrs []string) {
		t.Helper()
		slices.Sort(want)
		for p, got := range readTopic(t, addrs, "t", kgo.ReadCommitted()) {
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s, partition %d: read_committed returns %v", when, p, got)
			}
		}
	}
	awaitStable(t, adm, "t")
	check("side by side", addrs)

	stopTheirs() // our broker takes over what it coordinated and led
	for id, cl := range clients {
		until(t, id+" knows that the other broker is gone", func(context.Context) bool { // meanwhile the library fails what it sends
			cl.ForceMetadataRefresh()
			return len(cl.DiscoveredBrokers()) == 1
		})
		value := id + "/alone"
		writeTxn(t, cl, "t", 4, value, kgo.TryCommit)
		want = append(want, value)
	}
	awaitStable(t, adm, "t")
	check("ours alone", []string{ours.addr()})
}

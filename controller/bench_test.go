package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"barnabas/controller"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zktest"
)

// BenchmarkTakeOver measures the time from the election to the end of the takeover, on one broker.
func BenchmarkTakeOver(b *testing.B) {
	for _, partitions := range []int32{0, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s := zktest.Client(b, zktest.Connect(b))
			if _, err := s.RegisterBroker(b.Context(), zkcoord.BrokerInfo{ID: 0, JMXPort: -1}); err != nil {
				b.Fatal(err)
			}
			fillTopics(b, s, partitions)
			for b.Loop() {
				takeOver(b, s)
			}
		})
	}
}

func fillTopics(b *testing.B, s *zkcoord.Client, partitions int32) {
	term, _, err := s.Elect(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	const perTopic = 10
	for first := int32(0); first < partitions; first += perTopic {
		topic := fmt.Sprintf("t%d", first)
		assignment := make(map[int32][]int32, perTopic)
		var states []zkcoord.StateWrite
		for p := range int32(perTopic) {
			assignment[p] = []int32{0}
			states = append(states, zkcoord.StateWrite{Partition: zkcoord.TopicPartition{Topic: topic, Partition: p},
				State: zkcoord.PartitionState{ISR: []int32{0}}})
		}
		if _, err := s.CreateTopic(b.Context(), topic, assignment, nil); err != nil {
			b.Fatal(err)
		}
		if _, err := s.CreateStates(b.Context(), term, states); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Resign(b.Context(), term); err != nil {
		b.Fatal(err)
	}
}

func takeOver(b *testing.B, s *zkcoord.Client) {
	protocol := controller.NewestProtocol()
	c := controller.New(controller.Config{Listener: "PLAINTEXT", Protocol: protocol}, s, newFakeBrokers(), zktest.Logger(b))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	for !c.Active() {
		time.Sleep(100 * time.Microsecond)
	}
	b.StopTimer()
	cancel()
	<-done
	term, won, err := s.Elect(b.Context(), 0) // finds that this session has been elected
	if err != nil || !won {
		b.Fatal(won, err)
	}
	if err := s.Resign(b.Context(), term); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}

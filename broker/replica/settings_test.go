package replica

import (
	"context"
	"errors"
	"testing"
	"time"

	"barnabas/logstore"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSettingsThatChangeWhileALogIsCreated: a topic's settings that change between the moment when they are looked up
// for a new log and the moment when the log is there, apply to it too (KAFKA-8813).
func TestSettingsThatChangeWhileALogIsCreated(t *testing.T) {
	b := newBroker(t, 1, nil)
	first := b.Manager.cfg.LogConfig(t.Context(), tp0.Topic)
	second := first
	second.RetentionTime = 42 * time.Hour
	asked := 0
	b.Manager.cfg.LogConfig = func(context.Context, string) logstore.Config {
		if asked++; asked > 1 {
			return second
		}
		b.cfg.Logs.SetConfig(tp0.Topic, second) // the change: there is no log yet
		return first
	}
	b.must(t, 1, 1, []int32{1}, []int32{1})
	log, ok := b.cfg.Logs.Log(tp0)
	if !ok || log.Config() != second {
		t.Errorf("the log keeps records for %v, not %v", log.Config().RetentionTime, second.RetentionTime)
	}
}

// TestSettingsOfTopicsAreReadOnce: before the first logs of topics are created, the settings of all of them are read at
// once, and with later partitions they are not read again.
func TestSettingsOfTopicsAreReadOnce(t *testing.T) {
	b := newBroker(t, 1, nil)
	var read []map[string]bool
	b.Manager.cfg.ReadSettings = func(_ context.Context, topics map[string]bool) { read = append(read, topics) }
	request := func(isNew bool, partitions ...logstore.TopicPartition) {
		t.Helper()
		var assignments []Assignment
		for _, tp := range partitions {
			state := kmsg.NewLeaderAndISRRequestTopicPartition()
			state.Leader, state.LeaderEpoch, state.ISR, state.Replicas, state.IsNew = 1, 1, []int32{1}, []int32{1}, isNew
			assignments = append(assignments, Assignment{TP: tp, State: &state})
		}
		errs, err := b.ApplyLeaderAndISR(1, assignments, nil)
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
	of := func(topic string, partition int32) logstore.TopicPartition {
		return logstore.TopicPartition{Topic: topic, Partition: partition}
	}
	request(true, of("a", 0), of("a", 1), of("b", 0))
	request(true, of("a", 2))
	request(false, of("c", 0))
	want := []map[string]bool{{"a": true, "b": true}, {"c": false}}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
}

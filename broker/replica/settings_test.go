package replica

import (
	"context"
	"testing"
	"time"

	"barnabas/logstore"
)

// TestSettingsThatChangeWhileALogIsCreated: a topic's settings that change between the moment when they are looked up
// for a new log and the moment when the log is there, apply to it too (KAFKA-8813).
func TestSettingsThatChangeWhileALogIsCreated(t *testing.T) {
	b := newBroker(t, 1, nil)
	first := b.Manager.cfg.LogConfig(t.Context(), tp0.Topic, true)
	second := first
	second.RetentionTime = 42 * time.Hour
	asked := 0
	b.Manager.cfg.LogConfig = func(context.Context, string, bool) logstore.Config {
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

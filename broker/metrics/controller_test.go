package metrics

import (
	"slices"
	"testing"
	"time"
)

// TestBrokersThatTheControllerForgets: what was measured of a broker goes with it, and begins anew when it returns.
func TestBrokersThatTheControllerForgets(t *testing.T) {
	m := New(nil, nil, nil)
	counts := func(broker, count string) bool {
		return slices.Contains(served(m), `kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count{broker_id="`+broker+`"} `+count)
	}
	m.ControllerSent(1, time.Millisecond)
	m.ControllerSent(1, time.Millisecond)
	m.ControllerSent(2, time.Millisecond)
	m.ControllerForgets(1)
	m.ControllerForgets(3)
	if counts("1", "2") || !counts("2", "1") {
		t.Errorf("served after broker 1 is gone: %v", served(m))
	}
	m.ControllerSent(1, time.Millisecond)
	if !counts("1", "1") {
		t.Error("nothing is served of a broker that has returned")
	}
}

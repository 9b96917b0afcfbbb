package api

import (
	"testing"

	"barnabas/broker/metadata"
)

// TestAnyGone: one request may remove a broker and add another one.
func TestAnyGone(t *testing.T) {
	of := func(ids ...int32) map[int32]*metadata.Broker {
		brokers := make(map[int32]*metadata.Broker)
		for _, id := range ids {
			brokers[id] = &metadata.Broker{}
		}
		return brokers
	}
	for _, test := range []struct {
		name        string
		before, now map[int32]*metadata.Broker
		want        bool
	}{
		{"the first ones", nil, of(1, 2), false},
		{"the same", of(1, 2), of(1, 2), false},
		{"one more", of(1, 2), of(1, 2, 3), false},
		{"one less", of(1, 2), of(2), true},
		{"another one", of(1, 2), of(2, 3), true},
	} {
		if got := anyGone(test.before, test.now); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

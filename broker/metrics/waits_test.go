package metrics

import (
	"slices"
	"testing"
)

func TestWaitsAreCounted(t *testing.T) {
	m := New(nil, nil, nil)
	expect := func(wants ...string) {
		t.Helper()
		lines := served(m)
		for _, want := range wants {
			if !slices.Contains(lines, want) {
				t.Errorf("missing: %s", want)
			}
		}
	}
	const size, delayed = "kafka_server_delayedoperationpurgatory_purgatorysize", "kafka_server_delayedoperationpurgatory_numdelayedoperations"
	first, second := m.Waiting(Fetch), m.Waiting(Fetch)
	expect(size+`{delayedOperation="Fetch"} 2`, delayed+`{delayedOperation="Fetch"} 2`, size+`{delayedOperation="Produce"} 0`)
	first()
	m.FetchExpired(true)
	m.FetchExpired(false)
	m.FetchExpired(false)
	m.ProduceExpired()
	expect(size+`{delayedOperation="Fetch"} 1`, delayed+`{delayedOperation="Fetch"} 1`,
		`kafka_server_delayedfetchmetrics_expires_total{fetcherType="consumer"} 2`,
		`kafka_server_delayedfetchmetrics_expires_total{fetcherType="follower"} 1`, "kafka_server_delayedproducemetrics_expires_total 1")
	second()
	expect(size + `{delayedOperation="Fetch"} 0`)
}

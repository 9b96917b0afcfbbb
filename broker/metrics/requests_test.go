package metrics

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// served returns the lines of the metrics page.
func served(m *Metrics) []string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return strings.Split(w.Body.String(), "\n")
}

func TestTimesOfRequestsAreServedInMilliseconds(t *testing.T) {
	m := New([]API{{Key: int16(kmsg.Produce), MaxVersion: 11}, {Key: int16(kmsg.Fetch), MaxVersion: 17}}, nil, nil)
	var codes Codes
	codes.Add(0)
	codes.Add(6)
	codes.Add(6)
	for range 3 {
		r := Request{Key: int16(kmsg.Produce), Version: 9, Size: 1000, Arrived: time.Now(), Local: 250 * time.Microsecond, Total: 16 * time.Millisecond}
		m.Received(r, nil)
		m.Answered(r, codes)
	}
	follower := Request{Key: int16(kmsg.Fetch), Version: 17, FromFollower: true, Arrived: time.Now(), Total: time.Millisecond}
	m.Received(follower, nil)
	m.Answered(follower, Codes{})
	m.Answered(Request{Key: int16(kmsg.DeleteTopics)}, Codes{}) // a version that is not offered
	lines := served(m)
	const of = "kafka_network_requestmetrics_"
	for _, want := range []string{
		of + `requests_total{request="Produce",version="9"} 3`, of + `requests_total{request="FetchFollower",version="17"} 1`,
		of + `errors_total{error="NOT_LEADER_OR_FOLLOWER",request="Produce"} 6`, of + `errors_total{error="NONE",request="Produce"} 3`,
		of + `localtimems_sum{request="Produce"} 0.75`, of + `remotetimems_sum{request="Produce"} 47.25`,
		of + `totaltimems_sum{request="Produce"} 48`, of + `totaltimems_count{request="Produce"} 3`,
		of + `throttletimems{request="Produce",quantile="0.999"} 0`, of + `totaltimems{request="Produce",quantile="0.5"} 16.121855`,
		of + `totaltimems_count{request="FetchFollower"} 1`, of + `totaltimems_count{request="FetchConsumer"} 0`,
		of + `totaltimems{request="FetchConsumer",quantile="0.99"} NaN`, of + `requestbytes_sum{request="Produce"} 3000`,
		of + `responsesendtimems_count{request="Produce"} 0`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(lines, "\n"))
	}
}

package metrics

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request is one that is measured.
type Request struct {
	Key, Version int16
	FromFollower bool          // of Fetch
	Local        time.Duration // of this broker's own work
	Remote       time.Duration // of waiting for others: followers, records, members
	Throttle     time.Duration // that the client was told to wait
	Total        time.Duration
}

// quantiles are those that Apache Kafka reports, with the error that is allowed.
var quantiles = map[float64]float64{0.5: 0.05, 0.75: 0.02, 0.95: 0.01, 0.98: 0.005, 0.99: 0.002, 0.999: 0.0005}

// requestTimes are the stages of a request. This broker has no queues: their stages take no time.
var requestTimes = []string{"requestqueue", "local", "remote", "responsequeue", "responsesend", "throttle", "total"}

// Codes counts the error codes in an answer.
type Codes struct {
	none   int
	others map[int16]int // nil: all is well
}

// Add counts one.
func (c *Codes) Add(code int16) {
	if code == 0 {
		c.none++
		return
	}
	if c.others == nil {
		c.others = make(map[int16]int)
	}
	c.others[code]++
}

// requests measures the requests of one API.
type requests struct {
	name                           string                    // in the metric of errors, which does not tell followers' Fetch apart
	none                           func() prometheus.Counter // of answers without an error, which is there from the first on
	versions                       []prometheus.Counter
	local, remote, throttle, total prometheus.Observer
}

// requestMetrics measures requests by API.
type requestMetrics struct {
	counts *prometheus.CounterVec
	errors *prometheus.CounterVec
	times  map[string]*prometheus.SummaryVec
}

func newRequestMetrics(r *prometheus.Registry) *requestMetrics {
	m := &requestMetrics{times: make(map[string]*prometheus.SummaryVec)}
	m.counts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_network_requestmetrics_requests_total", Help: "Requests that were answered."}, []string{"request", "version"})
	m.errors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_network_requestmetrics_errors_total", Help: "Error codes in answers, NONE among them."}, []string{"request", "error"})
	r.MustRegister(m.counts, m.errors)
	for _, stage := range requestTimes {
		m.times[stage] = prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Name: "kafka_network_requestmetrics_" + stage + "timems", Help: "Time of requests by stage, in milliseconds.",
			Objectives: quantiles, MaxAge: 10 * time.Minute,
		}, []string{"request"})
		r.MustRegister(m.times[stage])
	}
	return m
}

// of measures an API's requests, under a name of their own where one API has two kinds.
func (m *requestMetrics) of(key int16, name string, maxVersion int16) *requests {
	q := &requests{
		name:  RequestName(key),
		local: m.times["local"].WithLabelValues(name), remote: m.times["remote"].WithLabelValues(name),
		throttle: m.times["throttle"].WithLabelValues(name), total: m.times["total"].WithLabelValues(name),
	}
	for _, none := range []string{"requestqueue", "responsequeue", "responsesend"} {
		m.times[none].WithLabelValues(name) // shown, and never observed
	}
	q.none = sync.OnceValue(func() prometheus.Counter { return m.errors.WithLabelValues(q.name, "NONE") })
	for v := range maxVersion + 1 {
		q.versions = append(q.versions, m.counts.WithLabelValues(name, strconv.Itoa(int(v))))
	}
	return q
}

func (q *requests) observe(r Request) {
	q.local.Observe(millis(r.Local))
	q.remote.Observe(millis(r.Remote))
	q.throttle.Observe(millis(r.Throttle))
	q.total.Observe(millis(r.Total))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spelling turns the wire library's names of APIs into Apache Kafka's.
var spelling = strings.NewReplacer("ISR", "Isr", "SASL", "Sasl", "ACLs", "Acls", "SCRAM", "Scram", "IDs", "Ids", "ID", "Id",
	"AlterPartitionAssignments", "AlterPartitionReassignments")

// RequestName is an API's name in metrics.
func RequestName(key int16) string { return spelling.Replace(kmsg.NameForKey(key)) }

// The two kinds of Fetch are measured apart: one waits for records by design, the other feeds followers.
const (
	fetchConsumer = "FetchConsumer"
	fetchFollower = "FetchFollower"
)

package metrics

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request describes a request to be measured.
type Request struct {
	Key, Version int16
	FromFollower bool // for Fetch
	Size         int  // of the body, in bytes
	Arrived      time.Time
	Local        time.Duration // spent on this broker's own work
	Throttle     time.Duration // that the client was told to wait
	Total        time.Duration // Local plus waiting for followers, records or group members
}

// queues are the stages of a request that exist only in Apache Kafka.
var queues = []string{"requestqueue", "responsequeue", "responsesend"}

// Codes counts the error codes in a response.
type Codes struct {
	none   int
	others map[int16]int // nil: no errors
}

// Add counts a code.
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
	deprecated                     int16                     // the newest deprecated version; -1: none
	request                        string                    // distinguishes the kinds of Fetch
	name                           string                    // in the metric of errors, which does not distinguish Fetch from followers
	none                           func() prometheus.Counter // counts responses without an error; it exists from the first one on
	versions                       []prometheus.Counter
	local, remote, throttle, total *summary
	size                           *summary
}

// requestMetrics measures requests by API.
type requestMetrics struct {
	registry *prometheus.Registry
	counts   *prometheus.CounterVec
	errors   *prometheus.CounterVec

	deprecated *deprecatedRequests
}

func newRequestMetrics(r *prometheus.Registry) *requestMetrics {
	m := &requestMetrics{registry: r, deprecated: newDeprecatedRequests(r)}
	m.counts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_network_requestmetrics_requests_total", Help: "Requests that were answered."}, []string{"request", "version"})
	m.errors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_network_requestmetrics_errors_total", Help: "Error codes in answers, NONE among them."}, []string{"request", "error"})
	r.MustRegister(m.counts, m.errors)
	return m
}

// of measures an API's requests, under a separate name if one API has two kinds.
func (m *requestMetrics) of(key int16, name string, maxVersion int16) *requests {
	stage := func(s string) *summary {
		return newTimes(m.registry, "kafka_network_requestmetrics_"+s+"timems", "Time of requests by stage, in milliseconds.", prometheus.Labels{"request": name})
	}
	q := &requests{deprecated: -1, request: name, name: RequestName(key), local: stage("local"), remote: stage("remote"), throttle: stage("throttle"), total: stage("total")}
	q.size = newSizes(m.registry, "kafka_network_requestmetrics_requestbytes", "Size of requests without their headers, in bytes.", prometheus.Labels{"request": name})
	if newest, ok := newestDeprecated[kmsg.Key(key)]; ok {
		q.deprecated = newest
	}
	for _, s := range queues {
		stage(s) // present but never observed
	}
	q.none = sync.OnceValue(func() prometheus.Counter { return m.errors.WithLabelValues(q.name, "NONE") })
	for v := range maxVersion + 1 {
		q.versions = append(q.versions, m.counts.WithLabelValues(name, strconv.Itoa(int(v))))
	}
	return q
}

func (q *requests) observe(r Request) {
	answered := r.Arrived.Add(r.Total)
	q.local.observe(r.Local, answered)
	q.remote.observe(r.Total-r.Local, answered)
	q.throttle.observe(r.Throttle, answered)
	q.total.observe(r.Total, answered)
	q.size.of.Observe(int64(r.Size), answered)
}

// countErrors counts the error codes in a response.
func (m *requestMetrics) countErrors(q *requests, found Codes) {
	if found.none > 0 {
		q.none().Add(float64(found.none))
	}
	for code, times := range found.others {
		m.errors.WithLabelValues(q.name, errorName(code)).Add(float64(times))
	}
}

// errorName returns Apache Kafka's name of an error (Errors, 3.9). The wire library still has an older name for one of
// them.
func errorName(code int16) string {
	err, ok := kerr.ErrorForCode(code).(*kerr.Error)
	switch {
	case !ok:
		return "UNKNOWN_SERVER_ERROR"
	case err == kerr.NotLeaderForPartition:
		return "NOT_LEADER_OR_FOLLOWER"
	}
	return err.Message
}

// spelling converts the wire library's names of APIs to Apache Kafka's.
var spelling = strings.NewReplacer("ISR", "Isr", "SASL", "Sasl", "ACLs", "Acls", "SCRAM", "Scram", "IDs", "Ids", "ID", "Id",
	"AlterPartitionAssignments", "AlterPartitionReassignments")

// RequestName returns an API's name in metrics.
func RequestName(key int16) string { return spelling.Replace(kmsg.NameForKey(key)) }

// The two kinds of Fetch are measured separately: one waits for records by design, the other feeds followers.
const (
	fetchConsumer = "FetchConsumer"
	fetchFollower = "FetchFollower"
)

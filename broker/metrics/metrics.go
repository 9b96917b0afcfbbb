package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// API is one that requests are counted of.
type API struct{ Key, MaxVersion int16 }

// Metrics are one broker's. All methods may be called on nil.
type Metrics struct {
	registry *prometheus.Registry
	requests *requestMetrics
	byKey    []*requests // nil: an API that is not offered
	follower *requests   // Fetch of followers
	topics   topics
	waiting  *prometheus.GaugeVec

	zk, flushes *summary
	controller  controllerTimes
}

// New returns the metrics of a broker that serves some APIs.
func New(apis []API) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.requests = newRequestMetrics(m.registry)
	m.byKey = make([]*requests, maxKey(apis)+1)
	for _, a := range apis {
		name := RequestName(a.Key)
		if a.Key == int16(kmsg.Fetch) {
			name = fetchConsumer
			m.follower = m.requests.of(a.Key, fetchFollower, a.MaxVersion)
		}
		m.byKey[a.Key] = m.requests.of(a.Key, name, a.MaxVersion)
	}
	m.topics.of = make(map[string]*TopicTraffic)
	m.waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kafka_server_delayedoperationpurgatory_purgatorysize", Help: "Answers that wait."}, []string{"delayedOperation"})
	for _, operation := range []string{"Produce", "Fetch"} {
		m.waiting.WithLabelValues(operation) // shown from the beginning
	}
	m.controller = newControllerTimes(m.registry)
	m.zk = newTimes(m.registry, "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", "Time of requests to ZooKeeper, in milliseconds.", nil)
	m.flushes = newTimes(m.registry, "kafka_log_logflushstats_logflushrateandtimems", "Time to make a segment durable, in milliseconds.", nil)
	m.registry.MustRegister(&m.topics, m.waiting, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func maxKey(apis []API) (highest int16) {
	for _, a := range apis {
		highest = max(highest, a.Key)
	}
	return highest
}

// Collect adds metrics that are asked for when they are read.
func (m *Metrics) Collect(f func(add func(prometheus.Metric))) {
	if m != nil {
		m.registry.MustRegister(reader(f))
	}
}

// reader is a collector whose metrics are not known before.
type reader func(add func(prometheus.Metric))

// Describe is prometheus.Collector.
func (reader) Describe(chan<- *prometheus.Desc) {}

// Collect is prometheus.Collector.
func (r reader) Collect(out chan<- prometheus.Metric) { r(func(m prometheus.Metric) { out <- m }) }

// Gauge is a value at the moment. labels are names and values in turn.
func Gauge(name string, value float64, labels ...string) prometheus.Metric {
	return constant(prometheus.GaugeValue, name, value, labels)
}

// Counter is a value that only grows. labels are names and values in turn.
func Counter(name string, value float64, labels ...string) prometheus.Metric {
	return constant(prometheus.CounterValue, name, value, labels)
}

func constant(kind prometheus.ValueType, name string, value float64, labels []string) prometheus.Metric {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	help := "As Apache Kafka's metric of that name."
	if strings.HasPrefix(name, "barnabas_") {
		help = "Apache Kafka has none like it: see docs/compat.md."
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
}

// Received counts a request.
func (m *Metrics) Received(r Request) {
	if q := m.of(r); q != nil && int(r.Version) < len(q.versions) {
		q.versions[r.Version].Inc()
	}
}

// Answered measures a request's times, and counts the error codes in its answer.
func (m *Metrics) Answered(r Request, found Codes) {
	if q := m.of(r); q != nil {
		q.observe(r)
		m.requests.countErrors(q, found)
	}
}

func (m *Metrics) of(r Request) *requests {
	switch {
	case m == nil:
		return nil
	case r.FromFollower:
		return m.follower
	case int(r.Key) >= len(m.byKey):
		return nil
	}
	return m.byKey[r.Key]
}

// Topic applies a count to a topic and to all topics.
func (m *Metrics) Topic(name string, count func(*TopicTraffic)) {
	if m == nil {
		return
	}
	count(&m.topics.all)
	count(m.topics.get(name))
}

// Forget drops the counts of a deleted topic.
func (m *Metrics) Forget(topic string) {
	if m != nil {
		m.topics.forget(topic)
	}
}

// Waiting counts an answer of some kind that waits, until done is called.
func (m *Metrics) Waiting(operation string) (done func()) {
	if m == nil {
		return func() {}
	}
	g := m.waiting.WithLabelValues(operation)
	g.Inc()
	return g.Dec
}

// Flushed measures how long it took to make a segment durable.
func (m *Metrics) Flushed(took time.Duration) {
	if m != nil {
		m.flushes.observe(took, time.Now())
	}
}

// ZooKeeper measures a request to ZooKeeper that was answered.
func (m *Metrics) ZooKeeper(took time.Duration) {
	if m != nil {
		m.zk.observe(took, time.Now())
	}
}

// Traffic gives each topic's counts, and with an empty name those of all topics together.
func (m *Metrics) Traffic(each func(topic string, t *TopicTraffic)) {
	if m == nil {
		return
	}
	each("", &m.topics.all)
	m.topics.mu.RLock()
	defer m.topics.mu.RUnlock()
	for name, t := range m.topics.of {
		each(name, t)
	}
}

package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// API is an API whose requests are counted.
type API struct{ Key, MaxVersion int16 }

// Metrics are the metrics of one broker. All methods may be called on nil.
type Metrics struct {
	registry *prometheus.Registry
	requests *requestMetrics
	byKey    []*requests // nil: an API that is not offered
	follower *requests   // for Fetch from followers
	topics   topics
	waiting  *waits

	zk, flushes *summary
	controller  *controllerTimes

	verifications *summary
	unverified    prometheus.Counter
}

// New returns the metrics of a broker that serves the given APIs. work has the names of the controller's kinds of work
// in metrics, empty if one is not measured. hosts reports whether the broker has a partition of a topic.
func New(apis []API, work []string, hosts func(topic string) bool) *Metrics {
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
	m.topics.mu.of, m.topics.hosts = make(map[string]*TopicTraffic), hosts
	m.waiting = newWaits(m.registry)
	m.controller = newControllerTimes(m.registry, work)
	m.zk = newTimes(m.registry, "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", "Time of requests to ZooKeeper, in milliseconds.", nil)
	m.flushes = newTimes(m.registry, "kafka_log_logflushstats_logflushrateandtimems", "Time to make a segment durable, in milliseconds.", nil)
	m.verifications = newTimes(m.registry, "kafka_server_addpartitionstotxnmanager_verificationtimems", "Time to ask whether partitions are in a transaction, in milliseconds.", nil)
	m.unverified = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kafka_server_addpartitionstotxnmanager_verificationfailurerate", Help: "Partitions that were not found in their transaction. A counter, as Apache Kafka's of that name."})
	m.registry.MustRegister(&m.topics, m.unverified, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func maxKey(apis []API) (highest int16) {
	for _, a := range apis {
		highest = max(highest, a.Key)
	}
	return highest
}

// Collect adds metrics that are determined when they are read.
func (m *Metrics) Collect(f func(add func(prometheus.Metric))) {
	if m != nil {
		m.registry.MustRegister(reader(f))
	}
}

// reader is a collector whose metrics are not known in advance.
type reader func(add func(prometheus.Metric))

// Describe is prometheus.Collector.
func (reader) Describe(chan<- *prometheus.Desc) {}

// Collect is prometheus.Collector.
func (r reader) Collect(out chan<- prometheus.Metric) { r(func(m prometheus.Metric) { out <- m }) }

// Gauge returns a current value. labels are alternating names and values.
func Gauge(name string, value float64, labels ...string) prometheus.Metric {
	return constant(prometheus.GaugeValue, name, value, labels)
}

// Counter returns a value that only grows. labels are alternating names and values.
func Counter(name string, value float64, labels ...string) prometheus.Metric {
	return constant(prometheus.CounterValue, name, value, labels)
}

func constant(kind prometheus.ValueType, name string, value float64, labels []string) prometheus.Metric {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, strings.ToValidUTF8(labels[i+1], "\uFFFD")) // invalid UTF-8 would panic
	}
	help := "As Apache Kafka's metric of that name."
	if strings.HasPrefix(name, "barnabas_") {
		help = "Apache Kafka has none like it: see docs/compat.md."
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
}

// Received counts a request. by, which returns the client's software, is called only if it matters.
func (m *Metrics) Received(r Request, by func() Software) {
	q := m.of(r)
	if q == nil || int(r.Version) >= len(q.versions) {
		return
	}
	q.versions[r.Version].Inc()
	if r.Version <= q.deprecated {
		m.requests.deprecated.count(q.request, r.Version, by())
	}
}

// Answered measures a request's times and counts the error codes in its response.
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

// Topic applies a count to a topic, if the broker has partitions of it, and to the total of all topics.
func (m *Metrics) Topic(name string, count func(*TopicTraffic)) {
	if m == nil {
		return
	}
	count(&m.topics.all)
	if traffic := m.topics.get(name); traffic != nil {
		count(traffic)
	}
}

// Forget drops the counts of a topic of which the broker has no more partitions.
func (m *Metrics) Forget(topic string) {
	if m != nil {
		m.topics.forget(topic)
	}
}

// Verified measures how long a transaction verification took, and counts partitions for which it failed.
func (m *Metrics) Verified(took time.Duration, failed int) {
	if m != nil {
		m.verifications.observe(took, time.Now())
		m.unverified.Add(float64(failed))
	}
}

// Flushed measures how long a flush of a segment took.
func (m *Metrics) Flushed(took time.Duration) {
	if m != nil {
		m.flushes.observe(took, time.Now())
	}
}

// ZooKeeper measures the latency of a ZooKeeper request.
func (m *Metrics) ZooKeeper(took time.Duration) {
	if m != nil {
		m.zk.observe(took, time.Now())
	}
}

// Traffic calls each with every topic's counts, and with an empty name for those of all topics together.
func (m *Metrics) Traffic(each func(topic string, t *TopicTraffic)) {
	if m == nil {
		return
	}
	each("", &m.topics.all)
	m.topics.mu.RLock()
	defer m.topics.mu.RUnlock()
	for name, t := range m.topics.mu.of {
		each(name, t)
	}
}

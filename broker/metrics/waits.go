package metrics

import "github.com/prometheus/client_golang/prometheus"

// Operation is a kind of request whose answer may have to wait.
type Operation int

// The operations.
const (
	Produce Operation = iota // waits for the in-sync replicas
	Fetch                    // waits for records
	operations
)

var operationNames = [operations]string{Produce: "Produce", Fetch: "Fetch"}

// waits counts the answers that wait, and those that time out.
type waits struct {
	sizes, delayed     [operations]prometheus.Gauge // current numbers: only what is still waiting
	consumer, follower prometheus.Counter           // fetches that waited for their full wait time
	produce            prometheus.Counter
}

func newWaits(r *prometheus.Registry) *waits {
	gauge := func(name string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kafka_server_delayedoperationpurgatory_" + name, Help: "Answers that wait."}, []string{"delayedOperation"})
		r.MustRegister(g)
		return g
	}
	fetches := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kafka_server_delayedfetchmetrics_expires_total", Help: "Fetches that waited as long as they may."}, []string{"fetcherType"})
	w := &waits{consumer: fetches.WithLabelValues("consumer"), follower: fetches.WithLabelValues("follower")}
	w.produce = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kafka_server_delayedproducemetrics_expires_total", Help: "Partitions of Produce requests whose records not all in-sync replicas had in time."})
	r.MustRegister(fetches, w.produce)
	sizes, delayed := gauge("purgatorysize"), gauge("numdelayedoperations")
	for o, name := range operationNames {
		w.sizes[o], w.delayed[o] = sizes.WithLabelValues(name), delayed.WithLabelValues(name)
	}
	return w
}

// Waiting counts a waiting answer until done is called.
func (m *Metrics) Waiting(o Operation) (done func()) {
	if m == nil {
		return func() {}
	}
	m.waiting.sizes[o].Inc()
	m.waiting.delayed[o].Inc()
	return func() {
		m.waiting.sizes[o].Dec()
		m.waiting.delayed[o].Dec()
	}
}

// FetchExpired counts a fetch that has waited for its full wait time.
func (m *Metrics) FetchExpired(fromFollower bool) {
	switch {
	case m == nil:
	case fromFollower:
		m.waiting.follower.Inc()
	default:
		m.waiting.consumer.Inc()
	}
}

// ProduceExpired counts a partition whose records were not replicated to all in-sync replicas in time.
func (m *Metrics) ProduceExpired() {
	if m != nil {
		m.waiting.produce.Inc()
	}
}

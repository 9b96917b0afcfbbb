package metrics

import (
	"time"

	"barnabas/broker/metrics/histogram"

	"github.com/prometheus/client_golang/prometheus"
)

// quantiles are those that Apache Kafka reports for its histograms.
var quantiles = []float64{0.5, 0.75, 0.95, 0.98, 0.99, 0.999}

// summary serves the quantiles, count and sum of observed values. A summary of the Prometheus library costs twenty
// times as much per value, since it inserts each into five sorted lists.
type summary struct {
	desc *prometheus.Desc
	unit float64 // the served unit in terms of the observed one
	of   histogram.Histogram
}

// newTimes returns a summary of durations, served in milliseconds.
func newTimes(r prometheus.Registerer, name, help string, labels prometheus.Labels) *summary {
	return newSummary(r, float64(time.Millisecond), name, help, labels)
}

// newSizes returns a summary of sizes in bytes.
func newSizes(r prometheus.Registerer, name, help string, labels prometheus.Labels) *summary {
	return newSummary(r, 1, name, help, labels)
}

func newSummary(r prometheus.Registerer, unit float64, name, help string, labels prometheus.Labels) *summary {
	s := &summary{desc: prometheus.NewDesc(name, help, nil, labels), unit: unit}
	r.MustRegister(s)
	return s
}

func (s *summary) observe(took time.Duration, now time.Time) { s.of.Observe(int64(took), now) }

// Describe implements prometheus.Collector.
func (s *summary) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s *summary) Collect(out chan<- prometheus.Metric) {
	read := s.of.Read(quantiles, time.Now())
	values := make(map[float64]float64, len(quantiles))
	for i, q := range quantiles {
		values[q] = read.Quantiles[i] / s.unit
	}
	out <- prometheus.MustNewConstSummary(s.desc, read.Count, read.Sum/s.unit, values)
}

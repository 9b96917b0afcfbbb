// Package metrics counts what a broker does and serves the counts over HTTP for Prometheus. The names and labels are
// those that the usual JMX exporter rules produce from Apache Kafka's metrics, so that existing dashboards and alerts
// work.
//
// There is no global registry: each broker has its own. Without metrics.listener there is no Metrics; a nil *Metrics
// accepts all calls and counts nothing.
package metrics

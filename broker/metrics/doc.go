// Package metrics counts what a broker does and serves it over HTTP for Prometheus. The names and labels are those that
// the usual rules of the JMX exporter make of Apache Kafka's metrics, so that dashboards and alerts made for it work.
//
// There is no global registry: each broker has its own. Without metrics.listener there is no Metrics at all; a nil
// *Metrics takes everything and counts nothing.
package metrics

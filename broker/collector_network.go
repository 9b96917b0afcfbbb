package broker

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"barnabas/broker/metrics"
	"barnabas/network"

	"github.com/prometheus/client_golang/prometheus"
)

func (m *collector) network(add func(prometheus.Metric)) {
	counts, traffic := m.s.network.ConnectionCounts(), m.s.network.Traffic()
	for listener, of := range m.s.network.ClientCounts() {
		n, labels := counts[listener], []string{"listener", listener, "networkProcessor", "0"}
		add(metrics.Gauge(socketMetrics+"connection_count", float64(n.Open), labels...))
		add(metrics.Counter(socketMetrics+"connection_creation_total", float64(n.Opened), labels...))
		add(metrics.Counter(socketMetrics+"connection_close_total", float64(n.Opened-int64(n.Open)), labels...))
		clients(listener, of, add)
		if t := traffic[listener]; t != nil { // otherwise it has been unbound meanwhile
			frames(t, labels, add)
		}
	}
	m.authentications(add)
	used, left := m.s.network.Budget()
	add(metrics.Gauge("kafka_network_socketserver_memorypoolused", float64(used)))
	add(metrics.Gauge("kafka_network_socketserver_memorypoolavailable", float64(left)))
	m.plane("", add)
	if m.s.static.ControlPlaneListener != "" {
		m.plane("controlplane", add)
	}
}

const socketMetrics = "kafka_server_socket_server_metrics_"

// frames adds the traffic of a listener. Apache Kafka's network layer is named from a client's point of view, so what a
// broker sends counts as requests and what it receives as responses (Selector, 3.9).
func frames(t *network.Traffic, labels []string, add func(prometheus.Metric)) {
	for name, n := range map[string]*atomic.Int64{
		"incoming_byte": &t.BytesIn, "outgoing_byte": &t.BytesOut, "response": &t.Requests, "request": &t.Answers,
	} {
		add(metrics.Counter(socketMetrics+name+"_total", float64(n.Load()), labels...))
	}
}

// clients adds a listener's open connections by client software and by TLS protocol.
func clients(listener string, of network.ClientCounts, add func(prometheus.Metric)) {
	for s, n := range of.Software {
		add(metrics.Gauge(socketMetrics+"connections_software", float64(n), "clientSoftwareName", s.Name, "clientSoftwareVersion", s.Version,
			"listener", listener, "networkProcessor", "0"))
	}
	for e, n := range of.Encryption {
		add(metrics.Gauge(socketMetrics+"connections_tls_info", float64(n), "cipher", e.Cipher, "protocol", e.Protocol, "listener", listener, "networkProcessor", "0"))
	}
}

// plane adds the metrics of a plane's threads and queues, which do not exist here: they are as idle as the processors.
func (m *collector) plane(prefix string, add func(prometheus.Metric)) {
	idle := m.idle.measure(time.Now())
	add(metrics.Gauge("kafka_network_socketserver_"+prefix+"networkprocessoravgidle_percent", idle))
	add(metrics.Gauge("kafka_server_kafkarequesthandlerpool_"+prefix+"requesthandleravgidle_percent", idle))
	add(metrics.Gauge("kafka_network_requestchannel_"+prefix+"requestqueuesize", 0))
	add(metrics.Gauge("kafka_network_requestchannel_"+prefix+"responsequeuesize", 0))
	add(metrics.Gauge("kafka_network_requestchannel_"+prefix+"responsequeuesize", 0, "processor", "0"))
	var expired int64
	for listener, n := range m.s.network.Authentications() {
		if (listener == m.s.static.ControlPlaneListener) == (prefix != "") {
			expired += n.Expired.Load()
		}
	}
	add(metrics.Gauge("kafka_network_socketserver_"+prefix+"expiredconnectionskilledcount", float64(expired)))
}

// authentications adds the counts of logins, on listeners with SASL, and of TLS handshakes.
func (m *collector) authentications(add func(prometheus.Metric)) {
	for listener, n := range m.s.network.Authentications() {
		for name, count := range map[string]int64{
			"successful_authentication":           n.Succeeded.Load(),
			"successful_authentication_no_reauth": n.SucceededUnaware.Load(),
			"failed_authentication":               n.Failed.Load(),
			"successful_reauthentication":         n.Again.Load(),
			"failed_reauthentication":             n.FailedAgain.Load(),
		} {
			add(metrics.Counter(socketMetrics+name+"_total", float64(count), "listener", listener, "networkProcessor", "0"))
		}
		add(metrics.Counter(socketMetrics+"expired_connections_killed_count", float64(n.Expired.Load()),
			"listener", listener, "networkProcessor", "0"))
	}
}

// idleness measures the share of CPU time that this process leaves unused.
type idleness struct {
	mu struct {
		sync.Mutex
		at   time.Time
		used time.Duration
		last float64
	}
}

// idlenessWindow is the shortest period over which the share is measured.
const idlenessWindow = time.Second

func (i *idleness) measure(now time.Time) float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 1
	}
	used := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	switch elapsed := now.Sub(i.mu.at); {
	case i.mu.at.IsZero():
		i.mu.last = 1
	case elapsed < idlenessWindow:
		return i.mu.last
	default:
		i.mu.last = max(0, 1-(used-i.mu.used).Seconds()/(elapsed.Seconds()*float64(runtime.GOMAXPROCS(0))))
	}
	i.mu.at, i.mu.used = now, used
	return i.mu.last
}

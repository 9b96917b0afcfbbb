package broker

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"barnabas/broker/metrics"
	"barnabas/broker/replica"

	"github.com/prometheus/client_golang/prometheus"
)

// partitionCounts summarizes the partitions that this broker hosts.
type partitionCounts struct{ leaders, all, offline, under, underMin, atMin, reassigning, lateTransactions int }

func (m *collector) replicas(add func(prometheus.Metric)) {
	var sum partitionCounts
	for _, p := range m.s.replicas.Partitions() {
		m.partition(p, &sum, add)
	}
	for name, n := range map[string]int{
		"leadercount": sum.leaders, "partitioncount": sum.all, "offlinereplicacount": sum.offline,
		"underreplicatedpartitions": sum.under, "underminisrpartitioncount": sum.underMin, "atminisrpartitioncount": sum.atMin,
		"reassigningpartitions": sum.reassigning, "partitionswithlatetransactionscount": sum.lateTransactions,
	} {
		add(metrics.Gauge("kafka_server_replicamanager_"+name, float64(n)))
	}
	c := m.s.replicas.Counts()
	add(metrics.Counter("kafka_server_replicamanager_isrshrinks_total", float64(c.ISRShrinks)))
	add(metrics.Counter("kafka_server_replicamanager_isrexpands_total", float64(c.ISRExpands)))
	add(metrics.Counter("kafka_server_replicamanager_failedisrupdates_total", float64(c.ISRRefused)))
	add(metrics.Counter("barnabas_records_lost_total", float64(c.RecordsLost))) // Apache Kafka has no such metric
}

func (m *collector) partition(p *replica.Partition, sum *partitionCounts, add func(prometheus.Metric)) {
	state := p.State()
	labels := []string{"topic", p.TP.Topic, "partition", strconv.Itoa(int(p.TP.Partition))}
	gauge := func(name string, v int) {
		add(metrics.Gauge("kafka_cluster_partition_"+name, float64(v), labels...))
	}
	sum.all++
	if state.Role == replica.Offline {
		sum.offline++
	}
	if state.Role != replica.Leader {
		return
	}
	least := min(m.s.topics.get(p.TP.Topic).MinInsyncReplicas, len(state.Replicas))
	under, underMin, atMin := one(len(state.ISR) < len(state.Replicas)), one(len(state.ISR) < least), one(len(state.ISR) == least)
	sum.leaders++
	sum.under += under
	sum.underMin += underMin
	sum.atMin += atMin
	sum.reassigning += one(state.Reassigning)
	sum.lateTransactions += one(p.Log().TransactionIdle(time.Now()) > m.s.static.TransactionMaxTimeout+lateTransaction)
	gauge("replicascount", len(state.Replicas))
	gauge("insyncreplicascount", len(state.ISR))
	gauge("underreplicated", under)
	gauge("underminisr", underMin)
	gauge("atminisr", atMin)
	gauge("laststableoffsetlag", int(p.Log().HighWatermark()-p.Log().LastStableOffset()))
}

// lateTransaction is the time after transaction.max.timeout.ms within which a coordinator ends a transaction: one that
// is open for longer is hanging (KIP-664).
const lateTransaction = 5 * time.Minute

// replicated counts records that came from another broker.
func (s *Server) replicated(topic string, bytes int, reassigned bool) {
	if s.metrics == nil || bytes == 0 {
		return
	}
	s.metrics.Topic(topic, func(t *metrics.TopicTraffic) {
		t.ReplicationBytesIn.Add(int64(bytes))
		if reassigned {
			t.ReassignmentBytesIn.Add(int64(bytes))
		}
	})
}

// followers adds the metrics of fetching from other brokers and copying between log directories. No fetcher or mover
// ever dies or gives up a partition: those that are being retried count as failed.
func (m *collector) followers(add func(prometheus.Metric)) {
	var most int64
	failing := 0
	for _, f := range m.s.replicas.Fetchers() {
		m.fetcher(f, add)
		failing += f.Failing
		for _, lag := range f.Lags {
			most = max(most, lag)
		}
	}
	const fetchers, movers = "kafka_server_replicafetchermanager_", "kafka_server_replicaalterlogdirsmanager_"
	add(metrics.Gauge(fetchers+"maxlag", float64(most), "clientId", "Replica"))
	add(metrics.Gauge(fetchers+"failedpartitionscount", float64(failing), "clientId", "Replica"))
	add(metrics.Gauge(fetchers+"deadthreadcount", 0, "clientId", "Replica"))
	add(metrics.Gauge(movers+"maxlag", float64(m.s.logs.FarthestMove()), "clientId", "ReplicaAlterLogDirs"))
	add(metrics.Gauge(movers+"deadthreadcount", 0, "clientId", "ReplicaAlterLogDirs"))
}

func (m *collector) fetcher(f replica.FetcherState, add func(prometheus.Metric)) {
	host, port, _ := net.SplitHostPort(f.Source.Addr)
	client := fmt.Sprintf("ReplicaFetcherThread-%d-%d", f.Number, f.Source.ID)
	add(metrics.Counter("kafka_server_fetcherstats_bytes_total", float64(f.Bytes), "clientId", client, "brokerHost", host, "brokerPort", port))
	add(metrics.Counter("kafka_server_fetcherstats_requests_total", float64(f.Requests), "clientId", client, "brokerHost", host, "brokerPort", port))
	for tp, lag := range f.Lags {
		add(metrics.Gauge("kafka_server_fetcherlagmetrics_consumerlag", float64(lag), "clientId", client, "topic", tp.Topic,
			"partition", strconv.Itoa(int(tp.Partition))))
	}
}

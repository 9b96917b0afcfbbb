package broker

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"barnabas/broker/metrics"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"
)

func (m *collector) logs(add func(prometheus.Metric)) {
	producers := 0
	for _, l := range m.s.logs.Logs() {
		producers += l.ProducerCount()
		tp := l.TopicPartition()
		labels := []string{"topic", tp.Topic, "partition", strconv.Itoa(int(tp.Partition))}
		add(metrics.Gauge("kafka_log_log_size", float64(l.Size()), labels...))
		add(metrics.Gauge("kafka_log_log_logstartoffset", float64(l.LogStartOffset()), labels...))
		add(metrics.Gauge("kafka_log_log_logendoffset", float64(l.LogEndOffset()), labels...))
		add(metrics.Gauge("kafka_log_log_numlogsegments", float64(l.SegmentCount()), labels...))
	}
	add(metrics.Gauge("kafka_server_replicamanager_produceridcount", float64(producers)))
	offline, full := m.s.logs.OfflineDirs(), m.s.logs.FullDirs()
	add(metrics.Gauge("kafka_log_logmanager_offlinelogdirectorycount", float64(len(offline))))
	for _, dir := range m.s.static.LogDirs {
		add(metrics.Gauge("kafka_log_logmanager_logdirectoryoffline", float64(one(slices.Contains(offline, dir))), "logDirectory", dir))
		add(metrics.Gauge("barnabas_log_directory_full", float64(one(slices.Contains(full, dir))), "logDirectory", dir)) // Apache Kafka has no such metric
	}
	m.cleaner(add)
}

// recovery adds the progress of loading logs, while it goes on. Apache Kafka does not report bytes and time.
func (m *collector) recovery(add func(prometheus.Metric)) {
	for _, d := range m.loading.Dirs() {
		if d.Done {
			continue
		}
		add(metrics.Gauge("kafka_log_logmanager_remaininglogstorecover", float64(d.Total-d.Loaded), "dir", d.Dir))
		add(metrics.Gauge("barnabas_recovery_remaining_bytes", float64(d.ToRead-d.Read), "dir", d.Dir))
		add(metrics.Gauge("barnabas_recovery_remaining_seconds", d.Remaining.Seconds(), "dir", d.Dir))
	}
}

// cleaner adds the metrics of compaction. There is one cleaner, where Apache Kafka reports the maximum over its
// threads.
func (m *collector) cleaner(add func(prometheus.Metric)) {
	c := m.s.logs.CleanerCounts()
	for dir, logs := range c.Uncleanable {
		add(metrics.Gauge("kafka_log_logcleanermanager_uncleanable_partitions_count", float64(logs.Count), "logDirectory", dir))
		add(metrics.Gauge("kafka_log_logcleanermanager_uncleanable_bytes", float64(logs.Bytes), "logDirectory", dir))
	}
	add(metrics.Gauge("kafka_log_logcleanermanager_max_dirty_percent", 100*c.MaxDirtyRatio))
	if !c.LastRun.IsZero() {
		add(metrics.Gauge("kafka_log_logcleanermanager_time_since_last_run_ms", float64(time.Since(c.LastRun).Milliseconds())))
	}
	add(metrics.Gauge("kafka_log_logcleaner_max_compaction_delay_secs", c.MaxLate.Seconds()))
	add(metrics.Gauge("kafka_log_logcleaner_max_clean_time_secs", c.MaxTime.Seconds()))
	add(metrics.Gauge("kafka_log_logcleaner_cleaner_recopy_percent", 100*float64(c.BytesWritten)/float64(max(c.BytesRead, 1))))
	add(metrics.Counter("kafka_utils_throttler_cleaner_io", float64(c.BytesRead+c.BytesWritten)))
	add(metrics.Gauge("kafka_log_logcleaner_deadthreadcount", 0))
}

// rejections adds the counts of records that were rejected as invalid, over all topics (BrokerTopicMetrics, 3.9).
func (m *collector) rejections(add func(prometheus.Metric)) {
	r := m.s.logs.Rejections()
	for name, n := range map[string]*atomic.Int64{
		"invalidmagicnumber": &r.Magic, "invalidmessagecrc": &r.Checksum, "invalidoffsetorsequence": &r.Offset, "nokeycompactedtopic": &r.Keyless,
	} {
		add(metrics.Counter("kafka_server_brokertopicmetrics_"+name+"records_total", float64(n.Load())))
	}
}

// diskBytes adds what the process has read from disks and written to them, where Linux reports it
// (LinuxIoMetricsCollector, 3.9).
func diskBytes(add func(prometheus.Metric)) {
	self, err := procfs.Self()
	if err != nil {
		return
	}
	used, err := self.IO()
	if err != nil {
		return
	}
	add(metrics.Gauge("kafka_server_kafkaserver_linux_disk_read_bytes", float64(used.ReadBytes)))
	add(metrics.Gauge("kafka_server_kafkaserver_linux_disk_write_bytes", float64(used.WriteBytes)))
}

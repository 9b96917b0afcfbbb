package integration

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"barnabas/internal/testport"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scrape reads a page of the metrics listener.
func scrape(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// dashboard contains the names that public Kafka dashboards use.
var dashboard = []string{
	"kafka_server_brokertopicmetrics_messagesin_total", "kafka_server_brokertopicmetrics_bytesin_total",
	"kafka_server_brokertopicmetrics_bytesout_total", "kafka_server_brokertopicmetrics_failedproducerequests_total",
	"kafka_server_brokertopicmetrics_failedfetchrequests_total", "kafka_server_brokertopicmetrics_totalproducerequests_total",
	"kafka_server_brokertopicmetrics_totalfetchrequests_total", "kafka_server_brokertopicmetrics_replicationbytesin_total",
	"kafka_server_replicamanager_leadercount", "kafka_server_replicamanager_partitioncount",
	"kafka_server_replicamanager_underreplicatedpartitions", "kafka_server_replicamanager_underminisrpartitioncount",
	"kafka_server_replicamanager_isrshrinks_total", "kafka_server_replicamanager_isrexpands_total",
	"kafka_server_replicafetchermanager_maxlag", "kafka_controller_controllerstats_uncleanleaderelections_total",
	"kafka_server_replicamanager_offlinereplicacount", "kafka_server_kafkaserver_brokerstate",
	"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
	"kafka_server_delayedoperationpurgatory_purgatorysize", "kafka_server_sessionexpirelistener_zookeeperexpires_total",
	"kafka_server_socket_server_metrics_connection_count",
	"kafka_controller_kafkacontroller_activecontrollercount", "kafka_controller_kafkacontroller_offlinepartitionscount",
	"kafka_controller_kafkacontroller_globaltopiccount", "kafka_controller_kafkacontroller_globalpartitioncount",
	"kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
	"kafka_network_requestmetrics_requests_total", "kafka_network_requestmetrics_errors_total",
	"kafka_network_requestmetrics_totaltimems", "kafka_network_requestmetrics_localtimems",
	"kafka_network_requestmetrics_remotetimems", "kafka_network_requestmetrics_requestqueuetimems",
	"kafka_network_requestmetrics_responsequeuetimems", "kafka_network_requestmetrics_responsesendtimems",
	"kafka_network_socketserver_networkprocessoravgidle_percent", "kafka_network_requestchannel_requestqueuesize",
	"kafka_log_log_size", "kafka_log_log_logendoffset", "kafka_log_log_logstartoffset", "kafka_log_log_numlogsegments",
	"kafka_log_logcleanermanager_uncleanable_partitions_count", "kafka_log_logcleanermanager_max_dirty_percent",
	"kafka_log_logcleaner_max_clean_time_secs", "kafka_log_logcleaner_deadthreadcount",
	"kafka_log_logmanager_offlinelogdirectorycount", "kafka_cluster_partition_insyncreplicascount",
	"kafka_server_socket_server_metrics_connection_creation_total", "kafka_server_socket_server_metrics_connection_close_total",
	"kafka_network_socketserver_expiredconnectionskilledcount", "kafka_server_fetchsessioncache_numincrementalfetchsessions",
	"kafka_server_kafkaserver_linux_disk_read_bytes", "kafka_server_kafkaserver_linux_disk_write_bytes",
	"kafka_coordinator_group_groupmetadatamanager_numgroups", "kafka_coordinator_group_groupmetadatamanager_numoffsets",
	"kafka_server_socket_server_metrics_incoming_byte_total", "kafka_server_socket_server_metrics_outgoing_byte_total",
	"kafka_server_socket_server_metrics_request_total", "kafka_server_socket_server_metrics_response_total",
	"kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms", "kafka_controller_controllereventmanager_eventqueuesize",
	"kafka_controller_kafkacontroller_topicstodeletecount", "kafka_controller_kafkacontroller_replicastodeletecount",
	"kafka_controller_kafkacontroller_topicsineligibletodeletecount", "kafka_controller_kafkacontroller_replicasineligibletodeletecount",
	"kafka_server_replicamanager_reassigningpartitions", "kafka_server_replicamanager_produceridcount",
	"kafka_server_brokertopicmetrics_reassignmentbytesin_total", "kafka_server_brokertopicmetrics_reassignmentbytesout_total",
	"kafka_log_logflushstats_logflushrateandtimems", "kafka_server_replicamanager_partitionswithlatetransactionscount",
	"kafka_controller_controllerstats_leaderelectionrateandtimems", "kafka_controller_controllerstats_topicdeletionrateandtimems",
	"kafka_server_group_coordinator_metrics_offset_commit_count", "kafka_server_group_coordinator_metrics_offset_expiration_count",
	"kafka_server_group_coordinator_metrics_offset_deletion_count", "kafka_server_group_coordinator_metrics_group_completed_rebalance_count",
	"kafka_server_group_coordinator_metrics_partition_load_time_max", "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
	"process_resident_memory_bytes", "go_goroutines",
}

// TestMetrics checks one broker after some traffic: every name that dashboards use is there, and the traffic is
// counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	addr := testport.Address(t)
	c := kafkatest.Run(t, kafkatest.Setting("metrics.listener", addr))
	newTopic(t, c, "t", 2, 1)
	w := dialWire(t, c.Broker(0).Addr())
	w.produce(9, "t", batch("a", "b", "c").MustBuild())
	w.fetch(fetching(12, "t", 0))
	w.fetch(fetching(12, "t", 99)) // OFFSET_OUT_OF_RANGE
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	w.call(req)

	_, page := scrape(t, addr, "/metrics")
	lines := strings.Split(page, "\n")
	for _, name := range dashboard {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+" ") || strings.HasPrefix(l, name+"{") }) {
			t.Errorf("%s is not served", name)
		}
	}
	for _, want := range []string{
		`kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 3`,
		`kafka_server_brokertopicmetrics_messagesin_total 3`,
		`kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 1`,
		`kafka_network_requestmetrics_requests_total{request="FetchConsumer",version="12"} 2`,
		`kafka_network_requestmetrics_errors_total{error="OFFSET_OUT_OF_RANGE",request="Fetch"} 1`,
		`kafka_network_requestmetrics_totaltimems_count{request="FetchConsumer"} 2`,
		`kafka_server_kafkaserver_brokerstate 3`,
		`kafka_controller_kafkacontroller_activecontrollercount 1`,
		`kafka_controller_kafkacontroller_globalpartitioncount 2`,
		`kafka_server_replicamanager_leadercount 2`,
		`kafka_log_log_logendoffset{partition="0",topic="t"} 3`,
		`kafka_cluster_partition_insyncreplicascount{partition="1",topic="t"} 1`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("not served: %s", want)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := scrape(t, addr, path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := scrape(t, addr, "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("profiles are served although they are not enabled: %d", status)
	}
}

// TestMetricsOfCoordinators: a transaction is written, and read by a group that commits; the coordinators, the log and
// the ZooKeeper client have counted it.
func TestMetricsOfCoordinators(t *testing.T) {
	t.Parallel()
	addr := testport.Address(t)
	c := kafkatest.Run(t, kafkatest.Setting("metrics.listener", addr))
	newTopic(t, c, "t", 1, 1)
	connect := func(opts ...kgo.Opt) *kgo.Client {
		cl := newClient(t, append(opts, kgo.SeedBrokers(c.Addrs()...))...)
		t.Cleanup(cl.Close)
		return cl
	}
	writer := connect(kgo.TransactionalID("id"), kgo.DefaultProduceTopic("t"))
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := writer.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := writer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	reader := connect(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit())
	if fetches := reader.PollFetches(t.Context()); fetches.Err() != nil {
		t.Fatal(fetches.Err())
	}
	if err := reader.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, page := scrape(t, addr, "/metrics")
	lines := strings.Split(page, "\n")
	for _, want := range []string{
		"kafka_server_group_coordinator_metrics_offset_commit_count 1", "kafka_server_group_coordinator_metrics_group_completed_rebalance_count 1",
		"kafka_coordinator_group_groupmetadatamanager_numoffsets 1", "kafka_server_replicamanager_produceridcount 1",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("not served: %s", want)
		}
	}
	for _, name := range []string{
		"kafka_server_group_coordinator_metrics_partition_load_time_max", "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
		"kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count",
		"kafka_controller_controllerstats_controllerchangerateandtimems_count", "kafka_controller_controllerstats_topicchangerateandtimems_count",
		"kafka_controller_controllerstats_leaderandisrresponsereceivedrateandtimems_count",
		"kafka_controller_controllereventmanager_eventqueuetimems_count", `kafka_network_requestmetrics_requestbytes_sum{request="Produce"}`,
		`kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count{broker_id="0"}`,
		`kafka_server_socket_server_metrics_incoming_byte_total{listener="PLAINTEXT",networkProcessor="0"}`,
	} {
		if !slices.ContainsFunc(lines, func(l string) bool {
			value, ok := strings.CutPrefix(l, name+" ")
			return ok && value != "0" && value != "NaN"
		}) {
			t.Errorf("%s is missing or 0", name)
		}
	}
}

// TestReassignmentsAreMeasured: bytes copied to a replica that a reassignment adds are counted separately from other
// replication, on both sides (KIP-352).
func TestReassignmentsAreMeasured(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	c.topic(nil, 0, 1)
	c.must(0, strings.Repeat("x", 10_000))
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign("t", 0, []int32{0, 2})
	altered, err := kadm.NewClient(c.client()).AlterPartitionAssignments(t.Context(), req)
	if err != nil || altered["t"][0].Err != nil {
		t.Fatal(err, altered)
	}
	c.until("the replica has moved", func() bool { return slices.Equal(c.seenBy(0).Replicas, []int32{0, 2}) })
	c.must(0, "later")
	const of = "kafka_server_brokertopicmetrics_"
	out, all := c.metric(0, of+"reassignmentbytesout_total"), c.metric(0, of+"replicationbytesout_total")
	if out < 10_000 || all < 2*out {
		t.Errorf("%v bytes went out to the new replica, %v in all", out, all)
	}
	if in := c.metric(2, of+"reassignmentbytesin_total"); in < 10_000 {
		t.Errorf("%v bytes came to the new replica, %v went out", in, out)
	}
	if in := c.metric(1, of+"reassignmentbytesin_total"); in != 0 {
		t.Errorf("%v bytes arrived at the replica that was there before", in)
	}
	for id := range c.brokers {
		if n := c.metric(id, "kafka_server_replicamanager_reassigningpartitions"); n != 0 {
			t.Errorf("broker %d still leads %v partitions under reassignment", id, n)
		}
	}
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"barnabas/broker/api"
	"barnabas/broker/metadata"
	"barnabas/broker/metrics"
	"barnabas/broker/replica"
	"barnabas/broker/status"
	"barnabas/controller"
	"barnabas/logstore"
	"barnabas/network"
	"barnabas/zkcoord"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"
)

// The states of a broker, numbered as in Apache Kafka (BrokerState, 3.9).
const (
	stateStarting     = 1
	stateRunning      = 3
	stateShuttingDown = 6
)

// collector holds what is counted only for metrics, and reads the other parts when metrics are collected.
type collector struct {
	s        *Server
	started  time.Time
	state    atomic.Int32
	complete atomic.Bool // all parts exist and can be read
	loading  logstore.Loading
	idle     idleness
	identity atomic.Pointer[status.Broker] // set once it is known
	board    *status.Board

	groupLoads, txnLoads metrics.Recent // loading times of the coordinators' partitions

	session    sessionCounts                 // with ZooKeeper
	authorizer atomic.Pointer[sessionCounts] // of the authorizer's session; nil: there is no authorizer
}

// serveMetrics begins to serve metrics if metrics.listener is set. It comes before anything that may take long, so that
// operators see what the start is waiting for.
func (s *Server) serveMetrics(context.Context) error {
	if s.static.MetricsListener == "" {
		return nil
	}
	s.metrics = metrics.New(api.APIs(), controller.WorkMetrics(), func(topic string) bool { return s.replicas.Hosts(topic) })
	m := &collector{s: s, started: time.Now()}
	m.state.Store(stateStarting)
	m.identity.Store(&status.Broker{ID: int32(s.static.BrokerID)})
	m.board = status.NewBoard(m.reading, time.Now)
	s.collector = m
	s.metrics.Collect(m.collect)
	server, err := s.metrics.Serve(metrics.Config{Addr: s.static.MetricsListener, Ready: m.ready, Notes: m.notes, Profile: s.static.MetricsProfile})
	if err != nil {
		return err
	}
	m.serveStatus(server)
	s.onStop(server.Close)
	s.log.Infof("status page and metrics are served on http://%s/ and http://%[1]s/metrics", server.Addr())
	return nil
}

func (m *collector) running() {
	if m != nil {
		m.enter(stateRunning)
	}
}

func (m *collector) stopping() {
	if m != nil {
		m.enter(stateShuttingDown)
	}
}

// enter changes the broker's state, which the status page and readyz show at once.
func (m *collector) enter(state int32) {
	m.state.Store(state)
	m.board.Refresh()
}

// identified sets the broker's id and cluster.
func (m *collector) identified(id int32, cluster string) {
	if m != nil {
		m.identity.Store(&status.Broker{ID: id, Cluster: cluster})
	}
}

// notes returns what readyz adds for a broker that serves requests.
func (m *collector) notes() []string {
	var notes []string
	for _, dir := range m.s.logs.FullDirs() {
		notes = append(notes, fmt.Sprintf("log directory %s is full: clients' records are refused there until there is room (log.dir.min.free.bytes)", dir))
	}
	if left := len(m.s.logs.LoadingPartitions()); left > 0 {
		notes = append(notes, fmt.Sprintf("%d logs are still being recovered: their partitions are not served yet", left))
	}
	return notes
}

// ready returns an error that says why requests are not served.
func (m *collector) ready() error {
	switch m.state.Load() {
	case stateRunning:
		return nil
	case stateShuttingDown:
		return errors.New("the broker does not serve requests: it is shutting down")
	}
	return fmt.Errorf("the broker does not serve requests: it is %s", *m.s.doing.Load())
}

func (m *collector) groupsLoaded(took time.Duration) {
	if m != nil {
		m.groupLoads.Add(took, time.Now())
	}
}

func (m *collector) transactionsLoaded(took time.Duration) {
	if m != nil {
		m.txnLoads.Add(took, time.Now())
	}
}

// sessionCounts counts the changes of a ZooKeeper session.
type sessionCounts struct{ expired, disconnected, connected atomic.Int64 }

func (c *sessionCounts) changed(e zkcoord.SessionEvent) {
	switch e {
	case zkcoord.SessionExpired:
		c.expired.Add(1)
	case zkcoord.SessionSuspended:
		c.disconnected.Add(1)
	default:
		c.connected.Add(1)
	}
}

func (c *sessionCounts) collect(prefix string, add func(prometheus.Metric)) {
	add(metrics.Counter(prefix+"_zookeeperexpires_total", float64(c.expired.Load())))
	add(metrics.Counter(prefix+"_zookeeperdisconnects_total", float64(c.disconnected.Load())))
	add(metrics.Counter(prefix+"_zookeepersyncconnects_total", float64(c.connected.Load())))
}

// authorizedBy sets the session that ACLs are read with: the broker's, or own. The returned function stops counting.
func (m *collector) authorizedBy(own *zkcoord.Client) (cancel func()) {
	if m == nil {
		return func() {}
	}
	if own == nil {
		m.authorizer.Store(&m.session)
		return func() {}
	}
	counts := new(sessionCounts)
	m.authorizer.Store(counts)
	return own.OnSession(counts.changed)
}

// collect adds all metrics that are read on demand rather than counted.
func (m *collector) collect(add func(prometheus.Metric)) {
	add(metrics.Gauge("kafka_server_kafkaserver_brokerstate", float64(m.state.Load())))
	started := float64(m.started.UnixMilli())
	add(metrics.Gauge("kafka_server_app_info_start_time_ms", started))
	add(metrics.Gauge("kafka_server_app_info_starttimems", started, "id", strconv.Itoa(int(m.identity.Load().ID))))
	m.session.collect("kafka_server_sessionexpirelistener", add)
	if counts := m.authorizer.Load(); counts != nil {
		counts.collect("kafka_security_aclauthorizer", add)
	}
	m.recovery(add)
	diskBytes(add)
	if !m.complete.Load() {
		return
	}
	m.network(add)
	m.replicas(add)
	m.followers(add)
	m.rejections(add)
	m.logs(add)
	m.controller(add)
	m.groups(add)
	m.coordinators(add)
	m.fetchSessions(add)
}

func (m *collector) fetchSessions(add func(prometheus.Metric)) {
	c := m.s.handlers.FetchSessions()
	add(metrics.Gauge("kafka_server_fetchsessioncache_numincrementalfetchsessions", float64(c.Sessions)))
	add(metrics.Gauge("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", float64(c.Partitions)))
	add(metrics.Counter("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", float64(c.Evicted)))
}

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

// rejections adds the counts of records that were rejected as invalid, over all topics (BrokerTopicMetrics, 3.9).
func (m *collector) rejections(add func(prometheus.Metric)) {
	r := m.s.logs.Rejections()
	for name, n := range map[string]*atomic.Int64{
		"invalidmagicnumber": &r.Magic, "invalidmessagecrc": &r.Checksum, "invalidoffsetorsequence": &r.Offset, "nokeycompactedtopic": &r.Keyless,
	} {
		add(metrics.Counter("kafka_server_brokertopicmetrics_"+name+"records_total", float64(n.Load())))
	}
}

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

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

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

// controlled measures an event that the controller has handled.
func (s *Server) controlled(w controller.Work, waited, took time.Duration) {
	s.metrics.Controlled(int(w), waited, took)
}

// controller adds the metrics of the whole cluster that the active controller reports, and zeros on the other brokers.
func (m *collector) controller(add func(prometheus.Metric)) {
	gauge := func(name string, v int) {
		add(metrics.Gauge("kafka_controller_kafkacontroller_"+name, float64(v)))
	}
	active := m.s.controller.Active()
	gauge("activecontrollercount", one(active))
	n := m.s.controller.Deletions()
	gauge("topicstodeletecount", n.Topics)
	gauge("replicastodeletecount", n.Replicas)
	gauge("topicsineligibletodeletecount", n.HeldTopics)
	gauge("replicasineligibletodeletecount", n.FailedReplicas)
	gauge("controllerstate", int(m.s.controller.Work()))
	add(metrics.Gauge("kafka_server_metadataloader_currentcontrollerid", float64(m.s.controller.ControllerID())))
	add(metrics.Gauge("kafka_controller_controllereventmanager_eventqueuesize", float64(m.s.controller.Queued())))
	m.controllerRequests(add)
	add(metrics.Counter("kafka_controller_controllerstats_uncleanleaderelections_total", float64(m.s.controller.UncleanElections())))
	snapshot := &metadata.Snapshot{}
	if active {
		snapshot = m.s.metadata.Current()
	}
	partitions, leaderless, unpreferred := 0, 0, 0
	for _, t := range snapshot.Topics {
		for _, p := range t.Partitions {
			partitions++
			leaderless += one(p.Leaderless())
			unpreferred += one(len(p.Replicas) > 0 && p.Leader != p.Replicas[0])
		}
	}
	gauge("globaltopiccount", len(snapshot.Topics))
	gauge("globalpartitioncount", partitions)
	gauge("offlinepartitionscount", leaderless)
	gauge("preferredreplicaimbalancecount", unpreferred)
	gauge("activebrokercount", len(snapshot.Brokers))
	gauge("fencedbrokercount", 0)
}

// controllerRequests adds the requests that wait to be sent by this broker's controller.
func (m *collector) controllerRequests(add func(prometheus.Metric)) {
	total := 0
	for id, n := range m.s.controller.QueuedRequests() {
		total += n
		add(metrics.Gauge("kafka_controller_controllerchannelmanager_queuesize", float64(n), "broker_id", strconv.Itoa(int(id))))
	}
	add(metrics.Gauge("kafka_controller_controllerchannelmanager_totalqueuesize", float64(total)))
}

func (m *collector) groups(add func(prometheus.Metric)) {
	groups, _ := m.s.groups.List(nil, nil) // groups of partitions that are being loaded are left out
	states := map[string]int{"Stable": 0, "PreparingRebalance": 0, "CompletingRebalance": 0, "Empty": 0, "Dead": 0}
	for _, g := range groups {
		states[g.GroupState]++
	}
	const prefix = "kafka_coordinator_group_groupmetadatamanager_numgroups"
	add(metrics.Gauge(prefix, float64(len(groups))))
	for state, suffix := range map[string]string{"Stable": "stable", "PreparingRebalance": "preparingrebalance",
		"CompletingRebalance": "completingrebalance", "Empty": "empty", "Dead": "dead"} {
		add(metrics.Gauge(prefix+suffix, float64(states[state])))
	}
}

// coordinators adds the coordinators' counts, and the loading times of partitions that they took over.
func (m *collector) coordinators(add func(prometheus.Metric)) {
	n := m.s.groups.Counts()
	add(metrics.Gauge("kafka_coordinator_group_groupmetadatamanager_numoffsets", float64(n.Offsets)))
	for name, count := range map[string]int64{
		"offset_commit": n.Committed, "offset_expiration": n.Expired, "offset_deletion": n.Deleted, "group_completed_rebalance": n.Rebalances,
	} {
		add(metrics.Counter("kafka_server_group_coordinator_metrics_"+name+"_count", float64(count)))
	}
	for of, loads := range map[string]*metrics.Recent{"group": &m.groupLoads, "transaction": &m.txnLoads} {
		mean, longest := loads.Millis(time.Now())
		add(metrics.Gauge("kafka_server_"+of+"_coordinator_metrics_partition_load_time_avg", mean))
		add(metrics.Gauge("kafka_server_"+of+"_coordinator_metrics_partition_load_time_max", longest))
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

package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"barnabas/broker/api"
	"barnabas/broker/metrics"
	"barnabas/broker/status"
	"barnabas/controller"
	"barnabas/logstore"
	"barnabas/zkcoord"

	"github.com/prometheus/client_golang/prometheus"
)

// The states of a broker, numbered as in Apache Kafka (BrokerState, 3.9).
const (
	stateStarting     = 1
	stateRunning      = 3
	stateShuttingDown = 6
)

// collector reports how the broker is doing, to metrics, the status page and readyz. It holds what is counted only for
// that, and reads the other parts when somebody asks.
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

// loadingLogs returns the progress of loading the log directories, or nil if it is not tracked.
func (m *collector) loadingLogs() *logstore.Loading {
	if m == nil {
		return nil
	}
	return &m.loading
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

func one(b bool) int {
	if b {
		return 1
	}
	return 0
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

package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/api"
	"barnabas/broker/group"
	"barnabas/broker/metadata"
	"barnabas/broker/metrics"
	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/broker/token"
	"barnabas/broker/txn"
	"barnabas/config"
	"barnabas/controller"
	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/internal/vfs"
	"barnabas/logstore"
	"barnabas/network"
	"barnabas/network/ssl"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// Server is a broker. Start and Close may each be called once, by one goroutine.
type Server struct {
	static  *config.Broker
	built   chan struct{} // closed when all parts have been created
	loaded  chan struct{} // closed when all logs are loaded
	ready   chan struct{} // closed when clients are served
	config  *config.Dynamic
	loggers *config.Loggers
	log     *logrus.Entry

	id           int32
	epoch        atomic.Int64 // of the registration: its czxid
	clusterID    string
	listening    listening
	limited      limitedHosts
	zk           *zkcoord.Client
	logs         *logstore.Manager
	found        []logstore.TopicPartition // in the log directories at the start, of topics that exist
	topics       *topicConfigs
	quotas       *quota.Manager
	acls         *acl.Authorizer // nil: no authorization
	credentials  *credentials
	tokens       *token.Manager // nil: delegation tokens are disabled
	oauth        *oauthState
	kerberos     *kerberosState
	secured      *secured
	metrics      *metrics.Metrics // nil: disabled
	collector    *collector       // nil if metrics is
	metadata     *metadata.Cache
	features     atomic.Pointer[zkcoord.Features] // the cluster's feature levels as last read from ZooKeeper
	replicas     *replica.Manager
	groups       *group.Coordinator
	controller   *controller.Controller
	strays       *strays
	peers        *peers
	producerIDs  *txn.ProducerIDs
	transactions *txn.Coordinator
	handlers     *api.Handlers
	network      *network.Server
	doing        atomic.Pointer[string] // what the start is doing

	ctx      context.Context // of the background tasks
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	pending  pendingChanges
	failed   chan error // why the broker must stop by itself
	undo     []func()   // undoes the start, last step first
	orderly  bool       // it was serving: leaders are moved away before it stops
	stopping atomic.Bool
}

// New returns a broker that has not been started. Brokers in the same process share nothing.
func New(cfg *config.Broker, root *logrus.Logger) *Server {
	s := &Server{static: cfg, loggers: config.NewLoggers(root), metadata: metadata.NewCache(), failed: make(chan error, 1), built: make(chan struct{}), loaded: make(chan struct{}), ready: make(chan struct{})}
	s.log = s.loggers.Entry(config.ServerLogger)
	s.features.Store(&zkcoord.Features{})
	s.config = config.NewDynamic(cfg, s.log, s.configChanged)
	s.credentials = newCredentials(s.log)
	s.limited.lookUp = resolvedAddress
	s.secured = newSecured(s.log)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.oauth = newOAuthState(s.ctx, s.log)
	s.kerberos = newKerberosState(s.log)
	return s
}

// Start starts the broker and returns when it serves requests. After an error nothing is left running.
func (s *Server) Start(ctx context.Context) error {
	began := time.Now()
	for _, step := range s.steps() {
		s.doing.Store(&step.doing)
		if err := step.run(ctx); err != nil {
			s.Close()
			return err
		}
	}
	s.orderly = true
	s.collector.running()
	s.announce()
	s.log.WithField(logx.TookMs, time.Since(began).Milliseconds()).Infof("[KafkaServer id=%d] started", s.id)
	return nil
}

// startStep is a step of the start.
type startStep struct {
	doing string // shown while the broker is not ready
	run   func(context.Context) error
}

func (s *Server) steps() []startStep {
	return []startStep{
		{"checking its settings", s.refuse},
		{"opening metrics.listener", s.serveMetrics},
		{"starting its ZooKeeper", s.startEmbedded},
		{"waiting for a session with ZooKeeper at " + s.static.ZookeeperConnect, s.connect},
		{"learning its id and that of the cluster", s.identify},
		{"reading the settings that ZooKeeper has", s.loadConfigs},
		{"reading the ACLs", s.startAuthorizer},
		{"opening its keystores", s.openStores},
		{"loading its logs", s.openLogs},
		{"putting its parts together", s.build},
		{"reading the delegation tokens", s.startTokens},
		{"waiting for the end of its earlier registration", s.awaitVacancy},
		{"waiting for the cluster to notice that it was away", s.awaitSuccessors},
		{"opening its listeners", s.bind},
		{"asking identity providers for their keys", s.oauth.fetch},
		{"registering in ZooKeeper", s.register},
		{"starting to replicate", s.runController},
		{"waiting for the controller to tell of the cluster", s.serve},
	}
}

// Failed returns a channel that delivers an error when the broker cannot go on, for example because its last log
// directory has failed.
func (s *Server) Failed() <-chan error { return s.failed }

// ID returns the broker's id, which may have been generated.
func (s *Server) ID() int32 { return s.id }

// Addr returns the address that a listener advertises, host:port. It is empty if there is no such listener.
func (s *Server) Addr(listener string) string {
	for _, e := range s.listening.endpoints() {
		if e.Name == listener {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
	return ""
}

// AwaitBrokers waits until this broker knows count live brokers, including itself: then clients that ask it see all
// of them.
func (s *Server) AwaitBrokers(ctx context.Context, count int) error {
	return await.Until(ctx, func() (bool, error) { return len(s.metadata.Current().Brokers) >= count, nil }, &s.metadata.Changed)
}

// Close stops the broker: it hands over its leaderships, stops serving, flushes everything to disk and leaves the
// cluster.
func (s *Server) Close() {
	if !s.stopping.CompareAndSwap(false, true) {
		return
	}
	s.collector.stopping()
	if s.orderly {
		s.log.Info("shutting down")
		s.handOver()
	}
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	if s.orderly {
		s.log.Infof("[KafkaServer id=%d] shut down completed", s.id)
	}
}

func (s *Server) onStop(f func()) { s.undo = append(s.undo, f) }

// refuse fails the start if the settings require something that is missing, since running without it would be worse.
func (s *Server) refuse(context.Context) error {
	if asked := s.static.Unsupported(); len(asked) > 0 {
		return asked[0]
	}
	return nil
}

func (s *Server) connect(ctx context.Context) error {
	s.onStop(s.kerberos.close)
	s.onStop(s.cancel)
	access, err := s.zooKeeperAccess()
	if err != nil {
		return err
	}
	access.Connect, access.SessionTimeout = s.static.ZookeeperConnect, s.static.ZookeeperSessionTimeout
	access.ConnectionTimeout, access.MaxInFlight = s.static.ZookeeperConnectionTimeout, s.static.ZookeeperMaxInFlight
	access.MaxRequestBytes, access.NoTopicIDs = s.static.ZookeeperMaxRequestBytes, !s.since("2.8")
	s.log.Infof("connecting to ZooKeeper at %s, for %v at most", s.static.ZookeeperConnect, s.static.ZookeeperConnectionTimeout)
	zk, err := zkcoord.Connect(ctx, access)
	if err != nil {
		if hint := ssl.Hint(err); hint != "" {
			err = fmt.Errorf("%w (%s; in the broker's settings, their names begin with zookeeper.)", err, hint)
		}
		return fmt.Errorf("zookeeper.connect=%s: %w", s.static.ZookeeperConnect, err)
	}
	s.zk = zk
	s.onStop(zk.Close)
	if s.collector != nil {
		s.onStop(zk.OnSession(s.collector.session.changed))
	}
	s.onStop(func() { // background tasks use the session
		s.cancel()
		s.tasks.Wait()
	})
	return zk.EnsureTopNodes(ctx)
}

// identify determines the cluster's id, and the broker's id from the configuration, its log directories or ZooKeeper.
func (s *Server) identify(ctx context.Context) error {
	var err error
	if s.clusterID, err = s.zk.ClusterID(ctx); err != nil {
		return err
	}
	if s.id, err = s.ownID(ctx); err != nil {
		return err
	}
	s.collector.identified(s.id, s.clusterID)
	return nil
}

// ownID returns the broker's id: the configured one, the one that its log directories were written with, or a new one.
func (s *Server) ownID(ctx context.Context) (int32, error) {
	if s.static.BrokerID >= 0 {
		return int32(s.static.BrokerID), nil
	}
	if stored, err := logstore.StoredBrokerID(vfs.OS{}, s.static.LogDirs); err != nil || stored >= 0 {
		return stored, err
	}
	return s.zk.GenerateBrokerID(ctx, int32(s.static.ReservedBrokerMaxID))
}

// loadConfigs reads the settings of this broker and of the topics from ZooKeeper.
func (s *Server) loadConfigs(ctx context.Context) error {
	if err := s.reencodePasswords(ctx); err != nil {
		return err
	}
	for _, e := range []string{zkcoord.DefaultEntity, strconv.Itoa(int(s.id))} {
		if err := s.loadBrokerConfig(ctx, e); err != nil {
			return err
		}
	}
	s.topics = newTopicConfigs(s.config, s.zk, s.log)
	s.topics.unread = s.newTopicUnread
	if _, err := s.topics.loadAll(ctx); err != nil {
		return err
	}
	s.quotas = newQuotas(s.static)
	return s.loadQuotas(ctx)
}

// reencodePasswords encrypts this broker's stored passwords again after password.encoder.secret has changed.
func (s *Server) reencodePasswords(ctx context.Context) error {
	e := zkcoord.Entity{Kind: zkcoord.Brokers, Name: strconv.Itoa(int(s.id))}
	stored, err := s.zk.EntityConfig(ctx, e)
	if err != nil {
		return err
	}
	if _, changed, err := s.config.Reencode(stored); err != nil || !changed {
		return err
	}
	s.log.WithField(logx.Setting, "password.encoder.old.secret").Info("re-encrypted the stored passwords with password.encoder.secret")
	return s.zk.UpdateEntityConfigEarly(ctx, e, func(stored map[string]string) (map[string]string, error) {
		next, _, err := s.config.Reencode(stored)
		return next, err
	})
}

func (s *Server) loadBrokerConfig(ctx context.Context, name string) error {
	e := zkcoord.Entity{Kind: zkcoord.Brokers, Name: name}
	s.pending.Lock() // which applying settings needs: what cannot be applied may be tried again already
	defer s.pending.Unlock()
	stored, err := s.zk.EntityConfig(ctx, e)
	if err != nil {
		return err
	}
	return s.setBrokerConfig(e, stored)
}

// setBrokerConfig applies the stored settings of this broker or of all brokers. The error tells that they are invalid.
func (s *Server) setBrokerConfig(e zkcoord.Entity, stored map[string]string) error {
	if e.Name == zkcoord.DefaultEntity {
		return s.config.SetCluster(stored, e.Path())
	}
	return s.config.SetBroker(stored, e.Path())
}

// openLogs begins to load the logs. Those that were not closed cleanly are recovered while the start goes on.
func (s *Server) openLogs(ctx context.Context) error {
	c := s.config.Current()
	logs, err := logstore.Begin(ctx, logstore.ManagerConfig{
		Dirs: c.LogDirs, Default: logConfig(s.topics.defaults()), Topic: s.topics.logConfig,
		BrokerID: s.id, ClusterID: s.clusterID, RecoveryThreadsPerDir: c.NumRecoveryThreadsPerDataDir,
		RetentionCheckInterval: c.LogRetentionCheckInterval, FlushCheckInterval: c.LogFlushSchedulerInterval,
		RecoveryPointInterval: c.LogFlushOffsetCheckpoint, LogStartInterval: c.LogFlushStartOffsetCheckpoint,
		HighWatermarkInterval: c.ReplicaHighWatermarkCheckpoint, SegmentDeleteDelay: c.LogDeleteDelay,
		Cleaner: cleanerConfig(c), MinFreeBytes: c.LogDirMinFreeBytes, MaxOpenFiles: maxOpenFiles(),
		ProducerExpiry: c.ProducerIDExpiration, ProducerExpiryInterval: c.ProducerIDExpirationCheck,
		Logger: s.loggers.Entry(config.LogLogger), CleanerLogger: s.loggers.Entry(config.CleanerLogger),
		OnDirFailure: s.directoryFailed, OnSpaceFreed: s.diskSpaceFreed, OnLoaded: s.logLoaded, OnFlushed: s.metrics.Flushed, Loading: s.collector.loadingLogs(),
	})
	if err != nil {
		return err
	}
	s.logs = logs
	s.found = slices.DeleteFunc(logs.Partitions(), func(tp logstore.TopicPartition) bool { return !s.topics.has(tp.Topic) })
	s.onStop(func() {
		if err := logs.Close(); err != nil {
			s.log.WithError(err).Error("cannot close a log directory cleanly")
		}
	})
	return nil
}

// cleanerConfig translates the settings for compaction.
func cleanerConfig(c *config.Broker) logstore.CleanerConfig {
	return logstore.CleanerConfig{Enable: c.LogCleanerEnable, Threads: c.LogCleanerThreads, DedupeBytes: c.LogCleanerDedupeBufferBytes,
		LoadFactor: c.LogCleanerIOBufferLoadFactor, BufferBytes: c.LogCleanerIOBufferBytes,
		MaxBytesPerSec: c.LogCleanerIOMaxBytesPerSecond, Backoff: c.LogCleanerBackoff}
}

// directoryFailed takes the partitions of a failed directory out of service and notifies the controller. If a directory
// fails while the logs are being loaded, that happens when the broker's parts are created; if none is left, the start
// fails with that error.
func (s *Server) directoryFailed(dir string, err error) {
	select {
	case <-s.built:
	case <-s.ctx.Done():
		return
	}
	s.log.WithError(err).WithField(logx.Dir, dir).Error("a log directory failed, its partitions are offline")
	s.replicas.DirectoryFailed(dir)
	if len(s.logs.OfflineDirs()) == len(s.static.LogDirs) {
		s.fail(fmt.Errorf("log.dirs: every directory has failed, the last one %s: %w", dir, err))
		return
	}
	s.reportLostLogs()
}

// diskSpaceFreed makes the controller repeat the requests that failed while a directory was full.
func (s *Server) diskSpaceFreed(string) {
	select {
	case <-s.built:
		s.replicas.SpaceFreed()
	case <-s.ctx.Done():
	}
}

// reportLostLogs makes the controller find out which partitions are lost.
func (s *Server) reportLostLogs() {
	if err := s.zk.NotifyLogDirFailure(s.ctx, s.id); err != nil && s.ctx.Err() == nil {
		s.log.WithError(err).Error("cannot notify the controller of a failed log directory")
	}
}

func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default: // it is failing already
	}
}

// build creates the parts that do not need the network yet.
func (s *Server) build(context.Context) error {
	protocol, err := controller.ProtocolFor(s.static.InterBrokerProtocolVersion.String())
	if err != nil {
		return err
	}
	s.peers = newPeers(s)
	s.onStop(s.peers.close)
	s.controller = controller.New(s.controllerConfig(protocol), s.zk, s.peers, s.loggers.Entry(config.ControllerLogger))
	s.replicas = replica.NewManager(s.replicaConfig())
	s.groups = group.New(s.groupConfig())
	s.producerIDs = txn.NewProducerIDs(s.allocateProducerIDs, s.log)
	s.transactions = txn.NewCoordinator(s.transactionsConfig())
	s.strays = &strays{s: s}
	s.makeTokens()
	s.handlers = api.New(api.Deps{
		BrokerID: s.id, ClusterID: s.clusterID, BrokerEpoch: s.epoch.Load, Config: s.config, Loggers: s.loggers,
		TopicConfig: s.topics.get, Metadata: s.metadata, Features: func() zkcoord.Features { return *s.features.Load() },
		Replicas: s.replicas, Logs: s.logs, ZK: s.zk, Controller: s.controller, ProducerIDs: s.producerIDs, Groups: s.groups, Quotas: s.quotas, Tokens: s.tokens, Metrics: s.metrics, Authorizer: s.acls,
		ReloadStores: s.secured.reload, Transactions: s.transactions, Ready: s.ready, TopicsDeleted: s.topicsDeleted, ControllerSpoke: s.strays.controllerSpoke,
		Logger: s.loggers.Entry(config.APILogger), RequestLogger: s.loggers.Entry(config.RequestLogger),
	})
	close(s.built)
	s.background(s.awaitLoaded)
	return nil
}

func (s *Server) controllerConfig(protocol controller.Protocol) controller.Config {
	c := s.static
	return controller.Config{
		BrokerID: s.id, Listener: c.InterBrokerListener, Protocol: protocol,
		UncleanDefault:    func() bool { return s.config.Current().UncleanLeaderElection },
		DeleteTopicEnable: c.DeleteTopicEnable, AutoRebalance: c.AutoLeaderRebalance,
		RebalanceInterval: c.LeaderImbalanceCheckInterval, RebalanceThreshold: c.LeaderImbalancePerBrokerPercent,
		Reregister: s.registerAgain, Handled: s.controlled, Sent: s.metrics.ControllerSent, SendingEnded: s.metrics.ControllerForgets,
	}
}

func (s *Server) replicaConfig() replica.Config {
	c := s.static
	return replica.Config{
		BrokerID: s.id, BrokerEpoch: s.epoch.Load, Logs: s.logs, ReadSettings: s.topics.readNew, LogConfig: s.topics.logConfigOfNew, Unhosted: s.metrics.Forget,
		MinInSync:  func(topic string) int { return s.topics.get(topic).MinInsyncReplicas },
		LagMax:     func() time.Duration { return s.config.Current().ReplicaLagTimeMax },
		IsLive:     func(id int32) bool { return s.metadata.Current().Brokers[id] != nil },
		Controller: s.peers, AlterVersion: s.alterPartitionVersion(), Logger: s.loggers.Entry(config.ReplicaLogger), Now: time.Now,
		ISRs:              s.isrStore(),
		Stored:            s.storedState,
		LeadershipChanged: s.leadershipChanged, StorageFailed: func() { s.background(s.reportLostLogs) },
		LeaderThrottle: s.leaderThrottle(), FollowerThrottle: s.followerThrottle(),
		Move: replica.MoveConfig{Threads: c.NumReplicaAlterLogDirsThreads, MaxBytes: int32(c.ReplicaFetchMaxBytes), Throttle: s.moveThrottle()},
		Fetch: replica.FetchConfig{
			Dial: s.peers.dialReplica, PerBroker: c.NumReplicaFetchers, Version: s.fetchVersion(),
			EpochVersion: s.offsetForLeaderEpochVersion(), ListVersion: s.listOffsetsVersion(),
			MaxWait: c.ReplicaFetchWaitMax, MinBytes: int32(c.ReplicaFetchMinBytes), MaxBytes: int32(c.ReplicaFetchMaxBytes),
			ResponseMaxBytes: int32(c.ReplicaFetchResponseMaxBytes), Backoff: c.ReplicaFetchBackoff, Timeout: c.ReplicaSocketTimeout,
			Received: s.replicated, Logger: s.loggers.Entry(config.FetcherLogger),
		},
	}
}

// awaitVacancy waits until the ZooKeeper nodes of an earlier process of this broker are gone, while clients still find
// the port closed.
func (s *Server) awaitVacancy(ctx context.Context) error { return s.zk.AwaitVacancy(ctx, s.id) }

// bind opens the listening sockets, so that ports chosen by the system can be registered.
func (s *Server) bind(context.Context) error {
	c := s.config.Current()
	s.network = network.NewServer(s.networkConfig(c), s.handlers, s.loggers.Entry(config.NetworkLogger))
	s.onStop(s.network.Close)
	s.pending.Lock()
	s.applyLocked("limits of connections", s.limitConnections)
	s.pending.Unlock()
	for _, l := range c.Listeners {
		if err := s.listen(l); err != nil {
			return s.withOrigin(err, "listeners")
		}
	}
	s.config.RefuseWhen(s.refuseListeners)
	if s.collector != nil {
		s.collector.complete.Store(true)
	}
	endpoints, err := s.advertise(c)
	s.listening.advertised.Store(&endpoints)
	return s.withOrigin(err, "advertised.listeners", "listeners")
}

// withOrigin adds to an error about settings that one of them was set at run time, since it is not in the properties
// file.
func (s *Server) withOrigin(err error, settings ...string) error {
	if err == nil {
		return nil
	}
	for _, name := range settings {
		if znode := s.config.Origin(name); znode != "" {
			return fmt.Errorf("%w (ZooKeeper has %s in %s)", err, name, znode)
		}
	}
	return err
}

func (s *Server) networkConfig(c *config.Broker) network.Config {
	n := network.Config{
		RequestMaxBytes: int32(c.SocketRequestMaxBytes), QueuedMaxBytes: c.QueuedMaxRequestBytes,
		MaxIdle: c.ConnectionsMaxIdle, HoldBack: s.holdBack, Pace: s.pace,
		SendBuffer: max(c.SocketSendBufferBytes, 0),
	}
	// The defaults of these date from before kernels tuned buffers: they apply only if they are set.
	if c.Set("socket.listen.backlog.size") {
		n.Backlog = c.SocketListenBacklog
	}
	if c.Set("socket.receive.buffer.bytes") {
		n.ReceiveBuffer = max(c.SocketReceiveBufferBytes, 0)
	}
	return n
}

// limitConnections applies the limits on connections. The error tells that some hosts could not be found.
func (s *Server) limitConnections() error {
	limits, err := s.connectionLimits(s.config.Current())
	s.network.SetLimits(limits)
	return err
}

func (s *Server) connectionLimits(c *config.Broker) (network.Limits, error) {
	overrides, err := s.limited.byAddress(s.ctx, c.MaxConnectionsPerIPOverride)
	l := network.Limits{
		Max: c.MaxConnections, MaxPerIP: c.MaxConnectionsPerIP, MaxPerIPOver: overrides,
		MaxListener: make(map[string]int),
	}
	if len(c.Listeners) > 1 {
		l.Protected = c.InterBrokerListener
	}
	for _, listener := range c.Listeners {
		_, most, _ := c.ListenerSetting(listener, "max.connections")
		if n, err := strconv.Atoi(most); err == nil {
			l.MaxListener[listener.Name] = n
		}
	}
	return l, err
}

// runController joins the race for the controllership and follows changes that concern every broker.
func (s *Server) runController(ctx context.Context) error {
	s.replicas.Start()
	s.onStop(s.replicas.Close)
	s.groups.Start()
	s.onStop(s.groups.Close)
	s.logs.Start()
	s.onStop(s.producerIDs.Close)
	if !s.since("3.0") {
		if err := s.producerIDs.Prefetch(ctx); err != nil {
			return err
		}
	}
	s.transactions.Start()
	s.onStop(s.transactions.Close)
	if err := s.followFeatures(ctx); err != nil {
		return err
	}
	controllerCtx, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.controller.Run(controllerCtx); err != nil && controllerCtx.Err() == nil {
			s.fail(fmt.Errorf("the controller cannot continue: %w", err))
		}
	})
	s.onStop(func() { stop(); running.Wait() })
	return s.watchConfigs(ctx)
}

// watchPause and watchPauseMax are the shortest and longest time after which changes that could not be read are watched
// again.
const (
	watchPause    = time.Second
	watchPauseMax = time.Minute
)

// watchConfigs follows changes of settings. It returns when none can be missed any more.
func (s *Server) watchConfigs(ctx context.Context) error {
	ready := make(chan struct{})
	watching, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	ended := make(chan error, 1)
	running.Go(func() {
		err := s.zk.WatchConfigChanges(watching, func() { close(ready) }, s.entityChanged, s.settingsMissed)
		ended <- err
		for pause := watchPause; watching.Err() == nil; pause = min(2*pause, watchPauseMax) {
			s.log.WithError(err).Error("changes of settings cannot be read, trying again")
			if await.Pause(watching, pause) != nil {
				return
			}
			s.settingsMissed()
			err = s.zk.WatchConfigChanges(watching, nil, s.entityChanged, s.settingsMissed)
		}
	})
	s.onStop(func() { stop(); running.Wait() })
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return fmt.Errorf("changes of settings cannot be watched: %w", errors.Join(err, ctx.Err()))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve begins to answer requests: those of brokers at once, those of clients when the controller's first metadata of
// the cluster has arrived, or after a timeout, so that a slow controller does not keep the broker from serving.
func (s *Server) serve(ctx context.Context) error {
	s.network.Serve()
	defer close(s.ready)
	known, cancel := context.WithTimeout(ctx, firstMetadataTimeout)
	defer cancel()
	err := await.Until(known, func() (bool, error) { return s.knowsOwnPartitions(), nil }, &s.metadata.Changed)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the controller has not told of the cluster yet, serving without its metadata")
	}
	return ctx.Err()
}

// knowsOwnPartitions reports whether the metadata has this broker, and those partitions with local logs whose topics
// still exist.
func (s *Server) knowsOwnPartitions() bool {
	snapshot := s.metadata.Current()
	if snapshot.Brokers[s.id] == nil {
		return false
	}
	for _, tp := range s.found {
		if _, ok := snapshot.Partition(tp.Topic, tp.Partition); !ok && s.topics.has(tp.Topic) {
			return false
		}
	}
	return true
}

const firstMetadataTimeout = 5 * time.Second

package broker

import (
	"context"
	"fmt"
	"net"
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
		{"starting to replicate", s.startParts},
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

func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default: // it is failing already
	}
}

// awaitVacancy waits until the ZooKeeper nodes of an earlier process of this broker are gone, while clients still find
// the port closed.
func (s *Server) awaitVacancy(ctx context.Context) error { return s.zk.AwaitVacancy(ctx, s.id) }

// startParts starts what the parts do in the background, joins the race for the controllership, and follows changes of
// features and settings.
func (s *Server) startParts(ctx context.Context) error {
	s.replicas.Start()
	s.onStop(s.replicas.Close)
	s.groups.Start()
	s.onStop(s.groups.Close)
	s.logs.Start()
	s.onStop(s.producerIDs.Close)
	if !s.since(config.IBP30IV0) {
		if err := s.producerIDs.Prefetch(ctx); err != nil {
			return err
		}
	}
	s.transactions.Start()
	s.onStop(s.transactions.Close)
	if err := s.followFeatures(ctx); err != nil {
		return err
	}
	s.runController()
	return s.watchConfigs(ctx)
}

// runController runs this broker's controller until the broker stops.
func (s *Server) runController() {
	ctx, stop := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.controller.Run(ctx); err != nil && ctx.Err() == nil {
			s.fail(fmt.Errorf("the controller cannot continue: %w", err))
		}
	})
	s.onStop(func() { stop(); running.Wait() })
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

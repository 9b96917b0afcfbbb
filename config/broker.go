package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Broker is a broker's configuration: typed fields for what the code needs, and lookup by name for the rest. It is
// immutable; a dynamic change creates a new one (see Dynamic).
//
// Durations are derived from whole milliseconds (or seconds, minutes, hours). A negative one means "never" or "no
// limit" if the key allows that.
type Broker struct {
	given  map[string]string // what was set, in its original form, including dynamic values
	static map[string]string // what the file sets
	logins *loginFile        // shared by all configurations of a broker
	values map[string]any    // all keys of the schema, parsed; nil for null

	// Identity.
	BrokerID            int // -1: use meta.properties, or generate one
	BrokerIDGeneration  bool
	ReservedBrokerMaxID int
	Rack                string // empty: none

	// ZooKeeper.
	ZookeeperConnect           string // hosts with an optional chroot
	ZookeeperSessionTimeout    time.Duration
	ZookeeperConnectionTimeout time.Duration
	ZookeeperMaxInFlight       int
	ZookeeperMaxRequestBytes   int
	ZookeeperSetACL            bool
	ZookeeperLoginFile         string // of login configurations, one of which may be for ZooKeeper; empty: none
	ZookeeperLoginSection      string // the section of that one
	ZookeeperService           string // the first part of its servers' principals
	ZookeeperPrincipal         string // that of all its servers; empty: each has its own
	ZookeeperAliases           bool   // its servers' principals are made of the host names in zookeeper.connect
	Krb5                       Krb5   // the configuration of Kerberos
	ZookeeperEmbedded          bool
	ZookeeperEmbeddedDir       string // empty: the default place
	MetricsListener            string // host:port; empty: none
	MetricsProfile             bool

	// Listeners.
	Listeners                   []Listener
	AdvertisedListeners         []Listener // an empty host stands for this machine's name
	ListenerSecurityProtocolMap map[string]SecurityProtocol
	InterBrokerListener         string
	InterBrokerProtocol         SecurityProtocol
	ControlPlaneListener        string // empty: none

	// Sockets, connections, requests.
	SocketSendBufferBytes       int // -1: the system's default
	SocketReceiveBufferBytes    int // -1: the system's default
	SocketRequestMaxBytes       int
	SocketListenBacklog         int
	ConnectionsMaxIdle          time.Duration
	ConnectionSetupTimeout      time.Duration
	ConnectionSetupTimeoutMax   time.Duration
	FailedAuthenticationDelay   time.Duration
	MaxConnections              int
	MaxConnectionsPerIP         int
	MaxConnectionsPerIPOverride map[string]int // by host name or address
	MaxConnectionCreationRate   int            // per second
	QueuedMaxRequestBytes       int64          // -1: unlimited
	RequestTimeout              time.Duration

	// Topics.
	NumPartitions            int
	DefaultReplicationFactor int
	AutoCreateTopics         bool
	DeleteTopicEnable        bool
	MinInsyncReplicas        int

	// Logs.
	LogDirs                       []string
	NumRecoveryThreadsPerDataDir  int
	NumReplicaAlterLogDirsThreads int
	LogRoll                       time.Duration
	LogRollJitter                 time.Duration
	LogRetention                  time.Duration // -1ms: no limit
	LogRetentionBytes             int64         // -1: no limit
	LogRetentionCheckInterval     time.Duration
	LogFlushInterval              time.Duration
	LogFlushSchedulerInterval     time.Duration
	LogFlushOffsetCheckpoint      time.Duration
	LogFlushStartOffsetCheckpoint time.Duration
	LogDeleteDelay                time.Duration
	LogDirMinFreeBytes            int64
	LogCleanerEnable              bool
	LogCleanerThreads             int
	LogCleanerDedupeBufferBytes   int64
	LogCleanerIOBufferBytes       int
	LogCleanerIOBufferLoadFactor  float64
	LogCleanerIOMaxBytesPerSecond float64
	LogCleanerBackoff             time.Duration
	ProducerIDExpiration          time.Duration
	ProducerIDExpirationCheck     time.Duration
	TransactionPartitionVerify    bool
	MessageFormatVersion          ProtocolVersion
	InterBrokerProtocolVersion    ProtocolVersion

	// Replication and the controller.
	ReplicaLagTimeMax                time.Duration
	ReplicaFetchWaitMax              time.Duration
	ReplicaFetchMinBytes             int
	ReplicaFetchMaxBytes             int
	ReplicaFetchResponseMaxBytes     int
	ReplicaFetchBackoff              time.Duration
	ReplicaSocketTimeout             time.Duration
	ReplicaSocketReceiveBufferBytes  int
	ReplicaHighWatermarkCheckpoint   time.Duration
	ReplicaSelectorClass             string // empty: consumers read only from leaders
	NumReplicaFetchers               int
	UncleanLeaderElection            bool
	AutoLeaderRebalance              bool
	LeaderImbalancePerBrokerPercent  int
	LeaderImbalanceCheckInterval     time.Duration
	ControlledShutdown               bool
	ControlledShutdownMaxRetries     int
	ControlledShutdownRetryBackoff   time.Duration
	ControllerSocketTimeout          time.Duration
	FetchMaxBytes                    int
	FetchSessionCacheSlots           int
	LeaderReplicationThrottledRate   int64 // bytes per second; math.MaxInt64: no limit
	FollowerReplicationThrottledRate int64 // bytes per second; math.MaxInt64: no limit
	QuotaWindowNum                   int
	QuotaWindowSize                  time.Duration
	ControllerQuotaWindowNum         int
	ControllerQuotaWindowSize        time.Duration
	ReplicationQuotaWindowNum        int
	ReplicationQuotaWindowSize       time.Duration
	AlterLogDirsMaxBytesPerSecond    int64 // math.MaxInt64: no limit
	AlterLogDirsQuotaWindowNum       int
	AlterLogDirsQuotaWindowSize      time.Duration

	// Groups and their topic.
	GroupMinSessionTimeout           time.Duration
	GroupMaxSessionTimeout           time.Duration
	GroupInitialRebalanceDelay       time.Duration
	GroupMaxSize                     int
	OffsetMetadataMaxBytes           int
	OffsetsLoadBufferBytes           int
	OffsetsCommitTimeout             time.Duration
	OffsetsRetention                 time.Duration
	OffsetsRetentionCheckInterval    time.Duration
	OffsetsTopicPartitions           int
	OffsetsTopicReplicationFactor    int
	OffsetsTopicSegmentBytes         int
	OffsetsTopicCompressionCodec     int // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
	TransactionStateLogPartitions    int
	TransactionStateLogReplication   int
	TransactionStateLogMinISR        int
	TransactionStateLogSegmentBytes  int
	TransactionStateLogLoadBuffer    int
	TransactionMaxTimeout            time.Duration
	TransactionalIDExpiration        time.Duration
	TransactionAbortTimedOutInterval time.Duration
	TransactionRemoveExpiredInterval time.Duration

	// Delegation tokens.
	DelegationTokenSecret        string // empty: disabled
	DelegationTokenMaxLifetime   time.Duration
	DelegationTokenLifetime      time.Duration
	DelegationTokenCheckInterval time.Duration

	// Security.
	AuthorizerClass      string   // empty: no authorizer
	SuperUsers           []string // from super.users, separated by semicolons
	AllowEveryoneIfNoACL bool
	AuthorizerZookeeper  *AuthorizerZookeeper // nil: the broker's own
}

// Load reads a properties file, lays the overrides (key=value) over it and checks the whole. defaults are settings that
// count where neither has them. Variables are replaced. Every error is one line that names the setting and its value.
func Load(path string, defaults map[string]string, overrides []string) (*Broker, error) {
	props, err := ReadProperties(path)
	if err != nil {
		return nil, err
	}
	for key, value := range defaults {
		if _, set := props[key]; !set {
			props[key] = value
		}
	}
	if err := applyOverrides(props, overrides); err != nil {
		return nil, err
	}
	if props, err = ResolveVariables(props); err != nil {
		return nil, err
	}
	return Parse(props)
}

// Parse creates a configuration from properties, in the form in which they are written in a file, and checks it.
func Parse(props map[string]string) (*Broker, error) {
	return parse(props, props)
}

// parse creates a configuration from the given properties, of which the file sets static.
func parse(given, static map[string]string) (*Broker, error) {
	b := &Broker{given: withNodeID(given), static: withNodeID(static), logins: new(loginFile)}
	if err := b.parseValues(); err != nil {
		return nil, err
	}
	b.fillIdentity()
	b.fillConnections()
	b.fillLogs()
	b.fillVersions()
	b.fillReplication()
	b.fillCoordinators()
	b.fillTokens()
	if err := b.fillListeners(); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return b, nil
}

// withBrokerID returns the same configuration for a broker whose id was generated or found in meta.properties. As in
// Apache Kafka, the setting broker.id remains unchanged.
func (b *Broker) withBrokerID(id int) *Broker {
	numbered := *b
	numbered.BrokerID = id
	return &numbered
}

// withNodeID copies props; broker.id and node.id are synonyms.
func withNodeID(props map[string]string) map[string]string {
	props = maps.Clone(props)
	if props == nil {
		props = map[string]string{}
	}
	if id, ok := props["broker.id"]; ok {
		if _, ok := props["node.id"]; !ok {
			props["node.id"] = id
		}
	} else if id, ok := props["node.id"]; ok {
		props["broker.id"] = id
	}
	return props
}

// parseValues parses every key of the schema, in the order of names, so that with several errors the same one is always
// reported.
func (b *Broker) parseValues() error {
	b.values = make(map[string]any, len(brokerSchema.keys))
	for _, k := range brokerSchema.keys {
		text, ok := b.given[k.Name]
		if !ok {
			if text, ok = k.Default(); !ok {
				b.values[k.Name] = nil
				continue
			}
		}
		value, err := k.parse(text)
		if err != nil {
			return err
		}
		b.values[k.Name] = value
	}
	return nil
}

// Set reports whether the key was set, in the file or dynamically.
func (b *Broker) Set(name string) bool {
	_, ok := b.given[name]
	return ok
}

// Unknown returns the keys that were set but are not in the schema, sorted. They may be settings of plug-ins, so they
// are not errors. A listener's own settings are known by their base key.
func (b *Broker) Unknown() []string {
	var names []string
	for name := range b.given {
		if brokerKey(name) == nil && !passedThrough[name] && !isProviderSetting(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// passedThrough are keys that Apache Kafka reads without having them in its schema.
var passedThrough = map[string]bool{
	superUsersKey:          true,
	allowEveryoneKey:       true,
	AuthorizerZookeeperURL: true,
	authorizerConnKey:      true,
	authorizerSessKey:      true,
	authorizerMaxKey:       true,
}

// String returns a setting of type STRING, CLASS or PASSWORD, or "" if it is null. A key without a schema (super.users,
// listener.name.x.y) is returned in its original form.
func (b *Broker) String(name string) string {
	value, ok := b.values[name]
	switch {
	case !ok:
		return b.given[name]
	case value == nil:
		return ""
	}
	return value.(string)
}

// Int returns a setting of type INT, SHORT or LONG, or 0 if it is null. It panics if the schema has no such key, which
// is a bug in the caller.
func (b *Broker) Int(name string) int {
	return int(lookup[int64](b, name))
}

// Bool returns a setting of type BOOLEAN. It panics like Int.
func (b *Broker) Bool(name string) bool { return lookup[bool](b, name) }

// Float returns a setting of type DOUBLE. It panics like Int.
func (b *Broker) Float(name string) float64 { return lookup[float64](b, name) }

// List returns a setting of type LIST, nil if it is null. It panics like Int. The caller must not modify the list.
func (b *Broker) List(name string) []string { return lookup[[]string](b, name) }

func lookup[T any](b *Broker, name string) (zero T) {
	value, ok := b.values[name]
	if !ok {
		panic("config: no such setting: " + name)
	}
	if value == nil {
		return zero
	}
	return value.(T)
}

// null reports whether the setting has no value.
func (b *Broker) null(name string) bool { return b.values[name] == nil }

func (b *Broker) millis(name string) time.Duration { return millis(int64(b.Int(name))) }

func (b *Broker) seconds(name string) time.Duration { return scaled(int64(b.Int(name)), time.Second) }

func (b *Broker) fillIdentity() {
	b.BrokerID = b.Int("broker.id")
	b.BrokerIDGeneration = b.Bool("broker.id.generation.enable")
	b.ReservedBrokerMaxID = b.Int("reserved.broker.max.id")
	b.Rack = b.String("broker.rack")

	b.ZookeeperConnect = b.String("zookeeper.connect")
	b.ZookeeperSessionTimeout = b.millis("zookeeper.session.timeout.ms")
	b.ZookeeperConnectionTimeout = b.ZookeeperSessionTimeout
	if !b.null("zookeeper.connection.timeout.ms") {
		b.ZookeeperConnectionTimeout = b.millis("zookeeper.connection.timeout.ms")
	}
	b.ZookeeperMaxInFlight = b.Int("zookeeper.max.in.flight.requests")
	b.ZookeeperMaxRequestBytes = b.Int("jute.maxbuffer")
	b.ZookeeperSetACL = b.Bool("zookeeper.set.acl")
	if b.Bool("zookeeper.sasl.client") {
		b.ZookeeperLoginFile = b.String(LoginFileKey)
	}
	b.ZookeeperLoginSection = b.String("zookeeper.sasl.clientconfig")
	b.ZookeeperService = b.String("zookeeper.sasl.client.username")
	b.ZookeeperPrincipal = b.String("zookeeper.server.principal")
	b.ZookeeperAliases = !b.Bool("zookeeper.sasl.client.canonicalize.hostname")
	b.Krb5 = Krb5{b.String("java.security.krb5.conf"), b.String("java.security.krb5.realm"), b.String("java.security.krb5.kdc")}
	b.ZookeeperEmbedded = b.Bool("zookeeper.embedded")
	b.ZookeeperEmbeddedDir = b.String("zookeeper.embedded.dir")
	b.MetricsListener = b.String("metrics.listener")
	b.MetricsProfile = b.Bool("metrics.pprof")

	b.fillAuthorizer()
}

func (b *Broker) fillConnections() {
	b.SocketSendBufferBytes = b.Int("socket.send.buffer.bytes")
	b.SocketReceiveBufferBytes = b.Int("socket.receive.buffer.bytes")
	b.SocketRequestMaxBytes = b.Int("socket.request.max.bytes")
	b.SocketListenBacklog = b.Int("socket.listen.backlog.size")
	b.ConnectionsMaxIdle = b.millis("connections.max.idle.ms")
	b.ConnectionSetupTimeout = b.millis("socket.connection.setup.timeout.ms")
	b.ConnectionSetupTimeoutMax = b.millis("socket.connection.setup.timeout.max.ms")
	b.FailedAuthenticationDelay = b.millis("connection.failed.authentication.delay.ms")
	b.MaxConnections = b.Int("max.connections")
	b.MaxConnectionsPerIP = b.Int("max.connections.per.ip")
	b.MaxConnectionCreationRate = b.Int("max.connection.creation.rate")
	b.QueuedMaxRequestBytes = int64(b.Int("queued.max.request.bytes"))
	b.RequestTimeout = b.millis("request.timeout.ms")
}

func (b *Broker) fillListeners() error {
	var err error
	const overrides, protocols = "max.connections.per.ip.overrides", "listener.security.protocol.map"
	if b.MaxConnectionsPerIPOverride, err = parseIPLimits(overrides, b.String(overrides)); err != nil {
		return err
	}
	if b.ListenerSecurityProtocolMap, err = parseProtocolMap(protocols, b.String(protocols)); err != nil {
		return err
	}
	if b.InterBrokerListener, b.InterBrokerProtocol, err = b.interBroker(); err != nil {
		return err
	}
	if b.ControlPlaneListener, err = b.mappedListener("control.plane.listener.name"); err != nil {
		return err
	}
	if b.Listeners, err = parseListeners("listeners", b.listenersText(), b.ListenerSecurityProtocolMap, true); err != nil {
		return err
	}
	if text, ok := b.advertisedText(); ok {
		b.AdvertisedListeners, err = parseListeners("advertised.listeners", text, b.ListenerSecurityProtocolMap, false)
		return err
	}
	b.AdvertisedListeners = slices.Clone(b.Listeners)
	return nil
}

// listenersText returns listeners, or its equivalent in host.name and port from before 3.0.
func (b *Broker) listenersText() string {
	if b.Set("listeners") || !b.Set("port") && !b.Set("host.name") {
		return b.String("listeners")
	}
	port := 9092
	if b.Set("port") {
		port = b.Int("port")
	}
	return Listener{Name: b.InterBrokerListener, Host: b.String("host.name"), Port: port}.String()
}

// advertisedText returns advertised.listeners, or its equivalent in advertised.host.name and advertised.port from
// before 3.0, each of which defaults to the listener's.
func (b *Broker) advertisedText() (string, bool) {
	if !b.null("advertised.listeners") {
		return b.String("advertised.listeners"), true
	}
	if !b.Set("advertised.host.name") && !b.Set("advertised.port") || len(b.Listeners) == 0 {
		return "", false
	}
	l := b.Listeners[0]
	if b.Set("advertised.host.name") {
		l.Host = b.String("advertised.host.name")
	}
	if b.Set("advertised.port") {
		l.Port = b.Int("advertised.port")
	}
	return l.String(), true
}

// interBroker determines the inter-broker listener: the named one, or the one called like the protocol.
func (b *Broker) interBroker() (string, SecurityProtocol, error) {
	const nameKey, protocolKey = "inter.broker.listener.name", "security.inter.broker.protocol"
	if b.null(nameKey) {
		protocol, _ := parseSecurityProtocol(b.String(protocolKey)) // checked by the schema
		return protocol.String(), protocol, nil
	}
	if b.Set(protocolKey) {
		return "", 0, &Error{Key: nameKey, Value: b.String(nameKey), Reason: "cannot be set together with " + protocolKey}
	}
	name, err := b.mappedListener(nameKey)
	return name, b.ListenerSecurityProtocolMap[name], err
}

// mappedListener reads a key that names a listener, which the protocol map must contain.
func (b *Broker) mappedListener(key string) (string, error) {
	if b.null(key) {
		return "", nil
	}
	name := strings.ToUpper(b.String(key))
	if _, ok := b.ListenerSecurityProtocolMap[name]; !ok {
		return "", &Error{Key: key, Value: b.String(key), Reason: "not in listener.security.protocol.map"}
	}
	return name, nil
}

func (b *Broker) fillLogs() {
	b.NumPartitions = b.Int("num.partitions")
	b.DefaultReplicationFactor = b.Int("default.replication.factor")
	b.AutoCreateTopics = b.Bool("auto.create.topics.enable")
	b.DeleteTopicEnable = b.Bool("delete.topic.enable")
	b.MinInsyncReplicas = b.Int("min.insync.replicas")

	b.LogDirs = splitCSV(b.String("log.dir"))
	if !b.null("log.dirs") {
		b.LogDirs = splitCSV(b.String("log.dirs"))
	}
	b.NumRecoveryThreadsPerDataDir = b.Int("num.recovery.threads.per.data.dir")
	b.NumReplicaAlterLogDirsThreads = len(b.LogDirs)
	if !b.null("num.replica.alter.log.dirs.threads") {
		b.NumReplicaAlterLogDirsThreads = b.Int("num.replica.alter.log.dirs.threads")
	}
	b.LogRoll = b.firstTime(setTime{"log.roll.ms", time.Millisecond}, setTime{"log.roll.hours", time.Hour})
	b.LogRollJitter = b.firstTime(setTime{"log.roll.jitter.ms", time.Millisecond}, setTime{"log.roll.jitter.hours", time.Hour})
	b.LogRetention = b.retention()
	b.LogRetentionBytes = int64(b.Int("log.retention.bytes"))
	b.LogRetentionCheckInterval = b.millis("log.retention.check.interval.ms")
	b.LogFlushInterval = b.firstTime(setTime{"log.flush.interval.ms", time.Millisecond},
		setTime{"log.flush.scheduler.interval.ms", time.Millisecond})
	b.LogFlushSchedulerInterval = b.millis("log.flush.scheduler.interval.ms")
	b.LogFlushOffsetCheckpoint = b.millis("log.flush.offset.checkpoint.interval.ms")
	b.LogFlushStartOffsetCheckpoint = b.millis("log.flush.start.offset.checkpoint.interval.ms")
	b.LogDeleteDelay = b.millis("log.segment.delete.delay.ms")

	b.LogDirMinFreeBytes = int64(b.Int("log.dir.min.free.bytes"))
	b.LogCleanerEnable = b.Bool("log.cleaner.enable")
	b.LogCleanerThreads = b.Int("log.cleaner.threads")
	b.LogCleanerDedupeBufferBytes = int64(b.Int("log.cleaner.dedupe.buffer.size"))
	b.LogCleanerIOBufferBytes = b.Int("log.cleaner.io.buffer.size")
	b.LogCleanerIOBufferLoadFactor = b.Float("log.cleaner.io.buffer.load.factor")
	b.LogCleanerIOMaxBytesPerSecond = b.Float("log.cleaner.io.max.bytes.per.second")
	b.LogCleanerBackoff = b.millis("log.cleaner.backoff.ms")

	b.ProducerIDExpiration = b.millis("producer.id.expiration.ms")
	b.ProducerIDExpirationCheck = b.millis("producer.id.expiration.check.interval.ms")
	b.TransactionPartitionVerify = b.Bool("transaction.partition.verification.enable")
}

// fillVersions resolves the versions. From 3.0 on the format is always the newest (KIP-724).
func (b *Broker) fillVersions() {
	b.InterBrokerProtocolVersion, _ = parseProtocolVersion(b.String("inter.broker.protocol.version")) // both are
	b.MessageFormatVersion, _ = parseProtocolVersion(b.String("log.message.format.version"))          // checked by the schema
	if b.InterBrokerProtocolVersion >= IBP30IV1 {
		b.MessageFormatVersion = IBP30IV1
	}
}

// FormatIgnored reports whether log.message.format.version requests a format that is not used because of
// inter.broker.protocol.version.
func (b *Broker) FormatIgnored() bool {
	asked, _ := parseProtocolVersion(b.String("log.message.format.version")) // checked by the schema
	return asked.RecordVersion() < b.MessageFormatVersion.RecordVersion()
}

// setTime is a key for a time in some unit.
type setTime struct {
	key  string
	unit time.Duration
}

// firstTime returns the first of the settings that is not null.
func (b *Broker) firstTime(settings ...setTime) time.Duration {
	for _, s := range settings {
		if !b.null(s.key) {
			return scaled(int64(b.Int(s.key)), s.unit)
		}
	}
	return 0
}

// retention returns the first of ms, minutes and hours that is set; any negative value means no limit.
func (b *Broker) retention() time.Duration {
	d := b.firstTime(setTime{"log.retention.ms", time.Millisecond}, setTime{"log.retention.minutes", time.Minute},
		setTime{"log.retention.hours", time.Hour})
	if d < 0 {
		return -time.Millisecond
	}
	return d
}

func (b *Broker) fillReplication() {
	b.ReplicaLagTimeMax = b.millis("replica.lag.time.max.ms")
	b.ReplicaFetchWaitMax = b.millis("replica.fetch.wait.max.ms")
	b.ReplicaFetchMinBytes = b.Int("replica.fetch.min.bytes")
	b.ReplicaFetchMaxBytes = b.Int("replica.fetch.max.bytes")
	b.ReplicaFetchResponseMaxBytes = b.Int("replica.fetch.response.max.bytes")
	b.ReplicaFetchBackoff = b.millis("replica.fetch.backoff.ms")
	b.ReplicaSocketTimeout = b.millis("replica.socket.timeout.ms")
	b.ReplicaSocketReceiveBufferBytes = b.Int("replica.socket.receive.buffer.bytes")
	b.ReplicaHighWatermarkCheckpoint = b.millis("replica.high.watermark.checkpoint.interval.ms")
	b.ReplicaSelectorClass = b.String("replica.selector.class")
	b.NumReplicaFetchers = b.Int("num.replica.fetchers")
	b.UncleanLeaderElection = b.Bool("unclean.leader.election.enable")
	b.AutoLeaderRebalance = b.Bool("auto.leader.rebalance.enable")
	b.LeaderImbalancePerBrokerPercent = b.Int("leader.imbalance.per.broker.percentage")
	b.LeaderImbalanceCheckInterval = b.seconds("leader.imbalance.check.interval.seconds")
	b.ControlledShutdown = b.Bool("controlled.shutdown.enable")
	b.ControlledShutdownMaxRetries = b.Int("controlled.shutdown.max.retries")
	b.ControlledShutdownRetryBackoff = b.millis("controlled.shutdown.retry.backoff.ms")
	b.ControllerSocketTimeout = b.millis("controller.socket.timeout.ms")
	b.FetchMaxBytes = b.Int("fetch.max.bytes")
	b.FetchSessionCacheSlots = b.Int("max.incremental.fetch.session.cache.slots")
	b.LeaderReplicationThrottledRate = int64(b.Int("leader.replication.throttled.rate"))
	b.FollowerReplicationThrottledRate = int64(b.Int("follower.replication.throttled.rate"))
	b.QuotaWindowNum = b.Int("quota.window.num")
	b.QuotaWindowSize = b.seconds("quota.window.size.seconds")
	b.ControllerQuotaWindowNum = b.Int("controller.quota.window.num")
	b.ControllerQuotaWindowSize = b.seconds("controller.quota.window.size.seconds")
	b.ReplicationQuotaWindowNum = b.Int("replication.quota.window.num")
	b.ReplicationQuotaWindowSize = b.seconds("replication.quota.window.size.seconds")
	b.AlterLogDirsMaxBytesPerSecond = int64(b.Int("replica.alter.log.dirs.io.max.bytes.per.second"))
	b.AlterLogDirsQuotaWindowNum = b.Int("alter.log.dirs.replication.quota.window.num")
	b.AlterLogDirsQuotaWindowSize = b.seconds("alter.log.dirs.replication.quota.window.size.seconds")
}

func (b *Broker) fillCoordinators() {
	b.GroupMinSessionTimeout = b.millis("group.min.session.timeout.ms")
	b.GroupMaxSessionTimeout = b.millis("group.max.session.timeout.ms")
	b.GroupInitialRebalanceDelay = b.millis("group.initial.rebalance.delay.ms")
	b.GroupMaxSize = b.Int("group.max.size")
	b.OffsetMetadataMaxBytes = b.Int("offset.metadata.max.bytes")
	b.OffsetsLoadBufferBytes = b.Int("offsets.load.buffer.size")
	b.OffsetsCommitTimeout = b.millis("offsets.commit.timeout.ms")
	b.OffsetsRetention = scaled(int64(b.Int("offsets.retention.minutes")), time.Minute)
	b.OffsetsRetentionCheckInterval = b.millis("offsets.retention.check.interval.ms")
	b.OffsetsTopicPartitions = b.Int("offsets.topic.num.partitions")
	b.OffsetsTopicReplicationFactor = b.Int("offsets.topic.replication.factor")
	b.OffsetsTopicSegmentBytes = b.Int("offsets.topic.segment.bytes")
	b.OffsetsTopicCompressionCodec = b.Int("offsets.topic.compression.codec")

	b.TransactionStateLogPartitions = b.Int("transaction.state.log.num.partitions")
	b.TransactionStateLogReplication = b.Int("transaction.state.log.replication.factor")
	b.TransactionStateLogMinISR = b.Int("transaction.state.log.min.isr")
	b.TransactionStateLogSegmentBytes = b.Int("transaction.state.log.segment.bytes")
	b.TransactionStateLogLoadBuffer = b.Int("transaction.state.log.load.buffer.size")
	b.TransactionMaxTimeout = b.millis("transaction.max.timeout.ms")
	b.TransactionalIDExpiration = b.millis("transactional.id.expiration.ms")
	b.TransactionAbortTimedOutInterval = b.millis("transaction.abort.timed.out.transaction.cleanup.interval.ms")
	b.TransactionRemoveExpiredInterval = b.millis("transaction.remove.expired.transaction.cleanup.interval.ms")
}

func (b *Broker) fillTokens() {
	b.DelegationTokenSecret = b.String("delegation.token.secret.key")
	if b.null("delegation.token.secret.key") {
		b.DelegationTokenSecret = b.String("delegation.token.master.key")
	}
	b.DelegationTokenMaxLifetime = b.millis("delegation.token.max.lifetime.ms")
	b.DelegationTokenLifetime = b.millis("delegation.token.expiry.time.ms")
	b.DelegationTokenCheckInterval = b.millis("delegation.token.expiry.check.interval.ms")
}

// GoString keeps passwords out of %#v and test failures.
func (b *Broker) GoString() string { return fmt.Sprintf("config.Broker{BrokerID: %d}", b.BrokerID) }

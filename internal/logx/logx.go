// Package logx names the fields of log lines, so that a thing has the same name in every line.
package logx

// The names of log fields. No line uses any others.
const (
	Broker          = "broker"
	Topic           = "topic"
	Partition       = "partition"
	LeaderEpoch     = "leader_epoch"
	ControllerEpoch = "controller_epoch"
	Offset          = "offset"
	Segment         = "segment"
	Dir             = "dir"
	Listener        = "listener"
	Conn            = "conn"
	Client          = "client"
	API             = "api"
	Version         = "version"
	Correlation     = "correlation"
	Group           = "group"
	Member          = "member"
	Generation      = "generation"
	TxnID           = "txn_id"
	ProducerID      = "producer_id"
	ProducerEpoch   = "producer_epoch"
	Znode           = "znode"
	Session         = "session"
	TookMs          = "took_ms"
	LeftMs          = "left_ms" // an estimate
	SizeBytes       = "size_bytes"
	OldSizeBytes    = "old_size_bytes"
	Records         = "records"
	OldRecords      = "old_records"
	User            = "user"
	Mechanism       = "mechanism" // of SASL
	Token           = "token"     // the id of a delegation token
	Hint            = "hint"      // what to check
	Setting         = "setting"
	Value           = "value"
	Count           = "count"
	Principal       = "principal"
	Host            = "host"
	Operation       = "operation"
	Resource        = "resource"
	Leader          = "leader" // a broker's id
	Source          = "source" // the broker that is fetched from
	ISR             = "isr"
	Settings        = "settings" // several of them
	Protocol        = "inter.broker.protocol.version"
	Format          = "format" // of messages
	OldFormat       = "old_format"
	File            = "file"
	Entity          = "entity"    // that a quota applies to
	Kind            = "kind"      // of the entity that has settings: topics, brokers, users, clients
	Zxid            = "zxid"      // ZooKeeper's transaction id
	HeldBack        = "held_back" // number of similar lines suppressed since the last one, see Sampler
)

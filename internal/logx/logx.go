// Package logx names the fields of log lines, so that one thing has one name in every line.
package logx

// The names of log fields. No line uses others.
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
	Hint            = "hint"      // where to look
	Setting         = "setting"
	Value           = "value"
	Count           = "count"
	Principal       = "principal"
	Host            = "host"
	Operation       = "operation"
	Resource        = "resource"
	HeldBack        = "held_back" // lines like this one since the last, see Sampler
)

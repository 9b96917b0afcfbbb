package zkcoord

import "strconv"

// The nodes, relative to the chroot.
const (
	aclPath                = "/kafka-acl"
	aclChangesPath         = "/kafka-acl-changes"
	extendedACLPath        = "/kafka-acl-extended"
	extendedACLChangesPath = "/kafka-acl-extended-changes"
	adminPath              = "/admin"
	deleteTopicsPath       = adminPath + "/delete_topics"
	reassignPath           = adminPath + "/reassign_partitions"
	preferredElectionPath  = adminPath + "/preferred_replica_election"
	brokersPath            = "/brokers"
	brokerIDsPath          = brokersPath + "/ids"
	topicsPath             = brokersPath + "/topics"
	brokerSeqPath          = brokersPath + "/seqid"
	clusterIDPath          = "/cluster/id"
	configPath             = "/config"
	configChangesPath      = configPath + "/changes"
	consumersPath          = "/consumers"
	controllerPath         = "/controller"
	controllerEpochPath    = "/controller_epoch"
	featurePath            = "/feature"
	isrChangePath          = "/isr_change_notification"
	logDirEventPath        = "/log_dir_event_notification"
	producerIDPath         = "/latest_producer_id_block"
	tokensPath             = "/delegation_token/tokens"
	tokenChangesPath       = "/delegation_token/token_changes"
)

// The prefixes of sequential nodes.
const (
	aclChangePrefix    = "acl_changes_"
	configChangePrefix = "config_change_"
	isrChangePrefix    = "isr_change_"
	logDirEventPrefix  = "log_dir_event_"
	tokenChangePrefix  = "token_change_"
)

// topNodes are created at every start, in Apache Kafka's order.
var topNodes = []string{
	consumersPath, brokerIDsPath, topicsPath, configChangesPath, deleteTopicsPath, brokerSeqPath,
	isrChangePath, producerIDPath, logDirEventPath,
	configPath + "/topics", configPath + "/clients", configPath + "/users", configPath + "/brokers", configPath + "/ips",
}

func brokerPath(id int32) string     { return brokerIDsPath + "/" + itoa(id) }
func topicPath(topic string) string  { return topicsPath + "/" + topic }
func deletePath(topic string) string { return deleteTopicsPath + "/" + topic }

func partitionsPath(topic string) string { return topicPath(topic) + "/partitions" }

func partitionPath(tp TopicPartition) string {
	return partitionsPath(tp.Topic) + "/" + itoa(tp.Partition)
}

func statePath(tp TopicPartition) string { return partitionPath(tp) + "/state" }

func entityPath(kind, name string) string { return configPath + "/" + kind + "/" + name }

func itoa(n int32) string { return strconv.Itoa(int(n)) }

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// classes are the main classes of Apache Kafka 3.9 that scripts run by name, with the equivalent command. Packages are
// ignored, since releases have moved the classes.
var classes = map[string]string{
	"AclCommand":                          "acls",
	"BrokerApiVersionsCommand":            "broker-api-versions",
	"ClientMetricsCommand":                "client-metrics",
	"ClusterTool":                         "cluster",
	"ConfigCommand":                       "configs",
	"ConsoleConsumer":                     "console-consumer",
	"ConsoleProducer":                     "console-producer",
	"ConsumerGroupCommand":                "consumer-groups",
	"ConsumerPerformance":                 "consumer-perf-test",
	"DelegationTokenCommand":              "delegation-tokens",
	"DeleteRecordsCommand":                "delete-records",
	"DumpLogSegments":                     "dump-log",
	"EndToEndLatency":                     "e2e-latency",
	"FeatureCommand":                      "features",
	"GetOffsetShell":                      "get-offsets",
	"JmxTool":                             "jmx",
	"Kafka":                               "server-start",
	"LeaderElectionCommand":               "leader-election",
	"LogDirsCommand":                      "log-dirs",
	"ProducerPerformance":                 "producer-perf-test",
	"QuorumPeerMain":                      "zookeeper-server-start",
	"ReassignPartitionsCommand":           "reassign-partitions",
	"ReplicaVerificationTool":             "replica-verification",
	"StreamsResetter":                     "streams-application-reset",
	"TopicCommand":                        "topics",
	"TransactionsCommand":                 "transactions",
	"VerifiableConsumer":                  "verifiable-consumer",
	"VerifiableProducer":                  "verifiable-producer",
	"ZkSecurityMigrator":                  "zookeeper-security-migration",
	"ZooKeeperMain":                       "zookeeper-shell",
	"ZooKeeperMainWithTlsSupportForKafka": "zookeeper-shell",
}

// commandOfClass returns the command for a class, which may be given with its package.
func commandOfClass(class string) (string, bool) {
	for _, prefix := range []string{"kafka.", "org.apache.kafka.", "org.apache.zookeeper."} {
		if rest, ok := strings.CutPrefix(class, prefix); ok {
			command, ok := classes[rest[strings.LastIndexByte(rest, '.')+1:]]
			return command, ok
		}
	}
	return "", false
}

// runClass implements kafka-run-class: it executes the command for a class.
func runClass(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: kafka-run-class [-daemon] [-name NAME] CLASS [ARGUMENT ...]")
		return 1
	}
	command, ok := commandOfClass(args[0])
	if !ok {
		fmt.Fprintf(os.Stderr, "kafka-run-class: there is no Java machine here, and no command in place of the class %s; 'kafka help' lists the commands\n", args[0])
		return 1
	}
	err := syscall.Exec("/proc/self/exe", append([]string{os.Args[0], command}, args[1:]...), os.Environ()) // so that kafka-server-stop finds it
	fmt.Fprintf(os.Stderr, "kafka-run-class: %v\n", err)
	return 1
}

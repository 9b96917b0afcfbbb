// Package tools contains the command-line tools. Each is a function of its arguments and streams (Env), so that the
// multi-call binary and tests run them in the same way. Options, printed columns and exit codes are those of Apache
// Kafka 3.9's tools; the wording of help texts and most errors is our own, and an error is one line.
//
// The tools are clients: they learn everything about a cluster over the network, with franz-go. Some talk to ZooKeeper:
// zookeeper-shell, zookeeper-security-migration, and what kafka-configs and kafka-acls can do before a broker runs.
// kafka-dump-log reads files; the doctor reads files, ZooKeeper and what the brokers say. No tool has global state,
// handles signals or ends the process.
package tools

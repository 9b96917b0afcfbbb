// Package tools holds the command-line tools. Each is a function of its arguments and streams (Env), so that the multi-call
// binary and tests run them alike. Options, printed columns and exit codes are those of Apache Kafka 3.9's tools; the
// wording of help texts and of most errors is our own, and an error is one line.
//
// The tools are clients: what they know of a cluster they ask for over the network, with franz-go. kafka-dump-log reads
// files and zookeeper-shell speaks to ZooKeeper. No tool keeps global state, handles signals or ends the process.
package tools

package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// Env is the environment of a tool.
type Env struct {
	Args   []string // without the tool's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Properties are the Java system properties in KAFKA_OPTS that are honoured.
	Properties map[string]string
	// Settings are a broker's settings in variables KAFKA_*, as key=value. They apply if an option says so.
	Settings []string
	// Terminal reports whether a person watches Stderr while Stdout goes elsewhere; then long work shows its progress
	// there.
	Terminal bool
	// Interactive reports whether a person types Stdin; then tools prompt.
	Interactive bool

	giveUp   context.CancelCauseFunc // ends the tool's context on a permanent error, see connectionMonitor, or without a reader of Stdout
	oneLogin bool                    // a refused login leaves no hope: nobody waits for the errors of a consumer's requests
	inspect  func(*options)          // called instead of printing help, see Tool.Options
}

// Tool is a command-line tool.
type Tool struct {
	Name    string // kafka-topics
	Summary string
	run     func(ctx context.Context, env *Env) error
}

// All lists the tools, sorted by name.
func All() []Tool {
	return []Tool{
		{"kafka-acls", "list, add and remove ACLs", acls},
		{"kafka-broker-api-versions", "print which APIs and versions the brokers support", brokerAPIVersions},
		{"kafka-client-metrics", "list, describe, alter and delete subscriptions to client metrics", clientMetrics},
		{"kafka-cluster", "print the cluster's id", cluster},
		{"kafka-configs", "describe and alter configs of topics, brokers, clients, users and ips", configs},
		{"kafka-console-consumer", "print the records of topics", consoleConsumer},
		{"kafka-console-producer", "write lines of standard input to a topic", consoleProducer},
		{"kafka-consumer-groups", "list, describe, reset and delete consumer groups", consumerGroups},
		{"kafka-consumer-perf-test", "measure how fast a topic can be read", consumerPerf},
		{"kafka-delegation-tokens", "create, renew, expire and describe delegation tokens", delegationTokens},
		{"kafka-delete-records", "delete the records below given offsets", deleteRecords},
		{"kafka-doctor", "say what is wrong with listeners, topics, groups, transactions, reassignments, ZooKeeper", runDoctor},
		{"kafka-dump-log", "print the content of log files", dumpLog},
		{"kafka-e2e-latency", "measure how long records take from producer to consumer", e2eLatency},
		{"kafka-features", "describe and change the features of the cluster", features},
		{"kafka-get-offsets", "print offsets of partitions", getOffsets},
		{"kafka-jmx", "not available: says where the metrics are", notApplicable("kafka-jmx", whyNoJMX)},
		{"kafka-leader-election", "elect leaders", leaderElection},
		{"kafka-log-dirs", "describe the brokers' log directories", logDirs},
		{"kafka-producer-perf-test", "measure how fast a topic can be written", producerPerf},
		{"kafka-reassign-partitions", "move partitions between brokers", reassignPartitions},
		{"kafka-replica-verification", "compare the replicas of partitions", replicaVerification},
		{"kafka-streams-application-reset", "reset a Kafka Streams application", streamsReset},
		{"kafka-topics", "create, list, describe, alter and delete topics", topics},
		{"kafka-transactions", "list, describe and abort transactions, find hanging ones", transactions},
		{"kafka-verifiable-consumer", "read a topic as a member of a group and print what happens as JSON", verifiableConsumer},
		{"kafka-verifiable-producer", "write numbers to a topic and print what happens as JSON", verifiableProducer},
		{"zookeeper-security-migration", "restrict znodes to the brokers' user, or open them to everyone", securityMigration},
		{"zookeeper-shell", "show and change znodes", zookeeperShell},
	}
}

// Run runs the tool and returns the exit code of its process. It ends early if the context is cancelled, or if nobody
// reads its output any more: a write fails with EPIPE then.
func (t Tool) Run(ctx context.Context, env *Env) int {
	own := *env
	ctx, own.giveUp = context.WithCancelCause(ctx)
	defer own.giveUp(nil)
	own.Stdin = &interruptible{ctx: ctx, in: env.Stdin}
	stdout := &outputStream{to: env.Stdout, stop: own.giveUp}
	out := bufio.NewWriterSize(stdout, 64<<10)
	own.Stdout = out
	err := t.run(ctx, &own)
	flushed := out.Flush()
	if err == nil {
		err = flushed
	}
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		if flushed != nil && !stdout.closed.Load() { // what it had to say may be lost
			fmt.Fprintf(env.Stderr, "%s: %s\n", t.Name, describe(flushed))
		}
		return int(code)
	case stdout.closed.Load():
		return 0
	}
	fmt.Fprintf(env.Stderr, "%s: %s\n", t.Name, describe(err))
	return 1
}

// exitCode is the error of a tool that has reported everything itself.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError reports incorrect usage of a tool's options.
type usageError string

func (e usageError) Error() string { return string(e) + " (--help lists the options)" }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// flush writes out what was printed so far.
func (e *Env) flush() error {
	if b, ok := e.Stdout.(*bufio.Writer); ok {
		return b.Flush()
	}
	return nil
}

func (e *Env) printf(format string, args ...any) { fmt.Fprintf(e.Stdout, format, args...) }
func (e *Env) println(args ...any)               { fmt.Fprintln(e.Stdout, args...) }
func (e *Env) errorf(format string, args ...any) { fmt.Fprintf(e.Stderr, format+"\n", args...) }

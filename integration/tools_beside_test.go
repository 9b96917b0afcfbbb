package integration

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// askingTools are command lines that change nothing, by the classes of Apache Kafka's tools, for which kafka-run-class
// runs ours. BROKER is an address, ZOOKEEPER a connection string.
var askingTools = []string{
	"org.apache.kafka.tools.TopicCommand --bootstrap-server BROKER --list",
	"org.apache.kafka.tools.TopicCommand --bootstrap-server BROKER --describe",
	"org.apache.kafka.tools.TopicCommand --bootstrap-server BROKER --describe --topic plain",
	"org.apache.kafka.tools.TopicCommand --bootstrap-server BROKER --describe --topic none",
	"org.apache.kafka.tools.TopicCommand --bootstrap-server BROKER --describe --topics-with-overrides",
	"org.apache.kafka.tools.TopicCommand --bootstrap-server BROKER --describe --under-replicated-partitions",
	"kafka.admin.ConfigCommand --bootstrap-server BROKER --describe --entity-type topics --entity-name with.settings",
	"kafka.admin.ConfigCommand --bootstrap-server BROKER --describe --entity-type topics --entity-name plain --all",
	"kafka.admin.ConfigCommand --bootstrap-server BROKER --describe --entity-type brokers --entity-name 0",
	"kafka.admin.ConfigCommand --bootstrap-server BROKER --describe --entity-type users",
	"kafka.admin.ConfigCommand --bootstrap-server BROKER --describe --entity-type clients",
	"kafka.admin.ConfigCommand --zookeeper ZOOKEEPER --describe --entity-type users",
	"kafka.admin.AclCommand --bootstrap-server BROKER --list",
	"kafka.admin.AclCommand --authorizer-properties zookeeper.connect=ZOOKEEPER --list",
	"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --list --state",
	"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --group g",
	"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --group g --state",
	"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --describe --group none",
	"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server BROKER --reset-offsets --group g --topic plain --to-earliest --dry-run",
	"org.apache.kafka.tools.GetOffsetShell --bootstrap-server BROKER --topic plain",
	"org.apache.kafka.tools.GetOffsetShell --bootstrap-server BROKER --time -2",
	"org.apache.kafka.tools.LogDirsCommand --bootstrap-server BROKER --describe",
	"org.apache.kafka.tools.TransactionsCommand --bootstrap-server BROKER list",
	"org.apache.kafka.tools.TransactionsCommand --bootstrap-server BROKER describe-producers --topic plain --partition 0",
	"org.apache.kafka.tools.reassign.ReassignPartitionsCommand --bootstrap-server BROKER --list",
	"org.apache.kafka.tools.FeatureCommand --bootstrap-server BROKER describe",
	"org.apache.kafka.tools.ClientMetricsCommand --bootstrap-server BROKER --list",
	"org.apache.kafka.tools.DelegationTokenCommand --bootstrap-server BROKER --describe",
	"kafka.admin.BrokerApiVersionsCommand --bootstrap-server BROKER",
}

// TestToolsBesideTheOriginals runs Apache Kafka's tools and ours on the same cluster: they must print the same words,
// in any order, and exit with the same code. The form of lines is compared with recordings (tools/testdata).
func TestToolsBesideTheOriginals(t *testing.T) {
	t.Parallel()
	launcher, zk := peer(t), zookeeper(t)+"/tools"
	p := newProcess(t, 0, zk, "authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS")
	p.start()
	fillZooKeeper(t, p.addr())
	commitSome(t, p.addr())
	run := func(name string, args ...string) (stdout string, code int) {
		cmd := exec.Command(name, args...)
		var out bytes.Buffer
		cmd.Stdout = &out
		_ = cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatalf("%s does not run", name)
		}
		return out.String(), cmd.ProcessState.ExitCode()
	}
	for _, line := range askingTools {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(strings.NewReplacer("BROKER", p.addr(), "ZOOKEEPER", zk).Replace(line))
			theirs, theirCode := run(launcher, append([]string{"tool"}, words...)...)
			ours, ourCode := run(brokerBinary(t), append([]string{"run-class"}, words...)...)
			if diff := cmp.Diff(inAnyOrder(theirs), inAnyOrder(ours)); diff != "" || theirCode != ourCode {
				t.Errorf("Apache Kafka's (-) exits with %d, ours (+) with %d\n%s", theirCode, ourCode, diff)
			}
		})
	}
}

// clocks matches times, which differ between runs.
var clocks = regexp.MustCompile(`\b1[67]\d{11}\b`)

// inAnyOrder returns the words of a text, sorted: rows, settings and parts of JSON come in the order of hash sets, and
// the original tools leave out the ends of some lines. The wording of errors is our own.
func inAnyOrder(text string) []string {
	var words []string
	for line := range strings.Lines(clocks.ReplaceAllString(text, "TIME")) {
		if strings.HasPrefix(line, "Error") {
			continue
		}
		words = append(words, strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",[]{}", r) })...)
	}
	slices.Sort(words)
	return words
}

// commitSome lets a group without members commit offsets, and completes a transaction.
func commitSome(t *testing.T, addr string) {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(addr), kgo.TransactionalID("txn"), kgo.DefaultProduceTopic("plain"))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), txnPatience)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord("in a transaction")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	for p := range int32(3) {
		offsets.Add(kadm.Offset{Topic: "plain", Partition: p, At: 1, LeaderEpoch: -1})
	}
	if _, err := kadm.NewClient(cl).CommitOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(fmt.Errorf("commit: %w", err))
	}
}

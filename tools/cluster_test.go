package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/config"
	passwordcodec "barnabas/config/password"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"
)

// masks hide what differs between clusters, and the wording of errors, which is our own.
var masks = []struct{ pattern, with string }{
	{`TopicId: \S+`, "TopicId: ID"},
	{`Cluster ID: \S+`, "Cluster ID: ID"},
	{`CreateTime:\d+`, "CreateTime:TIME"},
	{`^(Error while executing topic command) : .*`, "$1"},
	{`^WARNING: .* metric.*`, "WARNING: names of metrics"},
	{`"logDir":"[^"]*"`, `"logDir":"DIR"`},
	{`"size":\d+`, `"size":SIZE`},
	{`^127\.0\.0\.1:\d+`, "ADDRESS"},
	{`127\.0\.0\.1:\w+  \(0\)`, "COORDINATOR"},
	{`(due to:).*?(org\.apache\S*Exception): .*`, "$1 $2"},
	{`^(Error completing leader election .*Exception): .*`, "$1"},
	{`^(10 records sent), .*`, "$1"},
	{`^\d{4}-\d\d-\d\d .*, 10, .*`, "TIMES"},
	{`\b1\d{12}\b`, "TIME"},
	{`\tTIME +\t\d+ +\t`, "\tTIME\tDURATION\t"},
	{`^(Error while executing ACL command: \S+Exception): .*`, "$1"},
	{`^(Error while executing ACL command): (?:[Cc]annot (?:parse|invoke)|no answer|Missing value|org\.example|--authorizer).*`, "$1"},
	{`^(Error while adding ACLs): .*`, "$1"},
	{`^(Error: \S+Exception): .*`, "$1"},
	{`(error: \S+Exception): .*`, "$1"},
	{`(Executing consumer group command failed due to) (?:java\.util\.concurrent\.ExecutionException: )?(\S+Exception): .*`, "$1 $2"},
	{`(Error: :\S+Exception): .*`, "$1"},
	{`^(Error while executing client metrics command) : .*`, "$1"},
	{`^((?:Could|Can) not (?:upgrade|downgrade|disable) [^.]*(?:\.version[^.]*)?\.) .*`, "$1"},
	{`^(Avg latency): .*`, "$1"},
	{`^(Percentiles): .*`, "$1"},
	{`^0\t[\d.]+$`, "0\tDURATION"},
	{`"avg_throughput":[\d.]+`, `"avg_throughput":RATE`},
	{`(salt|stored_key|server_key)=[^,]+`, "$1=BYTES"},
	{`^[\w-]{22} [A-Za-z0-9+/]{86}== `, "TOKENID HMAC "},
	{`tokenId : [\w-]{22}$`, "tokenId : ID"},
	{`hmac :[A-Za-z0-9+/]{86}==`, "hmac :HMAC"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d`, "MINUTE"},
}

func masked(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		for _, m := range masks {
			line = regexp.MustCompile(m.pattern).ReplaceAllString(line, m.with)
		}
		lines[i] = line
	}
	sortRuns(lines)
	sortResources(lines)
	sortTokens(lines)
	return strings.Join(lines, "\n")
}

// sortRuns sorts consecutive lines of ACLs and of quotas, and the quotas within a line: the original tools print them
// in the order of a hash set.
func sortRuns(lines []string) {
	unordered := func(i int) bool {
		return i < len(lines) && (strings.Contains(lines[i], "\t(principal=") || strings.HasPrefix(lines[i], "Quota configs for "))
	}
	for from := 0; from < len(lines); from++ {
		to := from
		for ; unordered(to); to++ {
			who, quotas, _ := strings.Cut(strings.TrimSpace(lines[to]), " are ")
			list := strings.Split(quotas, ", ")
			slices.Sort(list)
			lines[to] = who + " " + strings.Join(list, ", ")
		}
		if to > from {
			slices.Sort(lines[from:to])
			from = to
		}
	}
}

// sortResources sorts what is printed of the ACLs of several resources, each of which ends with an empty line.
func sortResources(lines []string) {
	for from := 0; from < len(lines); from++ {
		var blocks []string
		to := from
		for to < len(lines) && strings.Contains(lines[to], " ACLs for resource `") {
			n := slices.Index(lines[to:], "")
			if n < 0 {
				break
			}
			blocks = append(blocks, strings.Join(lines[to:to+n], "\n"))
			to += n + 1
		}
		if len(blocks) == 0 {
			continue
		}
		slices.Sort(blocks)
		copy(lines[from:to], strings.Split(strings.Join(blocks, "\n\n")+"\n", "\n"))
		from = to - 1
	}
}

// sortTokens sorts the rows of delegation tokens.
func sortTokens(lines []string) {
	var at []int
	var rows []string
	for i, line := range lines {
		if strings.HasPrefix(line, "TOKENID HMAC ") {
			at, rows = append(at, i), append(rows, line)
		}
	}
	slices.Sort(rows)
	for i, row := range rows {
		lines[at[i]] = row
	}
}

// processed returns the parts of standard error that scripts look for.
func processed(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "Processed") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestToolsPrintWhatTheOriginalsPrint runs the recorded commands in order, as they were recorded: each finds what the
// earlier ones left.
func TestToolsPrintWhatTheOriginalsPrint(t *testing.T) {
	for _, file := range []string{"admin.txt", "cluster.txt", "configs-options.txt", "console-options.txt", "groups.txt", "groups-options.txt", "transactions.txt", "users.txt", "verifiable.txt"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			replay(t, "testdata/"+file, kafkatest.Run(t).Broker(0).Addr())
		})
	}
}

// TestACLsPrintWhatTheOriginalPrints runs the recorded commands on a broker with an authorizer and on its ZooKeeper.
func TestACLsPrintWhatTheOriginalPrints(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t, kafkatest.Setting("authorizer.class.name", config.ACLAuthorizer), kafkatest.Setting("super.users", "User:ANONYMOUS"))
	replay(t, "testdata/acls.txt", cluster.Broker(0).Addr(), "ZK", "zookeeper.connect="+cluster.ZooKeeper())
}

// plainModule is the login module of PLAIN.
const plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule required"

// guarded runs a broker with ACLs, delegation tokens and a listener SECURE on which users log in with PLAIN. root and
// anonymous clients may do everything.
func guarded(t *testing.T) *kafkatest.Broker {
	t.Helper()
	return kafkatest.Run(t, kafkatest.Setting("authorizer.class.name", config.ACLAuthorizer), kafkatest.Setting("super.users", "User:ANONYMOUS;User:root"),
		kafkatest.Setting("listeners", "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0"), kafkatest.Setting("inter.broker.listener.name", "PLAINTEXT"),
		kafkatest.Setting("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT"), kafkatest.Setting("offsets.topic.num.partitions", "1"),
		kafkatest.Setting("sasl.enabled.mechanisms", "PLAIN"), kafkatest.Setting("delegation.token.secret.key", "abc"),
		kafkatest.Setting("listener.name.secure.plain.sasl.jaas.config", plainModule+` user_root="pw" user_alice="pw" user_bob="pw";`)).Broker(0)
}

// plainLogin writes a client's settings to log in as a user with the password pw.
func plainLogin(t *testing.T, user string) string {
	t.Helper()
	return commandConfig(t, map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
		"sasl.jaas.config": fmt.Sprintf(`%s username="%s" password="pw";`, plainModule, user)})
}

// TestDelegationTokensPrintWhatTheOriginalPrints runs the recorded commands as users who log in at a broker with ACLs.
func TestDelegationTokensPrintWhatTheOriginalPrints(t *testing.T) {
	t.Parallel()
	b := guarded(t)
	words := []string{"ANONYMOUS", "--bootstrap-server " + b.Addr() + " --command-config " + commandConfig(t, nil)}
	for _, user := range []string{"alice", "bob", "root"} {
		words = append(words, "AS-"+strings.ToUpper(user), "--bootstrap-server "+b.Listener("SECURE")+" --command-config "+plainLogin(t, user))
	}
	replay(t, "testdata/delegation-tokens.txt", b.Addr(), words...)
}

// TestToolsWithoutRights runs the recorded commands as a user with few rights, and as an unknown one.
func TestToolsWithoutRights(t *testing.T) {
	t.Parallel()
	b := guarded(t)
	words := []string{"ANONYMOUS", "--bootstrap-server " + b.Addr() + " --command-config " + commandConfig(t, nil)}
	for _, user := range []string{"alice", "nobody"} {
		file := plainLogin(t, user)
		for _, as := range []struct{ word, option string }{{"AS-%s-ADMIN", "admin.config"}, {"AS-%s", "command-config"}, {"CLUSTER-%s", "config"},
			{"PRODUCES-%s", "producer.config"}, {"CONSUMES-%s", "consumer.config"}} {
			words = append(words, fmt.Sprintf(as.word, strings.ToUpper(user)), "--bootstrap-server "+b.Listener("SECURE")+" --"+as.option+" "+file)
		}
	}
	replay(t, "testdata/denied.txt", b.Addr(), words...)
}

// TestConsumersEndWhenTheyAreRefused: a wrong password ends a consumer, since retrying cannot help.
func TestConsumersEndWhenTheyAreRefused(t *testing.T) {
	t.Parallel()
	b := guarded(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, line := range []string{"kafka-console-consumer --topic t", "kafka-console-consumer --topic t --group g", "kafka-consumer-perf-test --topic t --messages 1 --timeout 60000",
		"kafka-verifiable-consumer --topic t --group-id g"} {
		words := append(strings.Fields(line), "--bootstrap-server", b.Listener("SECURE"), "--consumer.config", plainLogin(t, "nobody"))
		out := runTool(t, ctx, "", words[0], words[1:]...)
		if strings.Count(out.stderr, "SaslAuthenticationException") != 1 || out.code != 1 && words[0] != "kafka-verifiable-consumer" || ctx.Err() != nil {
			t.Errorf("%s: exit code %d, %q", line, out.code, out.stderr)
		}
	}
}

// TestConfigsBeforeBrokersRun runs the recorded commands on a ZooKeeper of its own.
func TestConfigsBeforeBrokersRun(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t)
	tree := cluster.ZooKeeper() + "/without-brokers"
	out := runTool(t, t.Context(), "", "kafka-configs", "--zookeeper", tree, "--describe", "--entity-type", "users")
	if out.code != 1 || !strings.Contains(out.stderr, "the chroot /without-brokers does not exist") {
		t.Errorf("a chroot that does not exist: exit code %d, %q", out.code, out.stderr)
	}
	runTool(t, t.Context(), "", "zookeeper-shell", cluster.ZooKeeper(), "create", "/without-brokers")
	replay(t, "testdata/stored-configs.txt", tree)

	password := []string{"--zookeeper", tree, "--alter", "--entity-type", "brokers", "--entity-name", "7",
		"--add-config", "listener.name.internal.ssl.key.password=k,password.encoder.secret=s"}
	if out := runTool(t, t.Context(), "", "kafka-configs", password...); out.code != 0 {
		t.Fatalf("exit code %d, %q", out.code, out.stderr)
	}
	out = runTool(t, t.Context(), "", "kafka-configs", "--zookeeper", tree, "--describe", "--entity-type", "brokers", "--entity-name", "7")
	if !strings.Contains(out.stdout, "encryptedPassword:") || strings.Contains(out.stdout, "encoder.secret") {
		t.Errorf("stored: %q", out.stdout)
	}
	_, encoded, _ := strings.Cut(strings.TrimSpace(out.stdout), "password=")
	if got, err := (passwordcodec.Encoder{Secret: "s"}).Decode(encoded); err != nil || got != "k" {
		t.Errorf("it decodes to %q, %v", got, err)
	}
	for _, entity := range [][]string{{"--entity-name", "0"}, {"--entity-default"}} {
		out := runTool(t, t.Context(), "", "kafka-configs", append([]string{"--zookeeper", cluster.ZooKeeper(), "--describe", "--entity-type", "brokers"}, entity...)...)
		if out.code != 1 || !strings.Contains(out.stderr, "broker 0 is running") {
			t.Errorf("%v: exit code %d, %q", entity, out.code, out.stderr)
		}
	}
}

// newToken finds the HMAC of a delegation token in the output of its creation.
var newToken = regexp.MustCompile(`Created delegation token[^|]*\n[\w-]{22} ([A-Za-z0-9+/]{86}==) `)

// replay runs the commands of a file. more contains words in them and their replacements; HMAC is replaced by that of
// the newest token.
func replay(t *testing.T, file, addr string, more ...string) {
	hmac := ""
	for _, run := range readGolden(t, file) {
		command, stdin, _ := strings.Cut(run.line, " <<< ")
		if stdin != "" {
			var err error
			if stdin, err = strconv.Unquote(stdin); err != nil {
				t.Fatalf("%s: %v", run.line, err)
			}
		}
		command = strings.NewReplacer(append(slices.Clip(more), "HMAC", hmac, "BROKER", "--bootstrap-server "+addr, "ZOOKEEPER", "--zookeeper "+addr, "ADDRESS", addr)...).Replace(command)
		words, err := shellWords(command)
		if err != nil {
			t.Fatal(err)
		}
		out := runTool(t, t.Context(), stdin, words[0], words[1:]...)
		if made := newToken.FindStringSubmatch(out.stdout); made != nil {
			hmac = made[1]
		}
		// A broker learns of its own settings through ZooKeeper, and a transaction's markers are written after the
		// response to its end. When the original tools were recorded, the start of their JVM left time for that.
		settles := slices.Contains(words, "--describe") || words[0] == "kafka-transactions" && slices.ContainsFunc(words, func(w string) bool { return w == "list" || w == "describe" })
		for deadline := time.Now().Add(5 * time.Second); settles && masked(out.stdout) != masked(run.stdout) && time.Now().Before(deadline); {
			out = runTool(t, t.Context(), stdin, words[0], words[1:]...)
		}
		diff(t, run.line+": standard output", masked(run.stdout), masked(out.stdout))
		diff(t, run.line+": standard error", run.stderr, processed(out.stderr))
		if code := strconv.Itoa(out.code); code != run.code {
			t.Errorf("%s: exit code %s, recorded %s; output %q", run.line, code, run.code, out.stderr)
		}
		asked := len(words) == 1 || slices.Contains(words, "--help")
		if n := strings.Count(strings.TrimSuffix(out.stderr, "\n"), "\n"); out.code != 0 && n > 0 && !asked {
			t.Errorf("%s: its error has more than one line: %q", run.line, out.stderr)
		}
	}
}

func TestConsoleToolsPassAnyBytes(t *testing.T) {
	t.Parallel()
	broker := []string{"--bootstrap-server", kafkatest.Run(t).Broker(0).Addr()}
	tool := func(stdin, name string, args ...string) output {
		t.Helper()
		out := runTool(t, t.Context(), stdin, name, append(args, broker...)...)
		if out.code != 0 {
			t.Fatalf("%s %v: exit code %d: %s", name, args, out.code, out.stderr)
		}
		return out
	}
	tool("", "kafka-topics", "--create", "--topic", "bytes")
	// Lines shorter and longer than every buffer, empty ones, and bytes that are not text.
	var lines []string
	for i := range 3000 {
		lines = append(lines, strings.Repeat("\x00\xffx", i%97))
	}
	lines = append(lines, strings.Repeat("l", 900_000), "", "last")
	input := strings.Join(lines, "\n") + "\n"
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "bytes-" + codec
		tool("", "kafka-topics", "--create", "--topic", topic)
		tool(input, "kafka-console-producer", "--topic", topic, "--compression-codec", codec)
		out := tool("", "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", strconv.Itoa(len(lines)))
		if out.stdout != input {
			t.Errorf("%s: what is read differs from what was written (%d and %d bytes)", codec, len(out.stdout), len(input))
		}
	}
}

func TestProducerCountsWhatItCannotDeliver(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t, kafkatest.Setting("message.max.bytes", "1000")).Broker(0).Addr()
	out := runTool(t, t.Context(), "short\n"+strings.Repeat("x", 5000)+"\nshort\n", "kafka-console-producer", "--topic", "t", "--bootstrap-server", addr)
	if out.code != 1 || !strings.Contains(out.stderr, "1 of 3 records could not be delivered") || !strings.Contains(out.stderr, "RecordTooLargeException") {
		t.Errorf("exit code %d, standard error %q", out.code, out.stderr)
	}
}

// TestGroupsThatWereResetBeforeAFailure are shown: their offsets have changed.
func TestGroupsThatWereResetBeforeAFailure(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	runTool(t, t.Context(), "one\ntwo\n", "kafka-console-producer", "--topic", "t", "--bootstrap-server", addr)
	reset := func(args ...string) output {
		return runTool(t, t.Context(), "", "kafka-consumer-groups", append(args, "--reset-offsets", "--topic", "t", "--bootstrap-server", addr, "--execute")...)
	}
	if out := reset("--group", "a", "--to-earliest"); out.code != 0 {
		t.Fatal(out)
	}
	out := reset("--group", "a", "--group", "b", "--shift-by", "1")
	if !slices.Equal(strings.Fields(out.stdout)[:8], []string{"GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "a", "t", "0", "1"}) || !strings.Contains(out.stdout+out.stderr, "group b: cannot shift") {
		t.Errorf("printed %q and %q", out.stdout, out.stderr)
	}
}

// fullDisk is a file on a disk with some bytes left.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.left -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// TestConsumerCommitsWhatItHasWritten: what a full disk did not take is read again by the group.
func TestConsumerCommitsWhatItHasWritten(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	const lines = "one\ntwo\nthree\n"
	runTool(t, t.Context(), lines, "kafka-console-producer", "--topic", "t", "--bootstrap-server", addr)
	args := []string{"--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "3", "--bootstrap-server", addr}
	var stderr bytes.Buffer
	consumer := Tool{Name: "kafka-console-consumer", run: consoleConsumer}
	code := consumer.Run(t.Context(), &Env{Args: args, Stdin: strings.NewReader(""), Stdout: &fullDisk{left: 5}, Stderr: &stderr})
	if code != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("on a full disk: exit code %d, %q", code, &stderr)
	}
	if out := runTool(t, t.Context(), "", "kafka-console-consumer", append(args, "--timeout-ms", "10000")...); out.stdout != lines {
		t.Errorf("read again: %+v", out)
	}
}

// TestProducerSettingsOfJava: settings with which Java's producer works work here too.
func TestProducerSettingsOfJava(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	for _, setting := range []string{
		"max.in.flight.requests.per.connection=5", "max.in.flight.requests.per.connection=1", "acks=1,max.in.flight.requests.per.connection=5",
		"max.block.ms=9223372036854775807", "max.request.size=2147483647", "socket.connection.setup.timeout.ms=9223372036854775807",
	} {
		args := []string{"--topic", "t", "--bootstrap-server", addr}
		for s := range strings.SplitSeq(setting, ",") {
			args = append(args, "--producer-property", s)
		}
		if out := runTool(t, t.Context(), "line\n", "kafka-console-producer", args...); out.code != 0 {
			t.Errorf("%s: exit code %d, %q", setting, out.code, out.stderr)
		}
	}
}

// TestMembersOfNewGroupsWarnOfNothing: offsets that a member commits before it reads cause no warning.
func TestMembersOfNewGroupsWarnOfNothing(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	runTool(t, t.Context(), "one\n", "kafka-console-producer", "--topic", "t", "--bootstrap-server", addr)
	out := runTool(t, t.Context(), "", "kafka-console-consumer", "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "1", "--bootstrap-server", addr)
	if out.code != 0 || out.stdout != "one\n" || strings.Contains(out.stderr, "WARN") {
		t.Errorf("exit code %d, %q, standard error %q", out.code, out.stdout, out.stderr)
	}
}

func TestZooKeeperShell(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t)
	shell := func(stdin string, args ...string) output {
		return runTool(t, t.Context(), stdin, "zookeeper-shell", append([]string{cluster.ZooKeeper()}, args...)...)
	}
	body := func(out output) string {
		_, after, _ := strings.Cut(out.stdout, "path:null\n")
		return after
	}
	for _, step := range []struct {
		args   string
		want   string
		stderr string
		code   int
	}{
		{"create /x data", "", "Created /x\n", 0},
		{"create /x data", "", "zookeeper-shell: Node already exists: /x\n", 1},
		{"create -s /x/s d", "", "Created /x/s0000000000\n", 0},
		{"get /x", "data\n", "", 0},
		{"set -v 7 /x new", "", "zookeeper-shell: the version is not that of the node: /x\n", 1},
		{"set /x new", "", "", 0},
		{"ls /x", "[s0000000000]\n", "", 0},
		{"ls -R /x", "/x\n/x/s0000000000\n", "", 0},
		{"delete /x", "", "zookeeper-shell: Node not empty: /x\n", 1},
		{"deleteall /x", "", "", 0},
		{"get /x", "", "zookeeper-shell: Node does not exist: /x\n", 1},
		{"create /y/z", "", "zookeeper-shell: Node does not exist: /y/z\n", 1},
		{"create /y", "", "Created /y\n", 0},
		{"create /y/z", "", "Created /y/z\n", 0},
		{"getAllChildrenNumber /y", "1\n", "", 0},
		{"setAcl -R /y world:anyone:cr,ip:127.0.0.1:cdrwa", "", "", 0},
		{"getAcl /y/z", "'world,'anyone\n: cr\n'ip,'127.0.0.1\n: cdrwa\n", "", 0},
		{"setAcl -v 7 /y world:anyone:r", "", "zookeeper-shell: the version is not that of the node: /y\n", 1},
		{"setAcl /y world:anyone", "", "zookeeper-shell: world:anyone is not of the form scheme:id:perms (--help lists the options)\n", 1},
		{"setAcl /nosuch world:anyone:r", "", "zookeeper-shell: Node does not exist: /nosuch\n", 1},
		{"sync /y", "Sync is OK\n", "", 0},
		{"config", "\n", "", 0},
		{"version", Version + "\n", "", 0},
		{"printwatches", "printwatches is on\n", "", 0},
		{"deleteall /y", "", "", 0},
		{"quit", "", "", 0},
		{"getAcl /brokers", "'world,'anyone\n: cdrwa\n", "", 0},
		{"ls", "", "zookeeper-shell: usage: ls [-s] [-w] [-R] path (--help lists the options)\n", 1},
	} {
		out := shell("", strings.Fields(step.args)...)
		if body(out) != step.want || out.stderr != step.stderr || out.code != step.code {
			t.Errorf("%s: printed %q and %q with exit code %d, want %q, %q and %d", step.args, body(out), out.stderr, out.code, step.want, step.stderr, step.code)
		}
	}
	out := shell("create /q 'with blank'\nget -s /q\nquit\nls /\n")
	if got := body(out); !strings.HasPrefix(got, "with blank\ncZxid = 0x") || !strings.HasSuffix(got, "dataLength = 10\nnumChildren = 0\n") {
		t.Errorf("commands of standard input printed %q", got)
	}
	for _, lines := range []struct { // commands go on after an error, and the last one determines the exit code
		stdin, stdout, stderr string
		code                  int
	}{
		{"get /nosuch\nget /q\n", "with blank\n", "Node does not exist: /nosuch\n", 0},
		{"get /q\nget /nosuch\n\n", "with blank\n", "Node does not exist: /nosuch\n", 1},
		{"get /nosuch\nquit\nget /q\n", "", "Node does not exist: /nosuch\n", 1},
	} {
		if out := shell(lines.stdin); body(out) != lines.stdout || out.stderr != lines.stderr || out.code != lines.code {
			t.Errorf("%q printed %q and %q with exit code %d", lines.stdin, body(out), out.stderr, out.code)
		}
	}
	if out := shell("nonsense\n"); out.code != 127 {
		t.Errorf("an unknown command has the exit code %d", out.code)
	}
}

// syncBuffer collects what a tool prints while it runs.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestZooKeeperShellWatches: the shell prints one event of each watch, while it waits for commands.
func TestZooKeeperShellWatches(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Run(t)
	runTool(t, t.Context(), "", "zookeeper-shell", cluster.ZooKeeper(), "create", "/w")
	commands, stdin := io.Pipe()
	stdout := &syncBuffer{}
	ended := make(chan int, 1)
	go func() {
		shell := Tool{Name: "zookeeper-shell", run: zookeeperShell}
		ended <- shell.Run(t.Context(), &Env{Args: []string{cluster.ZooKeeper() + "/w"}, Stdin: commands, Stdout: stdout, Stderr: io.Discard})
	}()
	for _, step := range []struct{ lines, event string }{
		{"create /x 1\nget -w /x\nset /x 2\n", "NodeDataChanged path:/x"},
		{"set /x 3\nls -w /\ncreate /y\n", "NodeChildrenChanged path:/"},
		{"stat -w /none\ncreate /none\n", "NodeCreated path:/none"},
		{"ls -R -w /\ncreate /y/z\n", "NodeChildrenChanged path:/y"},
		{"printwatches off\nprintwatches on\nget -w /y\ndeleteall /y\n", "NodeDeleted path:/y"},
		{"stat -w /x\nprintwatches off\ndelete /x\nprintwatches\n", "printwatches is off"},
	} {
		if _, err := io.WriteString(stdin, step.lines); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, step.event, func() bool { return strings.Contains(stdout.String(), step.event+"\n") })
	}
	_ = stdin.Close()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := stdout.String(); strings.Count(got, "path:/x\n") != 1 {
		t.Errorf("printed %q", got)
	}
}

func TestProducerPerfInTransactions(t *testing.T) {
	t.Parallel()
	addr := kafkatest.Run(t).Broker(0).Addr()
	out := runTool(t, t.Context(), "", "kafka-producer-perf-test", "--topic", "t", "--num-records", "500", "--record-size", "100", "--throughput", "5000",
		"--transaction-duration-ms", "10", "--producer-props", "bootstrap.servers="+addr)
	if out.code != 0 || !strings.HasPrefix(out.stdout, "500 records sent, ") {
		t.Fatalf("exit code %d, printed %q and %q", out.code, out.stdout, out.stderr)
	}
	out = runTool(t, t.Context(), "", "kafka-console-consumer", "--topic", "t", "--from-beginning", "--isolation-level", "read_committed",
		"--max-messages", "500", "--bootstrap-server", addr)
	if out.code != 0 || strings.Count(out.stdout, "\n") != 500 {
		t.Errorf("exit code %d, read %d records of 500", out.code, strings.Count(out.stdout, "\n"))
	}
}

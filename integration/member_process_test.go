package integration

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// arguments returns the membership as arguments for the programs in compat, each of which is a member that uses one
// client library.
func (m membership) arguments() []string {
	return []string{"bootstrap=" + strings.Join(m.addrs, ","), "group=" + m.group, "topic=" + m.topic, "instance=" + m.instance,
		"reset=" + m.reset(), "commit=" + m.commit, "session_ms=" + strconv.FormatInt(m.session.Milliseconds(), 10)}
}

// pythonJoiner starts members with a Python interpreter and one of its libraries.
func pythonJoiner(interpreter, library string) joiner {
	return func(t *testing.T, l *ledger, as membership) *member {
		t.Helper()
		need(t, library+" for "+interpreter, exec.Command(interpreter, "-c", "import "+strings.Replace(strings.TrimSuffix(library, "-python"), "-", "_", 1)).Run() == nil)
		return startMember(t, l, exec.Command(interpreter, append([]string{"compat/member.py", library}, as.arguments()...)...), tellAsPrinted)
	}
}

// A reading translates a line of a member's output into an entry for the ledger: a word and its arguments.
type reading func(line string) (word, rest string)

// tellAsPrinted reads the output of the programs in compat.
func tellAsPrinted(line string) (word, rest string) {
	word, rest, _ = strings.Cut(line, " ")
	return word, rest
}

// startMember runs a member as a separate process. Its lines are "gained P ...", "lost P ...", "assigned P ..." (all
// that it has) and "record VALUE"; others are ignored.
func startMember(t *testing.T, l *ledger, cmd *exec.Cmd, read reading) *member {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errors := &tail{}
	cmd.Stderr = errors
	m := &member{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var following sync.WaitGroup
	following.Go(func() { follow(l, m, out, read) })
	end := func(s syscall.Signal) func() {
		return sync.OnceFunc(func() {
			_ = cmd.Process.Signal(s)
			forced := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			defer forced.Stop()
			following.Wait()
			_ = cmd.Wait()
		})
	}
	m.close = end(syscall.SIGTERM)
	m.kill = end(syscall.SIGKILL)
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("%s: its last errors: %s", filepath.Base(cmd.Path), errors)
		}
	})
	return m
}

// follow enters what a member prints in the ledger, until it ends.
func follow(l *ledger, m *member, out io.Reader, read reading) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, rest := read(lines.Text())
		switch word {
		case "record":
			l.got([]byte(rest))
		case "gained":
			l.gain(m, numbers(rest))
		case "lost":
			l.lose(m, numbers(rest))
		case "assigned":
			l.assign(m, numbers(rest))
		}
	}
}

func numbers(text string) []int32 {
	var list []int32
	for field := range strings.FieldsSeq(text) {
		if n, err := strconv.Atoi(field); err == nil {
			list = append(list, int32(n))
		}
	}
	return list
}

// assign sets all partitions that a member has.
func (l *ledger) assign(m *member, partitions []int32) {
	now := make(map[int32]bool)
	for _, p := range partitions {
		now[p] = true
	}
	var gone []int32
	l.mu.Lock()
	for p := range l.holding[m] {
		if !now[p] {
			gone = append(gone, p)
		}
	}
	l.mu.Unlock()
	l.lose(m, gone)
	l.gain(m, partitions)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}

// kcatClient is kcat, which uses librdkafka. It has one way to commit.
var kcatClient = groupClient{join: joinWithKcat, static: true, patterns: true, commits: []string{commitAuto}}

func joinWithKcat(t *testing.T, l *ledger, as membership) *member {
	t.Helper()
	need(t, "kcat", hasProgram("kcat"))
	settings := []string{"auto.offset.reset=" + as.reset(), "auto.commit.interval.ms=100", "topic.metadata.refresh.interval.ms=1000",
		fmt.Sprintf("session.timeout.ms=%d", as.session.Milliseconds()), fmt.Sprintf("heartbeat.interval.ms=%d", as.session.Milliseconds()/4)}
	if as.instance != "" {
		settings = append(settings, "group.instance.id="+as.instance)
	}
	// kcat reports rebalances on standard error, which the shell redirects to the same pipe.
	args := []string{"-c", `exec kcat "$@" 2>&1`, "kcat", "-b", strings.Join(as.addrs, ","), "-u", "-f", `record %s\n`}
	for _, s := range settings {
		args = append(args, "-X", s)
	}
	return startMember(t, l, exec.Command("sh", append(args, "-G", as.group, as.topic)...), readKcat)
}

var (
	kcatRebalance = regexp.MustCompile(`^% Group .* rebalanced .*: (assigned|revoked): ?(.*)$`)
	kcatPartition = regexp.MustCompile(`\[(\d+)\]`)
)

func readKcat(line string) (word, rest string) {
	found := kcatRebalance.FindStringSubmatch(line)
	if found == nil {
		return tellAsPrinted(line)
	}
	var partitions []string
	for _, p := range kcatPartition.FindAllStringSubmatch(found[2], -1) {
		partitions = append(partitions, p[1])
	}
	return map[string]string{"assigned": "gained", "revoked": "lost"}[found[1]], strings.Join(partitions, " ")
}

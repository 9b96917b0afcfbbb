// Package integration tests whole brokers from outside: the built binary, with real clients, a real ZooKeeper and
// Apache Kafka itself.
//
// It needs build/kafka (make integration builds it). PEER names a launcher of Apache Kafka with the commands `broker
// DIR ID PORT ZK [key=value ...]`, `stop DIR [SIGNAL]` and `tool CLASS ARG ...`; without it the tests that compare with
// Apache Kafka are skipped, unless CI=true.
package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"
	"barnabas/zkcoord/zkserver"
)

// brokerBinary returns the path of the built broker.
func brokerBinary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../build/kafka")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	return path
}

// need skips a test that needs a program which is missing; with CI=true that is a failure.
func need(t testing.TB, what string, there bool) {
	t.Helper()
	if there {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("%s is missing", what)
}

func hasProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// zookeeper runs the embedded ZooKeeper in the test's process and returns its address.
func zookeeper(t testing.TB) string {
	t.Helper()
	zk, err := zkserver.Open(zkserver.Config{TickTime: 500 * time.Millisecond, MaxTimeout: time.Minute})
	if err == nil {
		err = zk.Listen("127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = zk.Close() })
	return zk.Addr().String()
}

// process is a broker that runs as a separate process.
type process struct {
	t       testing.TB
	dir     string
	port    int
	cmd     *exec.Cmd
	started chan struct{} // closed when it logs that it has started
	ended   chan struct{}
	mu      sync.Mutex // guards lines
	lines   []string
}

// newProcess prepares a broker; start starts it, also after kill or stop.
func newProcess(t testing.TB, id int, zk string, settings ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), port: testport.Reserve(t)}
	lines := append([]string{
		fmt.Sprintf("broker.id=%d", id), fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", p.port), "log.dirs=" + p.logDir(),
		"zookeeper.connect=" + zk, "zookeeper.session.timeout.ms=2000", "zookeeper.connection.timeout.ms=30000", "offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0",
	}, settings...)
	if err := os.WriteFile(filepath.Join(p.dir, "server.properties"), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		p.mu.Lock()
		defer p.mu.Unlock()
		tell(t, p.addr(), p.lines)
	})
	return p
}

// add adds settings, which override earlier ones.
func (p *process) add(settings ...string) {
	p.t.Helper()
	file, err := os.OpenFile(filepath.Join(p.dir, "server.properties"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString("\n" + strings.Join(settings, "\n"))
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) addr() string   { return "127.0.0.1:" + strconv.Itoa(p.port) }
func (p *process) pid() int       { return p.cmd.Process.Pid }
func (p *process) logDir() string { return filepath.Join(p.dir, "logs") }

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(brokerBinary(p.t), "server-start", filepath.Join(p.dir, "server.properties"))
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	p.started, p.ended = make(chan struct{}), make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go p.follow(out)
	select {
	case <-p.started:
	case <-p.ended:
		p.t.Fatalf("the broker exited: %s", p.log())
	case <-time.After(60 * time.Second):
		p.t.Fatalf("the broker has not started: %s", p.log())
	}
}

// follow reads the broker's output until it ends.
func (p *process) follow(out io.Reader) {
	once := sync.OnceFunc(func() { close(p.started) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		p.mu.Unlock()
		if strings.Contains(lines.Text(), "] started") {
			once()
		}
	}
	_ = p.cmd.Wait()
	close(p.ended)
}

// log returns what the broker has logged so far, in all its runs.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// tell logs the end of a broker's log if the test has failed.
func tell(t testing.TB, addr string, log []string) {
	if t.Failed() {
		t.Logf("the last lines of the broker on %s:\n%s", addr, strings.Join(log[max(0, len(log)-15):], "\n"))
	}
}

// signal sends a signal and waits until the process has ended.
func (p *process) signal(s syscall.Signal) {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(60 * time.Second):
		p.t.Errorf("the broker does not exit after signal %v", s)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	p.cmd = nil
}

// send sends a signal without waiting.
func (p *process) send(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }
func (p *process) stop() { p.signal(syscall.SIGTERM) }

// residentBytes returns the process's resident memory, from /proc.
func (p *process) residentBytes() int64 {
	p.t.Helper()
	return residentBytes(p.t, p.pid())
}

func residentBytes(t testing.TB, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

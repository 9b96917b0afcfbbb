package zkserver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

// tick is short, so that a session can expire in a test; a session's timeout is at least two ticks.
const tick = 500 * time.Millisecond

// debianJar is where Debian's package zookeeper installs the real server.
const debianJar = "/usr/share/java/zookeeper.jar"

var realServer = struct {
	once    sync.Once
	address string
	process *os.Process
	dir     string
	err     error
}{}

func TestMain(m *testing.M) {
	code := m.Run()
	if realServer.process != nil {
		realServer.process.Kill()
		realServer.process.Wait()
		os.RemoveAll(realServer.dir)
	}
	os.Exit(code)
}

// onBoth runs a test on this server and on a real ZooKeeper 3.8.
func onBoth(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	t.Run("zkserver", func(t *testing.T) { test(t, start(t, Config{TickTime: tick}).Addr().String()) })
	t.Run("zookeeper", func(t *testing.T) { test(t, realAddress(t)) })
}

// start runs a server for the test.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	cfg.Logger = testLogger(t)
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return s
}

func testLogger(t testing.TB) *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() {
		log.SetOutput(t.Output())
	}
	return logrus.NewEntry(log)
}

// realAddress starts the real server, once for all tests.
func realAddress(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(debianJar); err != nil {
		message := "left out: no ZooKeeper to compare with; apt-get install zookeeper"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	realServer.once.Do(func() { realServer.address, realServer.err = startReal(testport.Address(t)) })
	if realServer.err != nil {
		t.Fatal(realServer.err)
	}
	return realServer.address
}

func startReal(address string) (string, error) {
	_, port, _ := net.SplitHostPort(address)
	dir, err := os.MkdirTemp("", "zookeeper")
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=%d\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
		dir, port, tick.Milliseconds())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("java", "-Xmx128m", "-Dzookeeper.forceSync=no", "-cp", dir+":"+debianJar, "org.apache.zookeeper.server.ZooKeeperServerMain", config)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	realServer.process, realServer.dir = cmd.Process, dir
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if answer, _ := command(address, "srvr"); strings.Contains(answer, "Mode: standalone") {
			return address, nil
		}
	}
	return "", fmt.Errorf("ZooKeeper did not start: %s", output.String())
}

// command sends a four-letter word.
func command(address, word string) (string, error) {
	nc, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(nc, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(nc)
	return string(answer), err
}

// client returns a session of the go-zookeeper library.
func client(t *testing.T, address string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	conn, events, err := zk.Connect([]string{address}, 4*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	waitFor(t, events, zk.StateHasSession)
	return conn, events
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func waitFor(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-events:
			if e.Type == zk.EventSession && e.State == state {
				return
			}
		case <-deadline:
			t.Fatalf("no %v", state)
		}
	}
}

// root creates a node for one test.
func root(t *testing.T, conn *zk.Conn) string {
	t.Helper()
	path, err := conn.Create("/test-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// rawClient speaks the protocol itself, so that tests see every byte of the responses.
type rawClient struct {
	t        *testing.T
	nc       net.Conn
	xid      int32
	session  int64
	password []byte
	timeout  int32
	events   []string // in the order in which they arrived
}

// dial connects; with a session it resumes that one.
func dial(t *testing.T, address string, hello connectRequest) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := &rawClient{t: t, nc: nc}
	hello.hasFlag = true
	c.send(appendConnectRequest(nil, hello))
	r := reader{b: c.frame()}
	r.int32()
	c.timeout, c.session, c.password = r.int32(), r.int64(), slices.Clone(r.buffer())
	if r.bool(); r.err != nil || len(r.b) != 0 {
		t.Fatalf("connect response: %v, %d bytes left", r.err, len(r.b))
	}
	return c
}

func (c *rawClient) send(frame []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(append(appendInt32(nil, int32(len(frame))), frame...)); err != nil {
		c.t.Fatal(err)
	}
}

// frame reads one frame; nil when the connection has been closed.
func (c *rawClient) frame() []byte {
	c.t.Helper()
	c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		if os.IsTimeout(err) {
			c.t.Fatal("no answer")
		}
		return nil
	}
	frame := make([]byte, (&reader{b: head}).int32())
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		c.t.Fatal(err)
	}
	return frame
}

// ask sends a request and waits for its response; events that arrive before are kept.
func (c *rawClient) ask(op int32, body any) (Code, *reader) {
	c.t.Helper()
	c.xid++
	return c.askAs(c.xid, op, body)
}

func (c *rawClient) askAs(xid, op int32, body any) (Code, *reader) {
	c.t.Helper()
	c.send(appendRequest(nil, request{xid, op, body}))
	for {
		frame := c.frame()
		if frame == nil {
			c.t.Fatal("the connection was closed")
		}
		r := &reader{b: frame}
		got, _, code := r.int32(), r.int64(), Code(r.int32())
		if got == eventXid {
			c.events = append(c.events, fmt.Sprintf("%d %d %s", r.int32(), r.int32(), r.text()))
			continue
		}
		if got != xid {
			c.t.Fatalf("answer to %d, want %d", got, xid)
		}
		return code, r
	}
}

// ended waits until the server closes the connection.
func (c *rawClient) ended() {
	c.t.Helper()
	for c.frame() != nil {
	}
}

// takeEvents returns the events that have arrived so far, and forgets them.
func (c *rawClient) takeEvents() []string {
	events := c.events
	c.events = nil
	return events
}

func (c *rawClient) create(path string, flags Mode) {
	c.t.Helper()
	if code, _ := c.ask(opCreate, createBody{path, nil, openACL, int32(flags)}); code != OK {
		c.t.Fatalf("create %s: %v", path, code)
	}
}

func readStat(r *reader) Stat {
	return Stat{r.int64(), r.int64(), r.int64(), r.int64(), r.int32(), r.int32(), r.int32(), r.int64(), r.int32(), r.int32(), r.int64()}
}

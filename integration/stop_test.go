package integration

import (
	"context"
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
)

// TestStopWithoutZooKeeper stops brokers of a cluster, including its controller, while ZooKeeper is unavailable in one
// of several ways. They stop by themselves and log what they could not do.
func TestStopWithoutZooKeeper(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*proxy){
		"it is gone":         func(p *proxy) { p.close() },
		"it does not answer": func(p *proxy) { p.sever(true) },
	} {
		for since, wait := range map[string]time.Duration{"since just now": 0, "for long": 5 * time.Second} {
			t.Run(name+" "+since, func(t *testing.T) {
				t.Parallel()
				line := newProxy(t, zookeeper(t))
				brokers := twoBrokers(t, line.addr())
				away(line)
				time.Sleep(wait)
				wantHastyStops(t, brokers, "ZooKeeper has not answered")
			})
		}
	}
}

// TestStopWhileZooKeeperRefusesLogins: the log line says that ZooKeeper refuses the login.
func TestStopWhileZooKeeperRefusesLogins(t *testing.T) {
	t.Parallel()
	knows, other := startSecuredZooKeeper(t), startSecuredZooKeeperBy(t, strings.ReplaceAll(zkLogins, "user_other=", "user_nobody="))
	ahead := other.session(t)
	for range 1000 { // a server does not accept a client that has seen a later zxid
		if _, err := ahead.Set("/", nil, -1); err != nil {
			t.Fatal(err)
		}
	}
	line := newProxy(t, knows.addr)
	brokers := twoBrokers(t, line.addr(), "java.security.auth.login.config="+knows.logins, "zookeeper.sasl.clientconfig=Other", "zookeeper.set.acl=true")
	line.turn(other.addr)
	until(t, "a login is refused", func(context.Context) bool { return strings.Contains(brokers[0].log(), "no login to ZooKeeper") })
	wantHastyStops(t, brokers, "the server refuses the user or the password")
}

// TestStopWithTheTerminal: a broker goes on when nobody reads its log any more, and stops cleanly when its terminal is
// closed, but not under nohup.
func TestStopWithTheTerminal(t *testing.T) {
	t.Parallel()
	zk := zookeeper(t)
	for id, test := range []struct {
		name     string
		launcher []string
		stop     syscall.Signal
	}{
		{"terminal", nil, syscall.SIGHUP},
		{"nohup", []string{"nohup"}, syscall.SIGTERM},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t, id, zk)
			words := append(test.launcher, brokerBinary(t), "server-start", filepath.Join(p.dir, "server.properties"))
			cmd := exec.Command(words[0], words[1:]...)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			_ = out.Close()
			answers := func(context.Context) bool {
				conn, err := net.Dial("tcp", p.addr())
				if err == nil {
					err = conn.Close()
				}
				return err == nil
			}
			until(t, "the broker listens", answers)
			ourTool(t, "", "topics", "--bootstrap-server", p.addr(), "--create", "--topic", test.name)
			for _, s := range slices.Compact([]syscall.Signal{syscall.SIGHUP, test.stop}) {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				if s != test.stop && !answers(t.Context()) {
					t.Errorf("%v stops it", s)
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(p.logDir(), ".kafka_cleanshutdown")); err != nil {
				t.Error(err)
			}
		})
	}
}

// twoBrokers have a topic of which each leads a partition.
func twoBrokers(t *testing.T, zk string, settings ...string) []*process {
	t.Helper()
	brokers := []*process{newProcess(t, 0, zk, settings...), newProcess(t, 1, zk, settings...)}
	for _, b := range brokers {
		b.start()
	}
	ourTool(t, "", "topics", "--bootstrap-server", brokers[0].addr(), "--create", "--topic", "t", "--replica-assignment", "0:1,1:0")
	return brokers
}

// wantHastyStops stops brokers, which must log why they hand nothing over.
func wantHastyStops(t *testing.T, brokers []*process, why string) {
	t.Helper()
	var stops sync.WaitGroup
	for _, b := range brokers {
		stops.Go(b.stop)
	}
	stops.Wait()
	for _, b := range brokers {
		_, line, _ := strings.Cut(b.log(), "stopping without handing leaderships over")
		if line, _, _ = strings.Cut(line, "\n"); !strings.Contains(line, why) || !strings.Contains(b.log(), "shut down completed") {
			t.Errorf("%s", b.log())
		}
	}
}

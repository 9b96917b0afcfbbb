package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"barnabas/internal/testwait"
	"barnabas/tools"

	"github.com/spf13/pflag"
)

func TestEveryToolHasItsLaunchers(t *testing.T) {
	names := []string{"kafka-server-start", "kafka-server-stop", "zookeeper-server-start", "zookeeper-server-stop", "kafka-run-class"}
	for _, tool := range tools.All() {
		names = append(names, tool.Name)
	}
	for _, name := range names {
		for _, file := range []string{name, name + ".sh"} {
			info, err := os.Stat(filepath.Join("..", "..", "bin", file))
			if err != nil {
				t.Error(err)
			} else if info.Mode()&0o111 == 0 {
				t.Errorf("bin/%s cannot be run", file)
			}
		}
	}
}

// TestDaemonsWriteWhereApacheKafkaDoes: output goes to the same files as of Apache Kafka, and to separate files for
// several daemons.
func TestDaemonsWriteWhereApacheKafkaDoes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	launcher, err := os.ReadFile("../../bin/kafka-run")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, command, file, variable, want string }{
		{"one broker", "server-start", "config/server.properties", "", "logs/kafkaServer.out"},
		{"one of several", "server-start", "config/server-2.properties", "", "logs/kafkaServer-server-2.out"},
		{"a folder of its own", "server-start", "config/server-2.properties", "LOG_DIR=own", "own/kafkaServer.out"},
		{"a name of its own", "server-start", "config/server.properties", "EXTRA_ARGS=-loggc -name second", "logs/second.out"},
		{"ZooKeeper", "zookeeper-server-start", "config/zookeeper.properties", "", "logs/zookeeper.out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			binary := filepath.Join(root, "binary")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.Mkdir(filepath.Join(root, "bin"), 0o755))
			must(os.WriteFile(filepath.Join(root, "bin", "kafka-run"), launcher, 0o755))
			must(os.WriteFile(binary, []byte("#!/bin/sh\necho \"$@\"\n"), 0o755))
			cmd := exec.Command(filepath.Join(root, "bin", "kafka-run"), test.command, "-daemon", test.file)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "KAFKA_BINARY="+binary, test.variable)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want := test.command + " " + test.file + "\n"
			testwait.See(t, test.want+" with "+want, func() (string, bool) {
				got, _ := os.ReadFile(filepath.Join(root, test.want))
				found, _ := filepath.Glob(filepath.Join(root, "*", "*.out"))
				return fmt.Sprintf("%q; there are %s", got, strings.Join(found, ", ")), string(got) == want
			})
		})
	}
}

// TestDaemonWithoutOutput: a daemon whose output cannot be written is not started, which the exit code tells.
func TestDaemonWithoutOutput(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	logs := t.TempDir()
	if err := os.Mkdir(filepath.Join(logs, "kafkaServer.out"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../bin/kafka-run", "server-start", "-daemon", "server.properties")
	cmd.Env = append(os.Environ(), "KAFKA_BINARY=/bin/true", "LOG_DIR="+logs)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "kafkaServer.out") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestStopWithArguments: a request for help and an option that selects some of the servers do not stop all of them.
func TestStopWithArguments(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	stop := func(s *fakeServer, args ...string) string {
		cmd := exec.Command("../../bin/kafka-server-stop", args...)
		cmd.Env = append(os.Environ(), "KAFKA_BINARY="+s.cmd.Path)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for _, option := range []string{"--help", "-h", "--node-id=1", "--process-role=broker"} {
		s := startFakeServer(t)
		if out := stop(s, option); !strings.Contains(out, "kafka-server-stop") {
			t.Errorf("%s prints %q", option, out)
		}
		if err := s.end(); err != nil {
			t.Errorf("%s: the server ended with %v", option, err)
		}
	}
	for _, args := range [][]string{nil, {"config/server.properties"}} {
		s := startFakeServer(t)
		if out := stop(s, args...); out != "" {
			t.Errorf("%q prints %q", args, out)
		}
		if err := s.end(); err == nil || err.Error() != "signal: terminated" {
			t.Errorf("%q: the server ended with %v", args, err)
		}
	}
}

// fakeServer is a process that looks like a broker's. It ends with its input.
type fakeServer struct {
	cmd   *exec.Cmd
	input io.Closer
}

func startFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	root := t.TempDir()
	binary, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"kafka": binary, "server-start": []byte("echo started; read -r line; exit 0\n")} {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(root, "kafka"), "server-start")
	cmd.Dir = root
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return &fakeServer{cmd, input}
}

// end ends the server, unless a signal has done so, and returns how it ended.
func (s *fakeServer) end() error {
	_ = s.input.Close()
	return s.cmd.Wait()
}

func TestManualsOfServers(t *testing.T) {
	for _, m := range []manual{serverManual, zookeeperManual} {
		var page strings.Builder
		flags := pflag.NewFlagSet(m.name, pflag.ContinueOnError)
		flags.StringArray("override", nil, "a setting, `PROPERTY=VALUE`")
		m.write(&page, flags)
		for _, want := range []string{"NAME\n    " + m.name, "SYNOPSIS\n    " + m.name, "OPTIONS\n    -daemon", "    --override PROPERTY=VALUE\n        a setting", "FILES", "LOG_DIR"} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the page of %s lacks %q: %s", m.name, want, &page)
			}
		}
	}
}

// However the options are asked for, they are printed and nothing else.
func TestHelpOfServers(t *testing.T) {
	want := helpOfServer(t, "--help")
	for _, option := range []string{"-h", "-help"} {
		if got := helpOfServer(t, option); got != want {
			t.Errorf("%s prints %q, --help %q", option, got, want)
		}
	}
}

func helpOfServer(t *testing.T, option string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stderr")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = f
	code := serverStart([]string{"server.properties", option})
	os.Stderr = before
	_ = f.Close()
	page, err := os.ReadFile(name)
	if err != nil || code != 1 {
		t.Errorf("%s: exit code %d, %v", option, code, err)
	}
	return string(page)
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"kafka", "--version"}, {"kafka", "version"}, {"kafka", "help"}} {
		if code := run(args); code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

package integration

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"barnabas/internal/testport"
)

// TestTarball unpacks the result of `make dist` and uses it like a release of Apache Kafka, without Go in the path.
func TestTarball(t *testing.T) {
	dir := t.TempDir()
	tarball := filepath.Join(dir, "barnabas-test.tgz")
	if out, err := exec.Command("../packaging/dist", brokerBinary(t), tarball).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("tar", "-C", dir, "-xzf", tarball).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	home := filepath.Join(dir, "barnabas-test")
	for _, name := range []string{"LICENSE", "README.md", "bin/kafka-topics.sh", "config/server.properties", "config/zookeeper.properties",
		"site-docs/compat.md", "share/systemd/kafka.service", "share/bash-completion/completions/kafka", "share/zsh/kafka.zsh"} {
		if _, err := os.Stat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
	binary, err := elf.Open(filepath.Join(home, "libs/kafka"))
	if err != nil {
		t.Fatal(err)
	}
	if libs, err := binary.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the binary needs %v (%v)", libs, err)
	}
	inst := installation{t, home}
	if got := inst.run("kafka-topics.sh", "--version"); got != "3.9.2\n" {
		t.Errorf("--version prints %q", got)
	}
	port, zk := testport.Reserve(t), testport.Reserve(t)
	inst.run("kafka-server-start.sh", "-daemon", "config/server.properties", "--override", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", port),
		"--override", fmt.Sprintf("zookeeper.connect=127.0.0.1:%d", zk), "--override", "metrics.listener=")
	t.Cleanup(func() { _, _ = inst.command("kafka-server-stop.sh").CombinedOutput() })
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	if got := inst.run("kafka-topics.sh", "--bootstrap-server", addr, "--create", "--topic", "t"); got != "Created topic t.\n" {
		t.Errorf("creating a topic prints %q", got)
	}
	inst.run("kafka-server-stop.sh")
	await(t, "the server stops", func(context.Context) (string, bool) {
		out, err := inst.command("kafka-server-stop.sh").CombinedOutput()
		return string(out), err != nil && strings.Contains(string(out), "No kafka server to stop")
	})
}

// installation is an unpacked tarball.
type installation struct {
	t    *testing.T
	home string
}

func (i installation) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(i.home, "bin", name), args...)
	cmd.Dir, cmd.Env = i.home, []string{"PATH=/usr/bin:/bin"}
	return cmd
}

// run returns the standard output of a command that must succeed.
func (i installation) run(name string, args ...string) string {
	i.t.Helper()
	cmd := i.command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		i.t.Fatalf("%s %v: %v: %s", name, args, err, stderr.String())
	}
	return string(out)
}

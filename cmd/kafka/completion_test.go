package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBashCompletesOptions(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	var script strings.Builder
	writeCompletion(&script, "bash")
	for _, test := range []struct {
		name, word string
		want       []string
	}{
		{"kafka-topics.sh", "--del", []string{"--delete", "--delete-config"}},
		{"/opt/kafka/bin/kafka-topics", "--list", []string{"--list"}},
		{"kafka-acls", "--allow-p", []string{"--allow-principal"}},
		{"kafka-acls.sh", "--zk", []string{"--zk-tls-config-file"}},
		{"kafka-delegation-tokens.sh", "--re", []string{"--renew", "--renew-time-period", "--renewer-principal"}},
		{"zookeeper-security-migration.sh", "--zookeeper.a", []string{"--zookeeper.acl"}},
		{"kafka-server-start.sh", "--over", []string{"--override"}},
		{"kafka-topics.sh", "topic", nil},
	} {
		cmd := exec.Command(bash, "--norc", "-c", script.String()+
			`COMP_WORDS=("$0" "$1") COMP_CWORD=1; _barnabas; printf '%s\n' "${COMPREPLY[@]}"`, test.name, test.word)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := strings.Fields(string(out)); !slices.Equal(got, test.want) {
			t.Errorf("%s %s completes to %q, want %q", test.name, test.word, got, test.want)
		}
	}
}

// TestCompletionOnAFullDisk: an incomplete script is not taken for a complete one.
func TestCompletionOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = full.Close() }()
	stdout := os.Stdout
	os.Stdout = full
	defer func() { os.Stdout = stdout }()
	if code := completion([]string{"bash"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// TestShellsComplete types into shells as a user does, and checks what they complete.
func TestShellsComplete(t *testing.T) {
	for _, shell := range []struct{ name, start string }{{"bash", "bash --norc -i"}, {"zsh", "zsh -f -i"}} {
		t.Run(shell.name, func(t *testing.T) {
			for _, program := range []string{shell.name, "script"} { // script(1) provides the terminal
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("no %s", program)
				}
			}
			var text strings.Builder
			writeCompletion(&text, shell.name)
			file := filepath.Join(t.TempDir(), "completion")
			if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct{ typed, want string }{
				{"kafka-topics.sh --delete-c", "--delete-config"},
				{"/opt/kafka/bin/kafka-consumer-groups --all-g", "--all-groups"},
				{"kafka-server-start.sh --over", "--override"},
			} {
				if got := typed(t, shell.start, ". "+file+"\n"+test.typed+"\t", test.want); !strings.Contains(got, test.want) {
					t.Errorf("%s and a tab become %q, without %s", test.typed, got, test.want)
				}
			}
		})
	}
}

// typed types into a shell until it has printed what is wanted, or the time is up.
func typed(t *testing.T, shell, keys, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "-qc", shell, os.DevNull)
	cmd.Env, cmd.WaitDelay = append(os.Environ(), "TERM=dumb", "PS1=> ", "INPUTRC="+os.DevNull, "HOME="+t.TempDir()), time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.WriteString(in, keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for buffer := make([]byte, 4096); !strings.Contains(string(all), want); {
		n, err := out.Read(buffer)
		all = append(all, buffer[:n]...)
		if err != nil {
			break
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
	return string(all)
}

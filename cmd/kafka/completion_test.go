package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestBashCompletesOptions(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	var script strings.Builder
	writeCompletion(&script)
	for _, test := range []struct {
		name, word string
		want       []string
	}{
		{"kafka-topics.sh", "--del", []string{"--delete", "--delete-config"}},
		{"/opt/kafka/bin/kafka-topics", "--list", []string{"--list"}},
		{"kafka-acls", "--allow-p", []string{"--allow-principal"}},
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

package tools

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A golden file contains what the original tools print. Its first line says how it was recorded. Each command line
// begins with "$ ", followed by the lines of standard output ("1> "), those of standard error ("2> ") and the exit code
// ("= ").

// goldenRun is one command with its output.
type goldenRun struct {
	line           string
	stdout, stderr string
	code           string
}

func readGolden(t *testing.T, file string) []goldenRun {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var runs []goldenRun
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		rest := text[min(3, len(text)):]
		switch {
		case strings.HasPrefix(text, "#"):
		case strings.HasPrefix(text, "$ "):
			runs = append(runs, goldenRun{line: text[2:]})
		case strings.HasPrefix(text, "1> "):
			runs[len(runs)-1].stdout += rest + "\n"
		case strings.HasPrefix(text, "2> "):
			runs[len(runs)-1].stderr += rest + "\n"
		case strings.HasPrefix(text, "= "):
			runs[len(runs)-1].code = text[2:]
		default:
			t.Fatalf("%s: %q is not a line of a golden file", file, text)
		}
	}
	return runs
}

// output is what a tool printed, and its exit code.
type output struct {
	stdout, stderr string
	code           int
}

// runTool runs a tool with the given standard input.
func runTool(t *testing.T, ctx context.Context, stdin, name string, args ...string) output {
	t.Helper()
	for _, tool := range All() {
		if tool.Name != name {
			continue
		}
		var stdout, stderr bytes.Buffer
		code := tool.Run(ctx, &Env{Args: args, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr})
		return output{stdout.String(), stderr.String(), code}
	}
	t.Fatalf("there is no tool %s", name)
	return output{}
}

func diff(t *testing.T, what, want, got string) {
	t.Helper()
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s: (-recorded +printed)\n%s", what, d)
	}
}

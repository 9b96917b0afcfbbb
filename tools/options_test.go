package tools

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

func newTestOptions() *options {
	o := newOptions("test", "tests.")
	o.String("one", "", "`text`")
	o.StringArray("many", nil, "`text`")
	o.StringArray("list", nil, "`text`")
	o.variadic["list"] = true
	o.String("maybe", "", "`text`")
	o.valueOptional("maybe", "missing")
	o.Int64("number", 0, "`number`")
	o.Bool("flag", false, "flag")
	o.StringP("short", "s", "", "`text`")
	return o
}

func TestOptionsTakeTheOriginalsSpellings(t *testing.T) {
	for _, test := range []struct {
		name, args string
		want       map[string]string
		rest       string
		err        string
	}{
		{name: "value behind", args: "--one a --flag", want: map[string]string{"one": "a", "flag": "true"}},
		{name: "value with equals", args: "--one=a=b", want: map[string]string{"one": "a=b"}},
		{name: "one dash", args: "-one a -flag", want: map[string]string{"one": "a", "flag": "true"}},
		{name: "value that looks like an option", args: "--number -2", want: map[string]string{"number": "-2"}},
		{name: "repeated", args: "--many a --many=b", want: map[string]string{"many": "[a,b]"}},
		{name: "several values", args: "--list a b --flag", want: map[string]string{"list": "[a,b]", "flag": "true"}},
		{name: "optional value", args: "--maybe x", want: map[string]string{"maybe": "x"}},
		{name: "optional value left out", args: "--maybe --flag", want: map[string]string{"maybe": "missing", "flag": "true"}},
		{name: "optional value left out at the end", args: "--flag --maybe", want: map[string]string{"maybe": "missing"}},
		{name: "short", args: "-s x", want: map[string]string{"short": "x"}},
		{name: "arguments between", args: "a --flag b -- --one", want: map[string]string{"flag": "true"}, rest: "a b --one"},
		{name: "unknown", args: "--on a", err: "on is not a recognized option"},
		{name: "missing value", args: "--one", err: "option one requires an argument"},
		{name: "twice", args: "--one a --one b", err: "multiple arguments for option one"},
		{name: "flag with a value", args: "--flag=true", want: map[string]string{"flag": "true"}},
		{name: "flag that is not meant", args: "--flag=false", err: "option flag has no argument"},
		{name: "not a number", args: "--number x", err: "cannot parse argument 'x' of option number"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newTestOptions()
			err := o.read(strings.Fields(test.args))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got := o.Lookup(name).Value.String(); got != want || !o.has(name) {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if got := strings.Join(o.args, " "); got != test.rest {
				t.Errorf("arguments %q, want %q", got, test.rest)
			}
		})
	}
}

// TestHelpVersionAndNothing: exit codes and streams are those of the original tools (where help is an error, except
// that some show it when called without arguments).
func TestHelpVersionAndNothing(t *testing.T) {
	helpful := []string{"kafka-producer-perf-test", "kafka-verifiable-consumer", "kafka-verifiable-producer"}
	for _, tool := range All() {
		for _, test := range []struct {
			args   []string
			code   int
			stdout string
		}{{nil, 1, ""}, {[]string{"--help"}, 1, ""}, {[]string{"--version"}, 0, Version + "\n"}} {
			var stdout, stderr bytes.Buffer
			want := test.code
			if test.args == nil && slices.Contains(helpful, tool.Name) {
				want = 0
			}
			if tool.Name == "kafka-doctor" && test.stdout == "" { // it has no original, and its exit code 1 means trouble in the cluster
				want = map[bool]int{true: 2, false: 0}[test.args == nil]
			}
			code := tool.Run(t.Context(), &Env{Args: test.args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
			if code != want {
				t.Errorf("%s %v: exit code %d, want %d", tool.Name, test.args, code, want)
			}
			if test.stdout != "" && stdout.String() != test.stdout {
				t.Errorf("%s %v prints %q", tool.Name, test.args, stdout.String())
			}
			if test.stdout == "" && stdout.Len()+stderr.Len() == 0 {
				t.Errorf("%s %v prints nothing", tool.Name, test.args)
			}
		}
	}
}

// TestHelpPages: a page names the arguments that a tool needs beside its options, and prints no empty default values.
func TestHelpPages(t *testing.T) {
	operands := map[string]string{
		"kafka-doctor": "QUESTION [TOPIC|GROUP|FILE] OPTION ...", "kafka-cluster": "COMMAND OPTION ...",
		"kafka-features": "COMMAND OPTION ...", "kafka-transactions": "COMMAND OPTION ...",
		"kafka-e2e-latency": "BROKER_LIST TOPIC NUM_MESSAGES PRODUCER_ACKS MESSAGE_SIZE_BYTES [PROPERTIES_FILE] OPTION ...",
		"kafka-topics":      "OPTION ...",
	}
	for _, tool := range All() {
		var stderr bytes.Buffer
		tool.Run(t.Context(), &Env{Args: []string{"--help"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &stderr})
		page := strings.Join(strings.Fields(stderr.String()), " ")
		if want, ok := operands[tool.Name]; ok && !strings.Contains(page, "SYNOPSIS "+tool.Name+" "+want) {
			t.Errorf("%s: the synopsis is not %q:\n%s", tool.Name, want, stderr.String())
		}
		if strings.Contains(page, "( ") {
			t.Errorf("%s: a parenthesis begins with a blank:\n%s", tool.Name, stderr.String())
		}
	}
}

package tools

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestHelpIsAPage(t *testing.T) {
	out := runTool(t, t.Context(), "", "kafka-topics", "--help")
	for _, want := range []string{"NAME\n    kafka-topics - ", "\nOPTIONS\n", "\n    --bootstrap-server host:port,...\n        ", "\nEXIT STATUS\n"} {
		if !strings.Contains(out.stderr, want) {
			t.Errorf("help lacks %q:\n%s", want, out.stderr)
		}
	}
	for line := range strings.Lines(out.stderr) {
		if len(line) > helpWidth+1 {
			t.Errorf("a line of %d characters: %q", len(line), line)
		}
	}
}

// TestHelpTellsWhatIsRequired: the help says which options are required, also if one can take the place of another.
func TestHelpTellsWhatIsRequired(t *testing.T) {
	for tool, want := range map[string]string{"kafka-acls": "(required without --authorizer-properties)", "kafka-configs": "(required without --zookeeper)",
		"zookeeper-security-migration": "unsecure opens them (required)", "kafka-doctor": "(required, except by broker,"} {
		if out := runTool(t, t.Context(), "", tool, "--help"); !strings.Contains(strings.Join(strings.Fields(out.stderr), " "), want) {
			t.Errorf("%s --help lacks %q: %s", tool, want, out.stderr)
		}
	}
}

func TestEveryToolTellsItsOptions(t *testing.T) {
	for _, tool := range All() {
		if options := tool.Options(); len(options) == 0 && tool.Name != "zookeeper-shell" {
			t.Errorf("%s lists no options", tool.Name)
		}
	}
}

// TestOptionsAreThoseOfTheOriginals: our tools have all options that the original ones list, and may have more.
func TestOptionsAreThoseOfTheOriginals(t *testing.T) {
	data, err := os.ReadFile("testdata/options.tsv")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]Tool)
	for _, tool := range All() {
		known[tool.Name] = tool
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		name, help, bare, options := fields[0], fields[1], fields[2], fields[3]
		tool, ok := known[name]
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		if code := strconv.Itoa(runTool(t, t.Context(), "", name, "--help").code); code != help {
			t.Errorf("%s --help: exit code %s, the original's is %s", name, code, help)
		}
		if code := strconv.Itoa(runTool(t, t.Context(), "", name).code); code != bare {
			t.Errorf("%s: exit code %s, the original's is %s", name, code, bare)
		}
		if out := runTool(t, t.Context(), "", name, "--version"); out.code != 0 || out.stdout != Version+"\n" {
			t.Errorf("%s --version: exit code %d, printed %q", name, out.code, out.stdout)
		}
		have := tool.Options()
		for option := range strings.SplitSeq(options, ",") {
			if option != "" && !slices.ContainsFunc(have, func(o Option) bool { return o.Name == option }) {
				t.Errorf("%s has no option --%s", name, option)
			}
		}
	}
}

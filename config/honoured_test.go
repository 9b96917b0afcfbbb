package config

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNotHonoured compares the list of settings without effect with the agreed one, so that it can only change
// deliberately.
func TestNotHonoured(t *testing.T) {
	var want []string
	for _, row := range golden(t, "not_honoured.txt") {
		want = append(want, row[0])
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(notHonoured))); diff != "" {
		t.Error(diff)
	}
	for name := range notHonoured {
		if brokerSchema.byName[name] == nil {
			t.Errorf("%s is not a key", name)
		}
	}
}

// TestNotHonouredIsExplained: docs/compat.md has a reason for each setting without effect, and for no other.
func TestNotHonouredIsExplained(t *testing.T) {
	data, err := os.ReadFile("../docs/compat.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(data), "| keys without effect | |")
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok {
		t.Fatal("docs/compat.md has no table of keys without effect")
	}
	explained := make(map[string]bool) // by pattern: whether it was used
	for line := range strings.Lines(table) {
		keys, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(keys, -1) {
			explained[m[1]] = false
		}
	}
	for name := range notHonoured {
		found := false
		for pattern := range explained {
			if matches, _ := path.Match(pattern, name); matches {
				explained[pattern], found = true, true
			}
		}
		if !found {
			t.Errorf("%s: docs/compat.md does not say why it has no effect", name)
		}
	}
	for pattern, used := range explained {
		if !used {
			t.Errorf("docs/compat.md says that %s has no effect", pattern)
		}
	}
}

func TestNotHonouredOfABroker(t *testing.T) {
	b := mustParse(t, "num.io.threads=9", "listener.name.plaintext.ssl.keystore.location=/x", "listener.name.plaintext.ssl.provider=BC", "num.partitions=2", "foo=1")
	if diff := cmp.Diff([]string{"listener.name.plaintext.ssl.provider", "num.io.threads"}, b.NotHonoured()); diff != "" {
		t.Error(diff)
	}
}

// TestEveryTypedSettingIsUsed finds fields that are filled but never read: such settings would silently have no effect.
func TestEveryTypedSettingIsUsed(t *testing.T) {
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "build" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, settings := range []any{Broker{}, Topic{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(settings)) {
			if !field.IsExported() {
				continue
			}
			asked := regexp.MustCompile(`\.` + field.Name + `\b(\s*(,[^=\n]*)?=[^=])?`)
			used := slices.ContainsFunc(asked.FindAllStringSubmatch(all.String(), -1), func(m []string) bool { return m[1] == "" })
			if !used {
				t.Errorf("%s.%s is not used", reflect.TypeOf(settings).Name(), field.Name)
			}
		}
	}
}

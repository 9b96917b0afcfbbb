package edition

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOver(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	at := time.Unix(1_700_000_000, 0)
	write := func(name, text string, at time.Time) {
		t.Helper()
		err := os.WriteFile(name, []byte(text), 0o600)
		if err == nil {
			err = os.Chtimes(name, at, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, e Edition, over bool) {
		t.Helper()
		if e.Outdated() != over {
			t.Errorf("%s: Outdated is %v", what, !over)
		}
	}
	want("of no file", Edition{}, false)
	missing := Of(file)
	want("of a file that is missing", missing, false)
	write(file, "one", at)
	want("of a file that was missing", missing, true)
	e := Of(file)
	want("of a file that stays", e, false)
	write(file, "two", at.Add(time.Second))
	want("at another time", e, true)
	write(file, "three", at)
	want("of another size", e, true)
	write(file, "one", at)
	want("as it was", e, false)
	write(other, "two", at)
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	want("of another file in its place", e, true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	want("of a file that is gone", e, false)
}

package javaprops

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// TestParse compares with what java.util.Properties of Java 17 reads from the same bytes.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       map[string]string
	}{
		{"nothing", "", map[string]string{}},
		{"separators", "a=1\nb:2\nc 3\nd = 4\ne\t:\f5\nf==6\ng  h\n", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "=6", "g": "h"}},
		{"no value", "a\nb=\nc :\n", map[string]string{"a": "", "b": "", "c": ""}},
		{"no key", "=1\n", map[string]string{"": "1"}},
		{"twice", "a=1\nb=2\na=3\n", map[string]string{"a": "3", "b": "2"}},
		{"blanks around", " \t a=1 \t\n", map[string]string{"a": "1 \t"}},
		{"comments", "#a=1\n ! b=2\\\nc=3 # no comment\n", map[string]string{"c": "3 # no comment"}},
		{"line ends", "a=1\r\nb=2\rc=3\n\r\r\n\nd=4", map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}},
		{"continued", "a=1,\\\n  2,\\\n\t3\nb=4\n", map[string]string{"a": "1,2,3", "b": "4"}},
		{"continued, with line ends of Windows", "a=1,\\\r\n  2,\\\r\n\t3\r\nb=4\r\n", map[string]string{"a": "1,2,3", "b": "4"}},
		{"continued, with line ends of old", "a=1,\\\r  2\rb=4\r", map[string]string{"a": "1,2", "b": "4"}},
		{"continued in the key", "a\\\n  b\\\r\n  c=1\n", map[string]string{"abc": "1"}},
		{"continued by an empty line", "a=1\\\n\nb=2\n", map[string]string{"a": "1", "b": "2"}},
		{"continued by what looks like a comment", "a=1\\\n#2\n", map[string]string{"a": "1#2"}},
		{"continued from nothing", "\\\n\\\n#a=1\n\\\nb=2\n", map[string]string{"b": "2"}},
		{"continued at the end", "a=1 \\\n", map[string]string{"a": "1 "}},
		{"a backslash at the end", "a=1\nb=2\\", map[string]string{"a": "1", "b": "2"}},
		{"an even number of backslashes", "a=1\\\\\nb=2\\\\\\\n3", map[string]string{"a": `1\`, "b": `2\3`}},
		{"escapes", `a\ b\=\:c=\t\n\r\f\z\"\\`, map[string]string{"a b=:c": "\t\n\r\fz\"\\"}},
		{"characters", `a=\u00e9\u20AC\ud83d\ude00` + "\xe9", map[string]string{"a": "é€😀é"}},
		{"half a character", `a=\ud83d.`, map[string]string{"a": "\ufffd."}},
		{"what others expand", "a=${b} $c %d%\n", map[string]string{"a": "${b} $c %d%"}},
	} {
		got, err := Parse([]byte(c.file))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestParseUTF8(t *testing.T) {
	got, err := ParseUTF8([]byte("é=\\u20ac€\\€\\\\€😀\n#é\nb=\\\né\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"é": `€€€\€😀`, "b": "é"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseNamesTheLine(t *testing.T) {
	for _, file := range []string{
		"a=1\n\n#\r\nb=secret\\u12", "a=1\\\n2\\\n3\nsecret\\u12x4=1", "\n\n\n\\u=\n", "a=1\r\n\r\n\r\nb=\\\n\\u+123\n",
	} {
		_, err := Parse([]byte(file))
		if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// FuzzParse: what is written in the simplest form is read unchanged, whatever the line endings.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a\\\n  b : c\\u00e9\\t\n#x\n!y\n\\ud83d\\ude00=\\"))
	f.Add([]byte("=\\\r\n\\\r=\\\n\n:"))
	f.Fuzz(func(t *testing.T, data []byte) {
		props, err := Parse(data)
		if err != nil {
			return
		}
		var plain strings.Builder
		for key, value := range props {
			if len(key)+len(value) > 3*len(data) {
				t.Fatalf("%d bytes of %d", len(key)+len(value), len(data))
			}
			plain.WriteString(escaped(key) + "\\\r\n \t=" + escaped(value) + "\r")
		}
		again, err := Parse([]byte(plain.String()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(props, again); diff != "" {
			t.Error(diff)
		}
	})
}

func escaped(s string) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&out, `\u%04x`, unit)
	}
	return out.String()
}

package tools

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

func scanAll(t testing.TB, in io.Reader, buffer int) []string {
	s := newLineScanner(in)
	s.buf = make([]byte, buffer)
	var lines []string
	for {
		line, err := s.next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
}

func TestLineScanner(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"no end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"all ends", "a\r\nb\rc\nd\r", []string{"a", "b", "c", "d"}},
		{"two returns", "a\r\r\nb", []string{"a", "", "b"}},
		{"longer than the buffer", long + "\n" + long, []string{long, long}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, buffer := range []int{1, 2, 3, 1 << 10} {
				if d := cmp.Diff(test.want, scanAll(t, iotest.OneByteReader(strings.NewReader(test.in)), buffer)); d != "" {
					t.Errorf("byte by byte, buffer %d: %s", buffer, d)
				}
				if d := cmp.Diff(test.want, scanAll(t, strings.NewReader(test.in), buffer)); d != "" {
					t.Errorf("buffer %d: %s", buffer, d)
				}
			}
		})
	}
	failing := newLineScanner(iotest.ErrReader(errors.New("broken")))
	if _, err := failing.next(); err == nil || err.Error() != "broken" {
		t.Errorf("a failing stream gives %v", err)
	}
}

func FuzzLineScanner(f *testing.F) {
	f.Add([]byte("a\r\nb\n\rc"), 3)
	f.Fuzz(func(t *testing.T, in []byte, buffer int) {
		if buffer < 1 || buffer > 1<<16 {
			return
		}
		got := scanAll(t, bytes.NewReader(in), buffer)
		plain := strings.ReplaceAll(strings.ReplaceAll(string(in), "\r\n", "\n"), "\r", "\n")
		var want []string
		if plain != "" {
			want = strings.Split(strings.TrimSuffix(plain, "\n"), "\n")
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestLineFormat(t *testing.T) {
	null := []byte(nil)
	for _, test := range []struct {
		name, line string
		props      map[string]string
		want       kgo.Record
		err        string
	}{
		{name: "value", line: "a\tb", want: kgo.Record{Value: []byte("a\tb")}},
		{name: "empty", line: "", want: kgo.Record{Value: []byte{}}},
		{name: "key", line: "a\tb\tc", props: map[string]string{"parse.key": "true"}, want: kgo.Record{Key: []byte("a"), Value: []byte("b\tc")}},
		{name: "separator", line: "a::b", props: map[string]string{"parse.key": "true", "key.separator": "::"}, want: kgo.Record{Key: []byte("a"), Value: []byte("b")}},
		{name: "no key", line: "ab", props: map[string]string{"parse.key": "true"}, err: "no key separator found on line number 7: 'ab'"},
		{name: "no key, tolerated", line: "ab", props: map[string]string{"parse.key": "true", "ignore.error": "true"}, want: kgo.Record{Value: []byte("ab")}},
		{name: "headers", line: "a:1,b:2\tv", props: map[string]string{"parse.headers": "true"},
			want: kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}}},
		{name: "all", line: "a:1\tk\tv", props: map[string]string{"parse.headers": "true", "parse.key": "true"},
			want: kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}}},
		{name: "bad header", line: "a\tv", props: map[string]string{"parse.headers": "true"}, err: "no header key separator found in pair 'a'"},
		{name: "bad header, tolerated", line: "a\tv", props: map[string]string{"parse.headers": "true", "ignore.error": "true"},
			want: kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a"}}}},
		{name: "null", line: "-\t-", props: map[string]string{"parse.key": "true", "null.marker": "-"}, want: kgo.Record{Key: null, Value: null}},
		{name: "null headers", line: "-\tv", props: map[string]string{"parse.headers": "true", "null.marker": "-"}, want: kgo.Record{Value: []byte("v")}},
		{name: "null header key", line: "-:1\tv", props: map[string]string{"parse.headers": "true", "null.marker": "-"}, err: "must not be equal to the null marker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := newLineFormat(test.props)
			if err != nil {
				t.Fatal(err)
			}
			var got kgo.Record
			err = f.record([]byte(test.line), 7, &got)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
			if !same(test.want.Key, got.Key) || !same(test.want.Value, got.Value) || cmp.Diff(test.want.Headers, got.Headers) != "" {
				t.Errorf("record %q %q %v, want %q %q %v", got.Key, got.Value, got.Headers, test.want.Key, test.want.Value, test.want.Headers)
			}
		})
	}
	for _, props := range []map[string]string{{"key.separator": ""}, {"parse.headers": "true", "headers.separator": ":"}, {"parse.headers": "true", "null.marker": ","}} {
		if _, err := newLineFormat(props); err == nil {
			t.Errorf("%v is accepted", props)
		}
	}
}

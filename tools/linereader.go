package tools

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lineScanner splits a stream into lines of any length. A line ends with \n, \r or \r\n, or at the end of the stream,
// as in the original (java.io.BufferedReader).
type lineScanner struct {
	in   io.Reader
	buf  []byte // buf[pos:end] has been read but not returned yet
	pos  int
	end  int
	err  error
	skip bool // a \n at this position belongs to the preceding \r
}

const scanBuffer = 1 << 20

func newLineScanner(in io.Reader) *lineScanner {
	return &lineScanner{in: in, buf: make([]byte, scanBuffer)}
}

// next returns the next line, valid until the next call, or io.EOF.
func (s *lineScanner) next() ([]byte, error) {
	searched := 0
	for {
		if s.skip && s.pos < s.end {
			if s.buf[s.pos] == '\n' {
				s.pos++
			}
			s.skip = false
		}
		if i := lineEnd(s.buf[s.pos+searched : s.end]); i >= 0 && !s.skip {
			line := s.buf[s.pos : s.pos+searched+i]
			s.pos += searched + i + 1
			s.skip = s.buf[s.pos-1] == '\r'
			return line, nil
		}
		searched = s.end - s.pos
		if s.err != nil {
			line := s.buf[s.pos:s.end]
			s.pos = s.end
			if len(line) == 0 || s.err != io.EOF {
				return nil, s.err
			}
			return line, nil
		}
		s.fill()
	}
}

func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n >= 0 {
		b = b[:n]
	}
	if r := bytes.IndexByte(b, '\r'); r >= 0 {
		return r
	}
	return n
}

func (s *lineScanner) fill() {
	if s.pos > 0 {
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.pos = 0
	}
	if s.end == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	n, err := s.in.Read(s.buf[s.end:])
	s.end += n
	s.err = err
}

// lineFormat says how a line becomes a record: the properties of the console producer's line reader.
type lineFormat struct {
	parseKey, parseHeaders, ignoreError          bool
	keySeparator                                 string
	headersDelimiter, headersSeparator, headerKV string
	nullMarker                                   *string
}

// newLineFormat parses the properties of the line reader.
func newLineFormat(props map[string]string) (*lineFormat, error) {
	f := &lineFormat{keySeparator: "\t", headersDelimiter: "\t", headersSeparator: ",", headerKV: ":"}
	for name, v := range props {
		switch name {
		case "parse.key":
			f.parseKey = isTrue(v)
		case "parse.headers":
			f.parseHeaders = isTrue(v)
		case "ignore.error":
			f.ignoreError = isTrue(v)
		case "key.separator":
			f.keySeparator = v
		case "headers.delimiter":
			f.headersDelimiter = v
		case "headers.separator":
			f.headersSeparator = v
		case "headers.key.separator":
			f.headerKV = v
		case "null.marker":
			f.nullMarker = &v
		}
	}
	for _, s := range []struct{ name, value string }{{"key.separator", f.keySeparator}, {"headers.delimiter", f.headersDelimiter},
		{"headers.separator", f.headersSeparator}, {"headers.key.separator", f.headerKV}} {
		if s.value == "" {
			return nil, fmt.Errorf("%s must not be empty", s.name)
		}
	}
	return f, f.checkSeparators()
}

// checkSeparators refuses separators that could not be distinguished.
func (f *lineFormat) checkSeparators() error {
	if !f.parseHeaders {
		return nil
	}
	for _, pair := range [][2]string{{f.headersDelimiter, f.headersSeparator}, {f.headersDelimiter, f.headerKV}, {f.headersSeparator, f.headerKV}} {
		if pair[0] == pair[1] {
			return fmt.Errorf("headers.delimiter, headers.separator and headers.key.separator must differ, two are %q", pair[0])
		}
	}
	if m := f.nullMarker; m != nil && (*m == f.headersDelimiter || *m == f.headersSeparator || *m == f.headerKV || *m == f.keySeparator) {
		return fmt.Errorf("null.marker and a separator must differ, both are %q", *m)
	}
	return nil
}

// record fills r from a line, whose memory it shares.
func (f *lineFormat) record(line []byte, number int64, r *kgo.Record) error {
	if f.parseHeaders {
		headers, rest, err := f.split(line, f.headersDelimiter, number, "headers delimiter")
		if err != nil {
			return err
		}
		line = rest
		if r.Headers, err = f.headers(headers, number); err != nil {
			return err
		}
	}
	if f.parseKey {
		key, rest, err := f.split(line, f.keySeparator, number, "key separator")
		if err != nil {
			return err
		}
		line = rest
		r.Key = f.nullable(key)
	}
	r.Value = f.nullable(line)
	return nil
}

// split cuts off what precedes a separator. If there is none, the line is an error, or all of it is what follows.
func (f *lineFormat) split(line []byte, separator string, number int64, what string) (before, after []byte, err error) {
	before, after, ok := bytes.Cut(line, []byte(separator))
	switch {
	case ok:
		return before, after, nil
	case f.ignoreError:
		return nil, line, nil
	}
	return nil, nil, fmt.Errorf("no %s found on line number %d: '%s'", what, number, excerpt(line))
}

// excerpt shortens a line for a one-line error.
func excerpt(line []byte) string {
	const most = 200
	if len(line) > most {
		return string(line[:most]) + "..."
	}
	return string(line)
}

func (f *lineFormat) headers(text []byte, number int64) ([]kgo.RecordHeader, error) {
	if text == nil || f.nullMarker != nil && string(text) == *f.nullMarker {
		return nil, nil
	}
	var all []kgo.RecordHeader
	for pair := range strings.SplitSeq(string(text), f.headersSeparator) {
		key, value, ok := strings.Cut(pair, f.headerKV)
		switch {
		case !ok && !f.ignoreError:
			return nil, fmt.Errorf("no header key separator found in pair '%s' on line number %d", pair, number)
		case !ok:
			all = append(all, kgo.RecordHeader{Key: pair})
			continue
		case f.nullMarker != nil && key == *f.nullMarker:
			return nil, fmt.Errorf("header keys must not be equal to the null marker '%s', on line number %d", key, number)
		}
		all = append(all, kgo.RecordHeader{Key: key, Value: f.nullable([]byte(value))})
	}
	return all, nil
}

// nullable returns nil for the null marker.
func (f *lineFormat) nullable(b []byte) []byte {
	switch {
	case b == nil, f.nullMarker != nil && string(b) == *f.nullMarker:
		return nil
	case len(b) == 0:
		return []byte{} // empty is not null
	}
	return b
}

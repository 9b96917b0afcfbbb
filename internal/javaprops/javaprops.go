// Package javaprops reads properties files as Java's java.util.Properties does: comments, continued lines, escapes, lines that
// end as on any system, any of "=", ":" and blank between key and value. Of a key that is there twice the last value counts.
// ${...} is left as it is.
//
// A line (a natural line, to Java) ends with \n, \r or \r\n. One that ends with an odd number of backslashes goes on in the next,
// whose leading blanks don't count; the two are one logical line.
package javaprops

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

const blanks = " \t\f"

// Parse reads a file's content. Its bytes are of ISO-8859-1; other characters are escaped: \u20ac, or two of these for one beyond
// U+FFFF. The error names the line, counted from 1, and nothing of what it holds, which may be secret.
func Parse(data []byte) (map[string]string, error) {
	props := make(map[string]string)
	lines := lines{rest: data}
	for {
		text, number, ok := lines.logical()
		if !ok {
			return props, nil
		}
		rawKey, rawValue := split(text)
		key, err := unescape(rawKey)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		value, err := unescape(rawValue)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		props[key] = value
	}
}

// lines takes a file apart.
type lines struct {
	rest []byte
	read int // natural lines so far
}

// logical is the next logical line that holds something and is no comment, without what continues it, and the number of its first
// natural line. ok is false at the end.
func (l *lines) logical() (text []byte, number int, ok bool) {
	for len(l.rest) > 0 {
		line := l.natural()
		if len(text) == 0 {
			if len(line) == 0 || line[0] == '#' || line[0] == '!' {
				continue
			}
			number = l.read
		}
		if !continued(line) {
			return append(text, line...), number, true
		}
		text = append(text, line[:len(line)-1]...)
	}
	return text, number, len(text) > 0
}

// natural is the next natural line, without its end and leading blanks.
func (l *lines) natural() []byte {
	l.read++
	end := bytes.IndexAny(l.rest, "\r\n")
	if end < 0 {
		end = len(l.rest)
	}
	line, rest := l.rest[:end], l.rest[end:]
	if bytes.HasPrefix(rest, []byte("\r\n")) {
		rest = rest[1:]
	}
	l.rest = rest[min(1, len(rest)):]
	return bytes.TrimLeft(line, blanks)
}

// continued tells whether a natural line goes on in the next one.
func continued(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

// split finds a logical line's key and value. Both are still escaped.
func split(text []byte) (key, value []byte) {
	end := 0
	for end < len(text) && !strings.ContainsRune(blanks+"=:", rune(text[end])) {
		if text[end] == '\\' {
			end++ // what is escaped separates nothing
		}
		end++
	}
	end = min(end, len(text))
	key, value = text[:end], bytes.TrimLeft(text[end:], blanks)
	if len(value) > 0 && (value[0] == '=' || value[0] == ':') {
		value = bytes.TrimLeft(value[1:], blanks)
	}
	return key, value
}

// unescape makes characters of a key or a value. A character of Java's is a unit of UTF-16.
func unescape(text []byte) (string, error) {
	units := make([]uint16, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i == len(text)-1 {
			units = append(units, uint16(text[i]))
			continue
		}
		i++
		switch text[i] {
		case 'u':
			digits := text[i+1 : min(i+5, len(text))]
			unit, err := strconv.ParseUint(string(digits), 16, 16)
			if err != nil || len(digits) < 4 {
				return "", errors.New(`\u is not followed by four hexadecimal digits`)
			}
			units = append(units, uint16(unit))
			i += 4
		case 't':
			units = append(units, '\t')
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 'f':
			units = append(units, '\f')
		default:
			units = append(units, uint16(text[i]))
		}
	}
	return string(utf16.Decode(units)), nil
}

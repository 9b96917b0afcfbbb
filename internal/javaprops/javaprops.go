// Package javaprops reads properties files as Java's java.util.Properties does: comments, continued lines, escapes, the
// line ends of any system, and any of "=", ":" and white space between key and value. If a key occurs twice, the last
// value counts. ${...} is not expanded.
//
// A line (a natural line, in Java's terms) ends with \n, \r or \r\n. A line that ends with an odd number of backslashes
// continues in the next one, whose leading white space is skipped; together they are one logical line.
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

// Parse parses the content of a file, in ISO-8859-1. Other characters are escaped: \u20ac, or two such escapes for a
// character beyond U+FFFF. An error names the line, counted from 1, but none of its content, which may be secret.
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

// ParseUTF8 is Parse for a file in UTF-8.
func ParseUTF8(data []byte) (map[string]string, error) {
	escaped := make([]byte, 0, len(data))
	backslashes := 0 // directly before
	for _, r := range string(data) {
		switch {
		case r == '\\':
			backslashes++
			escaped = append(escaped, '\\')
			continue
		case r < 0x80:
			escaped = append(escaped, byte(r))
		default:
			if backslashes%2 == 1 { // it escapes a character that needs no escape
				escaped = escaped[:len(escaped)-1]
			}
			for _, unit := range utf16.AppendRune(nil, r) {
				escaped = fmt.Appendf(escaped, `\u%04x`, unit)
			}
		}
		backslashes = 0
	}
	return Parse(escaped)
}

// lines splits a file into logical lines.
type lines struct {
	rest []byte
	read int // natural lines so far
}

// logical returns the next logical line that is neither blank nor a comment, without continuation marks, and the number
// of its first natural line. ok is false at the end.
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

// natural returns the next natural line, without its line end and leading white space.
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

// continued reports whether a natural line continues in the next one.
func continued(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

// split separates the key and the value of a logical line. Both are still escaped.
func split(text []byte) (key, value []byte) {
	end := 0
	for end < len(text) && !strings.ContainsRune(blanks+"=:", rune(text[end])) {
		if text[end] == '\\' {
			end++ // an escaped character does not separate
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

// unescape decodes the characters of a key or a value. A character in Java is a UTF-16 code unit.
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

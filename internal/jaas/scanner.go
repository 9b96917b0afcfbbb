package jaas

import (
	"errors"
	"strings"
)

type kind uint8

const (
	end kind = iota
	word
	quoted
	mark // one of marks
)

const (
	marks = "=;{}"
	blank = " \t\r\n\f"
)

type token struct {
	kind kind
	text string
}

// scanner splits a text into tokens. A copy of it remembers its position.
type scanner struct{ rest string }

func (s *scanner) next() (token, error) {
	if err := s.skip(); err != nil {
		return token{}, err
	}
	switch {
	case s.rest == "":
		return token{}, nil
	case strings.IndexByte(marks, s.rest[0]) >= 0:
		return token{mark, s.take(1)}, nil
	case s.rest[0] == '"' || s.rest[0] == '\'':
		return s.quoted()
	}
	n := strings.IndexAny(s.rest, blank+marks+`"'`)
	if n < 0 {
		n = len(s.rest)
	}
	return token{word, s.take(n)}, nil
}

func (s *scanner) take(n int) string {
	text := s.rest[:n]
	s.rest = s.rest[n:]
	return text
}

// skip drops white space and comments.
func (s *scanner) skip() error {
	for {
		s.rest = strings.TrimLeft(s.rest, blank)
		switch {
		case strings.HasPrefix(s.rest, "//"):
			_, s.rest, _ = strings.Cut(s.rest, "\n")
		case strings.HasPrefix(s.rest, "/*"):
			var closed bool
			if _, s.rest, closed = strings.Cut(s.rest[2:], "*/"); !closed {
				return errors.New("a comment is not closed")
			}
		default:
			return nil
		}
	}
}

// escapes are those of Java's tokenizer, without its octal numbers. Any other character stands for itself.
var escapes = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\f`, "\f")

func (s *scanner) quoted() (token, error) {
	quote := s.rest[0]
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == quote:
			s.rest = s.rest[i+1:]
			return token{quoted, b.String()}, nil
		case c == '\n':
			return token{}, errors.New("a quoted value is not closed on its line")
		case c == '\\' && i+1 < len(s.rest):
			i++
			if text := escapes.Replace(s.rest[i-1 : i+1]); len(text) == 1 {
				b.WriteString(text)
			} else {
				b.WriteByte(s.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return token{}, errors.New("a quoted value is not closed")
}

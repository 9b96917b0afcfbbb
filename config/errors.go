package config

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Error says what is wrong with a setting.
type Error struct {
	Key    string
	Value  string // as given; [hidden] for passwords; empty if irrelevant
	Reason string
	Code   *kerr.Error // for the response to a request; nil if a file was read
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("config: ")
	b.WriteString(oneLine(e.Key))
	if e.Value != "" {
		b.WriteString("=" + oneLine(e.Value))
	}
	if e.Key != "" {
		b.WriteString(": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// oneLine quotes text that would not stay on one line.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Unwrap returns the protocol code.
func (e *Error) Unwrap() error {
	if e.Code == nil {
		return nil
	}
	return e.Code
}

// with adds a protocol code to err, unless it has one.
func with(code *kerr.Error, err error) error {
	e, ok := err.(*Error)
	if !ok || e.Code != nil {
		return err
	}
	coded := *e
	coded.Code = code
	return &coded
}

// Package testlog provides tests with loggers.
package testlog

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"
)

// Quiet returns a logger whose lines go nowhere, for what may still log when its test has ended.
func Quiet() *logrus.Entry { return to(io.Discard) }

// To returns a logger whose lines are shown if the test fails. Nothing may log after its end.
func To(t testing.TB) *logrus.Entry { return to(t.Output()) }

func to(w io.Writer) *logrus.Entry {
	log := logrus.New()
	log.SetOutput(w)
	return logrus.NewEntry(log)
}

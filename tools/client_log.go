package tools

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog shows the client library's warnings, each kind at most once in a while.
type clientLog struct {
	out io.Writer
	mu  struct {
		sync.Mutex
		shown map[string]time.Time // by message; these are constants of the library
		held  []string             // about a failed connection, until it is known whether there is a better explanation
	}
}

// repeatAfter is how long a warning is suppressed after it was shown.
const repeatAfter = 5 * time.Second

// Level implements kgo.Logger.
func (l *clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l *clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if toldByError(msg, keyvals) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, ok := l.mu.shown[msg]; ok && now.Sub(last) < repeatAfter {
		return
	}
	if l.mu.shown == nil {
		l.mu.shown = make(map[string]time.Time)
	}
	l.mu.shown[msg] = now
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", level, msg)
	for i := 0; i+1 < len(keyvals); i += 2 {
		fmt.Fprintf(&b, " %v=%v", keyvals[i], keyvals[i+1])
	}
	b.WriteByte('\n')
	if isGuess(msg) {
		l.mu.held = append(l.mu.held, b.String())
		return
	}
	_, _ = io.WriteString(l.out, b.String())
}

// release shows what was held back.
func (l *clientLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.mu.held {
		_, _ = io.WriteString(l.out, line)
	}
	l.mu.held = nil
}

// forget drops what was held back: there is a better explanation.
func (l *clientLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.held = nil
}

// isGuess reports whether a warning says that a new connection has failed, and may guess the reason. The hook
// OnBrokerConnect, which is called after each of them, knows more.
func isGuess(msg string) bool {
	for _, start := range []string{"unable to open connection to broker", "read from broker received EOF during api versions", "unable to request api versions",
		"unable to initialize sasl"} {
		if strings.HasPrefix(msg, start) {
			return true
		}
	}
	return false
}

package testwait

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test whose failure is recorded.
type recorder struct {
	testing.TB
	failure string
}

func (*recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// outcome runs a wait and returns the failure of its test, if any.
func outcome(wait func(t testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait(r)
	}()
	<-done
	return r.failure
}

// TestUntil: a wait ends when the check succeeds, and a check that never does fails the test, with what it saw last.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		over := func() bool { return time.Since(begin) >= 20*time.Second }
		if failure := outcome(func(t testing.TB) { Until(t, "20 s", over) }); failure != "" || !over() {
			t.Errorf("failure %q after %v", failure, time.Since(begin))
		}
		never := func() (int, bool) { return 7, false }
		if failure := outcome(func(t testing.TB) { See(t, "a wonder", never) }); !strings.HasPrefix(failure, "a wonder: ") || !strings.HasSuffix(failure, ": 7") {
			t.Errorf("failure %q", failure)
		}
		if failure := outcome(func(t testing.TB) { Until(t, "a wonder", func() bool { return false }) }); failure == "" {
			t.Error("no failure")
		}
	})
}

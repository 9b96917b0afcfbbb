package tools

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is how often a progress line changes.
const progressInterval = 500 * time.Millisecond

// progress updates one line on a terminal during long work. A nil progress shows nothing.
type progress struct {
	out  io.Writer
	line func(elapsed time.Duration) string
	stop chan struct{}
	done sync.WaitGroup
}

// startProgress shows the result of line, which is called on another goroutine, until close. It returns nil without a
// terminal.
func startProgress(env *Env, line func(elapsed time.Duration) string) *progress {
	if !env.Terminal {
		return nil
	}
	p := &progress{out: env.Stderr, line: line, stop: make(chan struct{})}
	p.done.Go(p.run)
	return p
}

func (p *progress) run() {
	start := time.Now()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(p.out, "\r\x1b[K%s", p.line(time.Since(start)))
		case <-p.stop:
			fmt.Fprint(p.out, "\r\x1b[K")
			return
		}
	}
}

// close removes the line.
func (p *progress) close() {
	if p != nil {
		close(p.stop)
		p.done.Wait()
	}
}

// rateLine formats the progress of records and bytes.
func rateLine(what string, records, bytes int64, elapsed time.Duration) string {
	mb := float64(bytes) / (1 << 20)
	return fmt.Sprintf("%s %d records, %.1f MB, %.1f MB/s", what, records, mb, mb/elapsed.Seconds())
}

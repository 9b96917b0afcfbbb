package logx

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Sampler keeps lines that a client can cause at will from flooding the log: in each interval one line of each kind is
// let through, and the next one says how many were suppressed. The zero value lets everything through. Safe for
// concurrent use.
type Sampler struct {
	Interval time.Duration

	mu struct {
		sync.Mutex
		kinds map[string]*sampled
	}
}

type sampled struct {
	last time.Time
	held int
}

// Allow reports whether a line of a kind may be written at now, and how many were suppressed since the last one. There
// must be few kinds: constant messages, nothing that comes from outside.
func (s *Sampler) Allow(kind string, now time.Time) (ok bool, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.mu.kinds[kind]
	if k == nil {
		if s.mu.kinds == nil {
			s.mu.kinds = make(map[string]*sampled)
		}
		k = new(sampled)
		s.mu.kinds[kind] = k
	} else if now.Sub(k.last) < s.Interval {
		k.held++
		return false, 0
	}
	held, k.held, k.last = k.held, 0, now
	return true, held
}

// Line calls Allow for a line that is about to be written. The returned entry carries the number of suppressed lines,
// if there were any.
func (s *Sampler) Line(kind string, e *logrus.Entry) (*logrus.Entry, bool) {
	ok, held := s.Allow(kind, time.Now())
	if held > 0 {
		e = e.WithField(HeldBack, held)
	}
	return e, ok
}

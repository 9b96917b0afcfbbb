package logx

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Sampler keeps lines that a client can cause at will from filling the log: one of each kind is let through in an interval,
// and the next one tells how many were held back. The zero value lets everything through. Safe for concurrent use.
type Sampler struct {
	Interval time.Duration

	mu    sync.Mutex // guards kinds
	kinds map[string]*sampled
}

type sampled struct {
	last time.Time
	held int
}

// Allow tells whether a line of a kind is to be written at now, and how many of them were not since the last one. Kinds are
// few: messages of ours, nothing that comes from outside.
func (s *Sampler) Allow(kind string, now time.Time) (ok bool, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kind]
	if k == nil {
		if s.kinds == nil {
			s.kinds = make(map[string]*sampled)
		}
		k = new(sampled)
		s.kinds[kind] = k
	} else if now.Sub(k.last) < s.Interval {
		k.held++
		return false, 0
	}
	held, k.held, k.last = k.held, 0, now
	return true, held
}

// Line is Allow for a line that is about to be written: the entry carries how many were held back, if any were.
func (s *Sampler) Line(kind string, e *logrus.Entry) (*logrus.Entry, bool) {
	ok, held := s.Allow(kind, time.Now())
	if held > 0 {
		e = e.WithField(HeldBack, held)
	}
	return e, ok
}

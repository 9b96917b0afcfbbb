package kerberos

import (
	"crypto/sha256"
	"sync"
	"time"
)

// ReplayCache remembers the authenticators that clients have presented recently, so that an eavesdropper cannot replay
// a login (RFC 4120, section 3.2.3). All messages of a login follow from the client's first one, so nothing else
// prevents a replay. The zero value is ready to use.
type ReplayCache struct {
	mu struct {
		sync.Mutex  // a leaf
		now, before map[[sha256.Size]byte]struct{}
		since       time.Time     // when now was begun; before covers the same length of time before that
		keep        time.Duration // the minimum time to remember: the longest validity of any of them
	}
}

// first reports whether an encrypted authenticator is presented for the first time, and remembers it for as long as it
// may be valid given the clock skew: its time may be as far in the future as in the past. It must have been verified
// before, so that made-up ones cannot fill the memory.
func (s *ReplayCache) first(authenticator []byte, at time.Time, skew time.Duration) bool {
	sum := sha256.Sum256(authenticator)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.keep = max(s.mu.keep, 2*skew)
	s.forgetLocked(at)
	_, now := s.mu.now[sum]
	_, before := s.mu.before[sum]
	if now || before {
		return false
	}
	s.mu.now[sum] = struct{}{}
	return true
}

func (s *ReplayCache) forgetLocked(at time.Time) {
	switch age := at.Sub(s.mu.since); {
	case s.mu.now != nil && age < s.mu.keep:
		return
	case age < 2*s.mu.keep:
		s.mu.before = s.mu.now
	default:
		s.mu.before = nil
	}
	s.mu.now, s.mu.since = make(map[[sha256.Size]byte]struct{}), at
}

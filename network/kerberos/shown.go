package kerberos

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Shown are the authenticators that clients have shown of late, so that who has listened to a login cannot repeat it (RFC 4120,
// section 3.2.3). All messages of a login follow from the client's first one: nothing else keeps a second one from being good too.
// The zero value is ready for use.
type Shown struct {
	mu          sync.Mutex // guards what follows; a leaf
	now, before map[[sha256.Size]byte]struct{}
	since       time.Time     // when now was begun; before is of the same time before that
	keep        time.Duration // how long each is remembered at least: the longest that one of them may be good
}

// first reports whether an authenticator, as it was encrypted, is shown for the first time, and remembers it for as long as it may
// be good where clocks may be some time apart: its time may be as far in the future as in the past. It must have been found good:
// what anybody makes up is not to fill this.
func (s *Shown) first(authenticator []byte, at time.Time, skew time.Duration) bool {
	sum := sha256.Sum256(authenticator)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = max(s.keep, 2*skew)
	s.forgetLocked(at)
	_, now := s.now[sum]
	_, before := s.before[sum]
	if now || before {
		return false
	}
	s.now[sum] = struct{}{}
	return true
}

func (s *Shown) forgetLocked(at time.Time) {
	switch age := at.Sub(s.since); {
	case s.now != nil && age < s.keep:
		return
	case age < 2*s.keep:
		s.before = s.now
	default:
		s.before = nil
	}
	s.now, s.since = make(map[[sha256.Size]byte]struct{}), at
}

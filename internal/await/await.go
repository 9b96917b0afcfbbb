// Package await lets a goroutine wait: for a change of state that belongs to someone else, or for a while.
//
// The goroutine that changes the state only notifies; the one that waits checks the state itself. So notifying is safe
// under any lock, and a timeout or a shutdown arrives as an error.
package await

import (
	"context"
	"sync"
	"time"
)

// Signal wakes the goroutines that wait for a change of the state it belongs to, such as a partition's offsets or a
// group's state. The zero value is ready to use.
type Signal struct {
	mu struct {
		sync.Mutex // leaf: nothing is called with it held
		waiters    map[chan struct{}]struct{}
	}
}

// Notify wakes every waiter. It neither blocks nor runs the waiters' code.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.waiters {
		select {
		case w <- struct{}{}:
		default: // a wake-up is already pending
		}
	}
}

func (s *Signal) add(w chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.waiters == nil {
		s.mu.waiters = make(map[chan struct{}]struct{})
	}
	s.mu.waiters[w] = struct{}{}
}

func (s *Signal) remove(w chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.waiters, w)
}

// Until returns nil when check returns true, check's error, or the context's cause. It registers with every signal
// before the first check, so no change is missed in between.
func Until(ctx context.Context, check func() (bool, error), on ...*Signal) error {
	wake := make(chan struct{}, 1)
	for _, s := range on {
		s.add(wake)
		defer s.remove(wake)
	}
	for {
		if ok, err := check(); ok || err != nil {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Pause waits for d. If the context ends before, it returns the context's cause.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

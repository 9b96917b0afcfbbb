package await

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, stopping := time.Now(), errors.New("stopping")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(stopping) })
		if err := Pause(ctx, time.Second); err != nil || time.Since(began) != time.Second {
			t.Errorf("a pause of a second: %v after %v", err, time.Since(began))
		}
		if err := Pause(ctx, time.Minute); !errors.Is(err, stopping) || time.Since(began) != 3*time.Second {
			t.Errorf("a pause during which the context ends: %v after %v", err, time.Since(began))
		}
	})
}

func TestUntil(t *testing.T) {
	timedOut, failed := errors.New("timed out"), errors.New("failed")
	tests := []struct {
		name  string
		check func(calls int) (bool, error)
		rings int
		want  error
	}{
		{"true at once", func(int) (bool, error) { return true, nil }, 0, nil},
		{"true after two rings", func(calls int) (bool, error) { return calls == 3, nil }, 2, nil},
		{"error of the check", func(calls int) (bool, error) { return false, failed }, 0, failed},
		{"error after a ring", func(calls int) (bool, error) {
			if calls == 2 {
				return false, failed
			}
			return false, nil
		}, 1, failed},
		{"deadline", func(int) (bool, error) { return false, nil }, 1, timedOut},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, timedOut)
				defer cancel()
				var s, other Signal
				calls := 0
				done := make(chan error)
				go func() {
					done <- Until(ctx, func() (bool, error) { calls++; return test.check(calls) }, &other, &s)
				}()
				for range test.rings {
					synctest.Wait()
					s.Notify()
				}
				if err := <-done; !errors.Is(err, test.want) {
					t.Fatalf("got %v, want %v", err, test.want)
				}
				if len(s.mu.waiters)+len(other.mu.waiters) != 0 {
					t.Fatal("a waiter was left behind")
				}
			})
		})
	}
}

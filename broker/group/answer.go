package group

import "context"

// Answer is the answer to a request, which may have to be waited for.
type Answer[T any] struct {
	ready T
	wait  func(context.Context) (T, error)
}

func ready[T any](v T) Answer[T] { return Answer[T]{ready: v} }

// Now returns the answer if it is available already.
func (a Answer[T]) Now() (T, bool) { return a.ready, a.wait == nil }

// Wait waits for the answer and returns it. The error is ctx's.
func (a Answer[T]) Wait(ctx context.Context) (T, error) {
	if a.wait == nil {
		return a.ready, nil
	}
	return a.wait(ctx)
}

// promise is an answer that the state machine owes a member. It is kept once.
type promise[T any] chan T

func newPromise[T any]() promise[T] { return make(promise[T], 1) }

// resolve delivers the answer. It never blocks, so that it may be called with a shard's lock held.
func (p promise[T]) resolve(v T) {
	select {
	case p <- v:
	default: // kept already
	}
}

// answer returns the promise as an Answer, which is complete if the promise has been kept already.
func (p promise[T]) answer() Answer[T] {
	select {
	case v := <-p:
		return ready(v)
	default:
	}
	return Answer[T]{wait: func(ctx context.Context) (v T, err error) {
		select {
		case v = <-p:
			return v, nil
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}}
}

package txn

import "sync"

// batcher batches what goes to one broker: while a request is in progress, new items wait, and go out together with the
// next one.
type batcher[T any] struct {
	mu struct {
		sync.Mutex // leaf
		waiting    []T
		busy       bool
	}
}

// add hands over an item. deliver is called with all collected items, on a goroutine started with spawn; the items that
// it returns are delivered again.
func (b *batcher[T]) add(item T, spawn func(func()), deliver func([]T) (again []T)) {
	b.mu.Lock()
	b.mu.waiting = append(b.mu.waiting, item)
	idle := !b.mu.busy
	b.mu.busy = true
	b.mu.Unlock()
	if idle {
		spawn(func() { b.run(deliver) })
	}
}

func (b *batcher[T]) run(deliver func([]T) []T) {
	for {
		items := b.take()
		if len(items) == 0 {
			return
		}
		if again := deliver(items); len(again) > 0 {
			b.mu.Lock()
			b.mu.waiting = append(again, b.mu.waiting...)
			b.mu.Unlock()
		}
	}
}

func (b *batcher[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.mu.waiting
	b.mu.waiting = nil
	b.mu.busy = len(items) > 0
	return items
}

// brokerBatchers holds a batcher for each broker.
type brokerBatchers[T any] struct {
	mu struct {
		sync.Mutex // leaf
		byBroker   map[int32]*batcher[T]
	}
}

func (b *brokerBatchers[T]) to(broker int32) *batcher[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.byBroker == nil {
		b.mu.byBroker = make(map[int32]*batcher[T])
	}
	one := b.mu.byBroker[broker]
	if one == nil {
		one = &batcher[T]{}
		b.mu.byBroker[broker] = one
	}
	return one
}

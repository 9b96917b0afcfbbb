package txn

import "sync"

// courier batches what goes to one broker: while a request is in progress, new items wait, and go out together with the
// next one.
type courier[T any] struct {
	mu struct {
		sync.Mutex // leaf
		waiting    []T
		busy       bool
	}
}

// add hands over an item. deliver is called with all collected items, on a goroutine started with spawn; the items that
// it returns are delivered again.
func (c *courier[T]) add(item T, spawn func(func()), deliver func([]T) (again []T)) {
	c.mu.Lock()
	c.mu.waiting = append(c.mu.waiting, item)
	idle := !c.mu.busy
	c.mu.busy = true
	c.mu.Unlock()
	if idle {
		spawn(func() { c.run(deliver) })
	}
}

func (c *courier[T]) run(deliver func([]T) []T) {
	for {
		items := c.take()
		if len(items) == 0 {
			return
		}
		if again := deliver(items); len(again) > 0 {
			c.mu.Lock()
			c.mu.waiting = append(again, c.mu.waiting...)
			c.mu.Unlock()
		}
	}
}

func (c *courier[T]) take() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	items := c.mu.waiting
	c.mu.waiting = nil
	c.mu.busy = len(items) > 0
	return items
}

// couriers holds a courier for each broker.
type couriers[T any] struct {
	mu struct {
		sync.Mutex // leaf
		byBroker   map[int32]*courier[T]
	}
}

func (c *couriers[T]) to(broker int32) *courier[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.byBroker == nil {
		c.mu.byBroker = make(map[int32]*courier[T])
	}
	one := c.mu.byBroker[broker]
	if one == nil {
		one = &courier[T]{}
		c.mu.byBroker[broker] = one
	}
	return one
}

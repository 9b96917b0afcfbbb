package zkcoord

import "sync"

// dispatcher delivers events to subscribers in order, from an unbounded queue.
type dispatcher struct {
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
	sync bool // call the subscribers at once, instead of on a goroutine
	mu   struct {
		sync.Mutex
		queue       []any
		subscribers map[int]func(any)
		order       []int
		nextID      int
	}
}

func newDispatcher() *dispatcher {
	d := &dispatcher{wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	d.mu.subscribers = make(map[int]func(any))
	go d.run()
	return d
}

// syncDispatcher returns a dispatcher without a goroutine.
func syncDispatcher() *dispatcher {
	d := &dispatcher{quit: make(chan struct{}), done: make(chan struct{}), sync: true}
	d.mu.subscribers = make(map[int]func(any))
	close(d.done)
	return d
}

func (d *dispatcher) subscribe(f func(any)) (cancel func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.mu.nextID
	d.mu.nextID++
	d.mu.subscribers[id] = f
	d.mu.order = append(d.mu.order, id)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.mu.subscribers, id)
	}
}

func (d *dispatcher) post(event any) {
	if d.sync {
		d.deliver(event)
		return
	}
	d.mu.Lock()
	d.mu.queue = append(d.mu.queue, event)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *dispatcher) run() {
	defer close(d.done)
	for {
		select {
		case <-d.wake:
		case <-d.quit:
			return
		}
		for _, event := range d.take() {
			d.deliver(event)
		}
	}
}

func (d *dispatcher) deliver(event any) {
	for _, f := range d.listeners() {
		f(event)
	}
}

func (d *dispatcher) take() []any {
	d.mu.Lock()
	defer d.mu.Unlock()
	events := d.mu.queue
	d.mu.queue = nil
	return events
}

// listeners returns the subscribers in the order of their subscription.
func (d *dispatcher) listeners() []func(any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var live []int
	var fs []func(any)
	for _, id := range d.mu.order {
		if f, ok := d.mu.subscribers[id]; ok {
			live, fs = append(live, id), append(fs, f)
		}
	}
	d.mu.order = live
	return fs
}

func (d *dispatcher) stop() {
	close(d.quit)
	<-d.done
}

package sim

import (
	"context"
	"iter"
	"time"

	"barnabas/broker/metadata"
	"barnabas/controller"
	"barnabas/internal/logx"
	"barnabas/zkcoord"
	"barnabas/zkcoord/zksim"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// nobody is the context of calls that are never cancelled.
var nobody = context.Background()

// broker is a machine: its disk outlives its processes.
type broker struct {
	w        *world
	id       int32
	protocol controller.Protocol
	disk     map[topicPartition]*replica
	proc     *process    // nil: it is down
	left     *zksim.Conn // of the previous process, whose session may still exist
}

// process is one run of a broker.
type process struct {
	w      *world
	b      *broker
	id     int32
	conn   *zksim.Conn
	zk     *zkcoord.Client
	c      *controller.Controller
	ctx    context.Context
	cancel context.CancelFunc
	resume func() (struct{}, bool)
	end    func()
	idle   bool // the controller has handled all events that it knows of

	paused          bool
	stopping        bool
	registered      bool
	epoch           int64 // of the registration, as known to the broker
	controllerEpoch int32
	known           knownEpochs
	dropped         map[topicPartition]dropped
	metadata        *metadata.Cache
	channels        []*channel
	timers          []*timer
	asked           []*question
}

type timer struct {
	after time.Duration
	f     func()
}

// start starts the broker's process. The session of the previous one must be over.
func (b *broker) start() {
	w := b.w
	if b.left != nil {
		b.left.Expire()
		b.left = nil
	}
	p := &process{w: w, b: b, id: b.id, metadata: metadata.NewCache(), dropped: make(map[topicPartition]dropped)}
	b.proc = p
	p.ctx, p.cancel = context.WithCancel(nobody)
	log := w.log.WithField(logx.Broker, b.id)
	p.zk, p.conn = w.zk.Connect(zkcoord.Config{Logger: log})
	p.conn.Fate = func() zksim.Fate {
		switch {
		case w.chance(w.losses):
			w.say("broker %d: request to zookeeper lost", b.id)
			return zksim.RequestLost
		case w.chance(w.losses):
			w.say("broker %d: answer of zookeeper lost", b.id)
			return zksim.AnswerLost
		}
		return zksim.Answered
	}
	for _, r := range b.disk {
		r.start()
	}
	p.c = controller.NewInEnvironment(controller.Environment{Store: p.zk, OpenChannel: p.openChannel, After: p.after}, controller.Config{
		BrokerID: b.id, Listener: "PLAINTEXT", Protocol: b.protocol, DeleteTopicEnable: !w.keep, AutoRebalance: true,
		Reregister: p.register,
	}, log)
	p.resume, p.end = iter.Pull(p.run)
}

// run is the process's coroutine.
func (p *process) run(yield func(struct{}) bool) {
	p.conn.Wait = func() {
		if !yield(struct{}{}) {
			p.conn.Kill()
		}
	}
	if err := p.register(p.ctx); err != nil {
		if p.ctx.Err() == nil {
			p.w.fail("broker %d cannot register: %v", p.id, err)
		}
		return
	}
	p.conn.Wait() // for the rest of a broker's start
	p.c.Start()
	for {
		for p.c.Step(p.ctx) {
		}
		p.idle = true
		if !yield(struct{}{}) {
			return
		}
	}
}

// turn lets the coroutine run until its next request.
func (p *process) turn() {
	p.idle = false
	p.resume()
}

func (p *process) register(ctx context.Context) error {
	epoch, err := p.zk.RegisterBroker(ctx, zkcoord.BrokerInfo{ID: p.id, JMXPort: -1,
		Endpoints: []zkcoord.Endpoint{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 9000 + p.id}}})
	if err == nil {
		p.w.say("broker %d registered with epoch %d", p.id, epoch)
		p.epoch, p.registered = epoch, true
	}
	return err
}

// kill ends the process at once and leaves its session behind.
func (b *broker) kill() {
	p := b.proc
	if p == nil {
		return
	}
	b.proc, b.left = nil, p.conn
	p.conn.Kill()
	p.cancel()
	for _, l := range p.channels {
		l.Close()
	}
	p.end()
	for _, q := range p.asked {
		q.settle(nil)
	}
}

func (p *process) after(d time.Duration, f func()) func() {
	t := &timer{d, f}
	p.timers = append(p.timers, t)
	return func() { t.f = nil }
}

// due removes and returns a timer's function; nil if there is none.
func (p *process) due(i int) func() {
	f := p.timers[i].f
	p.timers = append(p.timers[:i:i], p.timers[i+1:]...)
	return f
}

// listens reports whether the broker is up and has been registered, before which it accepts no connections.
func (p *process) listens() bool { return p != nil && p.epoch != 0 }

// channel is the controller's channel to one broker.
type channel struct {
	p      *process
	to     int32
	queue  []kmsg.Request
	resp   kmsg.Response // to the first one, on its way back
	answer func(kmsg.Request, kmsg.Response)
	closed bool
}

func (p *process) openChannel(to zkcoord.BrokerInfo, _ *logrus.Entry, answer func(kmsg.Request, kmsg.Response)) controller.BrokerChannel {
	l := &channel{p: p, to: to.ID, answer: answer}
	p.channels = append(p.channels, l)
	return l
}

// Send implements controller.BrokerChannel.
func (ch *channel) Send(req kmsg.Request) { ch.queue = append(ch.queue, req) }

// Queued implements controller.BrokerChannel.
func (ch *channel) Queued() int { return len(ch.queue) }

// Move implements controller.BrokerChannel.
func (ch *channel) Move(zkcoord.BrokerInfo) {}

// Close implements controller.BrokerChannel. A request that was sent may still arrive.
func (ch *channel) Close() {
	if ch.closed {
		return
	}
	ch.closed = true
	for i, other := range ch.p.channels {
		if other == ch {
			ch.p.channels = append(ch.p.channels[:i:i], ch.p.channels[i+1:]...)
			break
		}
	}
	if len(ch.queue) > 0 && ch.p.w.chance(2) {
		req := ch.queue[0]
		ch.p.w.send(&packet{name: "late " + kmsg.NameForKey(req.Key()), deliver: func() {
			if to := ch.p.w.process(ch.to); to.listens() {
				to.receive(req)
			}
		}})
	}
}

// step sends the first request, or delivers its response. It reports whether anything happened.
func (ch *channel) step() bool {
	if len(ch.queue) == 0 {
		return false
	}
	req := ch.queue[0]
	if ch.resp == nil {
		to := ch.p.w.process(ch.to)
		if !to.listens() {
			return false
		}
		ch.resp = to.receive(req)
		if ch.p.w.chance(ch.p.w.losses) {
			ch.p.w.say("answer of broker %d to %s lost", ch.to, kmsg.NameForKey(req.Key()))
			ch.resp = nil // and the request is sent again
		}
		return true
	}
	resp := ch.resp
	ch.queue, ch.resp = ch.queue[1:], nil
	ch.answer(req, resp)
	return true
}

// packet is something in transit, which may arrive in any order or not at all.
type packet struct {
	name    string
	deliver func()
	lost    func() // nil: nobody cares
	sure    bool   // it cannot be lost
}

func (w *world) send(p *packet) { w.packets = append(w.packets, p) }

// question is a request that a controller has not answered yet.
type question struct {
	settled bool
	done    func(kmsg.Response)
}

func (q *question) settle(resp kmsg.Response) {
	if !q.settled {
		q.settled = true
		q.done(resp)
	}
}

// ask sends a request to a broker's controller. done is called with nil if the request or its response is lost.
func (w *world) ask(broker int32, req kmsg.Request, done func(kmsg.Response)) {
	name := kmsg.NameForKey(req.Key())
	q := &question{done: done}
	lost := func() { q.settle(nil) }
	w.send(&packet{name: name, lost: lost, deliver: func() {
		to := w.process(broker)
		if to == nil {
			lost()
			return
		}
		to.asked = append(to.asked, q)
		to.c.Submit(req, func(resp kmsg.Response) {
			w.send(&packet{name: "answer to " + name, lost: lost, deliver: func() { q.settle(resp) }})
		})
	}})
}

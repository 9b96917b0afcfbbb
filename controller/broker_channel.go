package controller

import (
	"context"
	"sync"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sendBackoff is the pause before a failed request is sent again.
const sendBackoff = 100 * time.Millisecond

// warnAttempt is the failed attempt that is logged.
const warnAttempt = 20

// brokerChannel sends requests to one broker, one after the other in order, each until it is answered. It ends when the
// broker is gone.
type brokerChannel struct {
	sender Sender
	log    *logrus.Entry
	answer func(req kmsg.Request, resp kmsg.Response) // called on the channel's goroutine
	watch  channelWatch
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	mu     struct {
		sync.Mutex
		to    zkcoord.BrokerInfo
		queue []queuedRequest
	}
}

// channelWatch is told what channels do, for metrics. Its functions may be nil.
type channelWatch struct {
	sent  func(broker int32, waited time.Duration)
	ended func(broker int32)
}

type queuedRequest struct {
	kmsg.Request
	since time.Time
}

func openBrokerChannel(sender Sender, to zkcoord.BrokerInfo, log *logrus.Entry, answer func(kmsg.Request, kmsg.Response), watch channelWatch) *brokerChannel {
	if watch.sent == nil {
		watch.sent = func(int32, time.Duration) {}
	}
	if watch.ended == nil {
		watch.ended = func(int32) {}
	}
	ctx, cancel := context.WithCancel(context.Background()) // cancelled by Close, when the broker is gone or the term ends
	ch := &brokerChannel{
		sender: sender,
		log:    log.WithField(logx.Broker, to.ID),
		answer: answer,
		watch:  watch,
		wake:   make(chan struct{}, 1),
		cancel: cancel,
		done:   make(chan struct{}),
	}
	ch.mu.to = to
	go ch.run(ctx)
	return ch
}

// Send queues a request.
func (ch *brokerChannel) Send(req kmsg.Request) {
	ch.mu.Lock()
	ch.mu.queue = append(ch.mu.queue, queuedRequest{req, time.Now()})
	ch.mu.Unlock()
	select {
	case ch.wake <- struct{}{}:
	default:
	}
}

// Move sets the broker's new addresses.
func (ch *brokerChannel) Move(to zkcoord.BrokerInfo) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.mu.to = to
}

// Close drops what is queued and waits for the goroutine.
func (ch *brokerChannel) Close() {
	ch.cancel()
	<-ch.done
}

func (ch *brokerChannel) run(ctx context.Context) {
	defer close(ch.done)
	defer func() { ch.watch.ended(ch.address().ID) }()
	for {
		req := ch.next()
		if req == nil {
			select {
			case <-ch.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		resp, err := ch.deliver(ctx, req)
		if err != nil {
			return
		}
		ch.answer(req, resp)
	}
}

func (ch *brokerChannel) next() kmsg.Request {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if len(ch.mu.queue) == 0 {
		return nil
	}
	first := ch.mu.queue[0]
	ch.mu.queue[0] = queuedRequest{}
	ch.mu.queue = ch.mu.queue[1:]
	ch.watch.sent(ch.mu.to.ID, time.Since(first.since))
	return first.Request
}

// Queued returns the number of requests that wait to be sent.
func (ch *brokerChannel) Queued() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return len(ch.mu.queue)
}

func (ch *brokerChannel) address() zkcoord.BrokerInfo {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.mu.to
}

// deliver sends until there is a response; the error is the context's.
func (ch *brokerChannel) deliver(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := ch.sender.Send(ctx, ch.address(), req)
		if err == nil || ctx.Err() != nil {
			return resp, ctx.Err()
		}
		// A broker registers before it listens, and stays registered for a while after it has died: only lasting
		// failures deserve a line, and one is enough.
		if attempt == warnAttempt {
			ch.log.WithError(err).WithField(logx.API, kmsg.NameForKey(req.Key())).Warn("broker cannot be reached, still trying")
		}
		if await.Pause(ctx, sendBackoff) != nil {
			return nil, ctx.Err()
		}
	}
}

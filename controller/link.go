package controller

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// sendBackoff is the pause before a failed request is sent again.
const sendBackoff = 100 * time.Millisecond

// warnAttempt is the failed attempt that is logged.
const warnAttempt = 20

// link sends requests to one broker, one after the other in order, each until it is answered. It ends when the broker
// is gone.
type link struct {
	sender Sender
	log    *logrus.Entry
	answer func(req kmsg.Request, resp kmsg.Response) // called on the link's goroutine
	sent   func(broker int32, waited time.Duration)
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	mu     struct {
		sync.Mutex
		to    zkcoord.BrokerInfo
		queue []queuedRequest
	}
}

type queuedRequest struct {
	kmsg.Request
	since time.Time
}

func newLink(sender Sender, to zkcoord.BrokerInfo, log *logrus.Entry, answer func(kmsg.Request, kmsg.Response), sent func(int32, time.Duration)) *link {
	if sent == nil {
		sent = func(int32, time.Duration) {}
	}
	ctx, cancel := context.WithCancel(context.Background()) // cancelled by Close, when the broker is gone or the office ends
	l := &link{
		sender: sender,
		log:    log.WithField(logx.Broker, to.ID),
		answer: answer,
		sent:   sent,
		wake:   make(chan struct{}, 1),
		cancel: cancel,
		done:   make(chan struct{}),
	}
	l.mu.to = to
	go l.run(ctx)
	return l
}

// Send queues a request.
func (l *link) Send(req kmsg.Request) {
	l.mu.Lock()
	l.mu.queue = append(l.mu.queue, queuedRequest{req, time.Now()})
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Move sets the broker's new addresses.
func (l *link) Move(to zkcoord.BrokerInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.to = to
}

// Close drops what is queued and waits for the goroutine.
func (l *link) Close() {
	l.cancel()
	<-l.done
}

func (l *link) run(ctx context.Context) {
	defer close(l.done)
	for {
		req := l.next()
		if req == nil {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		resp, err := l.deliver(ctx, req)
		if err != nil {
			return
		}
		l.answer(req, resp)
	}
}

func (l *link) next() kmsg.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.queue) == 0 {
		return nil
	}
	first := l.mu.queue[0]
	l.mu.queue[0] = queuedRequest{}
	l.mu.queue = l.mu.queue[1:]
	l.sent(l.mu.to.ID, time.Since(first.since))
	return first.Request
}

// Queued returns the number of requests that wait to be sent.
func (l *link) Queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.queue)
}

func (l *link) address() zkcoord.BrokerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.to
}

// deliver sends until there is a response; the error is the context's.
func (l *link) deliver(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := l.sender.Send(ctx, l.address(), req)
		if err == nil || ctx.Err() != nil {
			return resp, ctx.Err()
		}
		// A broker registers before it listens, and stays registered for a while after it has died: only lasting
		// failures deserve a line, and one is enough.
		if attempt == warnAttempt {
			l.log.WithError(err).WithField(logx.API, kmsg.NameForKey(req.Key())).Warn("broker cannot be reached, still trying")
		}
		select {
		case <-time.After(sendBackoff):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

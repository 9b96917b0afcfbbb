package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// Config is what a controller needs to know about its broker.
type Config struct {
	BrokerID int32
	// Listener is the one on which brokers communicate, and whose addresses of leaders are in LeaderAndIsr requests
	// (inter.broker.listener.name).
	Listener string
	Protocol Protocol
	// UncleanDefault returns the broker's unclean.leader.election.enable, which topics may override. It may be called
	// on the controller's goroutine at any time. nil: false.
	UncleanDefault     func() bool
	DeleteTopicEnable  bool          // delete.topic.enable
	AutoRebalance      bool          // auto.leader.rebalance.enable
	RebalanceInterval  time.Duration // leader.imbalance.check.interval.seconds. 0: 300 s
	RebalanceThreshold int           // leader.imbalance.per.broker.percentage
	// Reregister registers the broker again. It is called after a ZooKeeper session has expired, with the new one,
	// before the broker joins the race for the controllership again.
	Reregister func(ctx context.Context) error
	// Handled is called for each event that was handled, on the controller's goroutine. May be nil.
	Handled func(w Work, waited, took time.Duration)
	// Sent is called with the time that a request from the controller to a broker has waited to be sent. It must not
	// block. May be nil.
	Sent func(broker int32, waited time.Duration)
	// SendingEnded is called when no more requests are sent to a broker: it is gone, or another one is the controller. It
	// must not block. May be nil.
	SendingEnded func(broker int32)
}

const (
	defaultRebalanceInterval = 300 * time.Second
	firstRebalance           = 5 * time.Second // after the election
	retryBackoff             = time.Second     // after an unexpected failure
)

// Controller takes part in the race for the controllership, and acts as the controller while it is the winner. Methods
// other than Run are safe for concurrent use.
type Controller struct {
	cfg   Config
	env   Environment
	log   *logrus.Entry
	queue eventQueue
	ended chan struct{} // closed when Run has ended

	controller atomic.Int32 // broker id, or zkcoord.NoController
	active     atomic.Bool
	unclean    atomic.Int64
	work       atomic.Int64 // Work of the current event
	deletions  atomic.Pointer[DeletionCounts]
	channels   atomic.Pointer[map[int32]BrokerChannel] // those of the current term, for readers of their queues; replaced as a whole
	expired    atomic.Bool                             // the session has expired, and the broker is not registered with the next one yet

	current *activeController // the loop's; nil if another broker is the controller
	last    int32             // epoch of the last term
}

// New returns a controller that works once Run is called.
func New(cfg Config, store Store, sender Sender, log *logrus.Entry) *Controller {
	return NewInEnvironment(realEnvironment(store, sender, channelWatch{cfg.Sent, cfg.SendingEnded}), cfg, log)
}

// NewInEnvironment returns a controller that acts upon the given environment.
func NewInEnvironment(env Environment, cfg Config, log *logrus.Entry) *Controller {
	if cfg.UncleanDefault == nil {
		cfg.UncleanDefault = func() bool { return false }
	}
	if cfg.RebalanceInterval <= 0 {
		cfg.RebalanceInterval = defaultRebalanceInterval
	}
	c := &Controller{
		cfg:   cfg,
		env:   env,
		log:   log.WithField(logx.Broker, cfg.BrokerID),
		ended: make(chan struct{}),
	}
	c.queue.wake = make(chan struct{}, 1)
	c.controller.Store(zkcoord.NoController)
	c.deletions.Store(new(DeletionCounts))
	c.channels.Store(new(map[int32]BrokerChannel))
	return c
}

// Active reports whether this broker is the controller. Requests wait while it is taking over.
func (c *Controller) Active() bool { return c.active.Load() }

// ControllerID returns the controller's broker id as far as this broker knows, or zkcoord.NoController.
func (c *Controller) ControllerID() int32 { return c.controller.Load() }

// UncleanElections counts the elections of out-of-sync leaders by this controller, which may have lost acknowledged
// records.
func (c *Controller) UncleanElections() int64 { return c.unclean.Load() }

// DeletionCounts counts the topics that are to be deleted, and their replicas that have not been deleted.
type DeletionCounts struct {
	Topics, Replicas int
	HeldTopics       int // waiting for a broker to come back
	FailedReplicas   int // their broker is down or could not delete them
}

// Deletions returns what this controller has yet to delete; zeros if another broker is the controller.
func (c *Controller) Deletions() DeletionCounts { return *c.deletions.Load() }

// Queued returns the number of events that wait to be handled.
func (c *Controller) Queued() int { return c.queue.length() }

// QueuedRequests returns the number of requests that wait to be sent to each broker; none if another broker is the
// controller.
func (c *Controller) QueuedRequests() map[int32]int {
	queued := make(map[int32]int)
	for id, ch := range *c.channels.Load() {
		queued[id] = ch.Queued()
	}
	return queued
}

// Work returns what the current event is for, or Idle if there is none.
func (c *Controller) Work() Work { return Work(c.work.Load()) }

// Run takes part in the race for the controllership, and acts as the controller, until ctx is done. It is called once,
// with a registered broker. The controllership ends with the ZooKeeper session, not with Run: closing the session gives
// up the registration and the controllership at the same time.
func (c *Controller) Run(ctx context.Context) error {
	defer c.Start()()
	for {
		e, err := c.queue.next(ctx)
		if err != nil {
			return err
		}
		c.handle(ctx, e)
	}
}

// Start makes the controller listen to ZooKeeper and join the race, for use with Step. stop ends that, and the
// controllership. It is not needed with Run.
func (c *Controller) Start() (stop func()) {
	ignoreChanges := c.env.Store.OnChange(c.onChange)
	ignoreSession := c.env.Store.OnSession(c.onSession)
	c.post("start", ControllerChange, c.begin)
	return func() {
		ignoreSession()
		ignoreChanges()
		c.leave()
		close(c.ended)
	}
}

// Step handles the next event that is due, on the same thread as all other calls to the controller. It reports whether
// there was one.
func (c *Controller) Step(ctx context.Context) bool {
	e, ok := c.queue.take()
	if ok {
		c.handle(ctx, e)
	}
	return ok
}

func (c *Controller) post(name string, w Work, run func(ctx context.Context) error) {
	c.queue.put(event{name, w, run, time.Now()})
}

func (c *Controller) postRace() { c.post("elect", ControllerChange, c.race) }

// postActive posts an event that is handled only if this broker is the controller when its turn comes.
func (c *Controller) postActive(name string, w Work, run func(ac *activeController, ctx context.Context) error) {
	c.post(name, w, func(ctx context.Context) error {
		if c.current == nil {
			return nil
		}
		return run(c.current, ctx)
	})
}

// whileActive posts an event that is handled only if ac is still the current term when its turn comes.
func (c *Controller) whileActive(ac *activeController, name string, w Work, run func(ctx context.Context) error) {
	c.post(name, w, func(ctx context.Context) error {
		if c.current != ac {
			return nil
		}
		return run(ctx)
	})
}

// handle handles an event. After an error the active controller may no longer know the state of the cluster: it is
// given up, and the next one, here or on another broker, reads everything again.
func (c *Controller) handle(ctx context.Context, e event) {
	began := time.Now()
	c.work.Store(int64(e.work))
	err := e.run(ctx)
	c.work.Store(int64(Idle))
	if c.cfg.Handled != nil {
		c.cfg.Handled(e.work, began.Sub(e.posted), time.Since(began))
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	ac := c.current
	c.leave()
	log := c.log.WithError(err).WithField(logx.Value, e.name)
	switch {
	case errors.Is(err, zkcoord.ErrSessionLost): // reregister follows, or has run already
		log.Info("lost the controllership with the session")
		return
	case errors.Is(err, zkcoord.ErrDeposed):
		log.Info("another controller was elected")
		c.postRace()
		return
	}
	log.Error("controller event failed")
	if ac != nil && c.env.Store.Resign(ctx, ac.term) == nil {
		c.postRace()
		return
	}
	c.env.After(retryBackoff, c.postRace)
}

// leave ends the term without changing ZooKeeper.
func (c *Controller) leave() {
	c.active.Store(false)
	c.deletions.Store(new(DeletionCounts))
	if c.current != nil {
		c.channels.Store(new(map[int32]BrokerChannel))
		c.current.close()
		c.current = nil
		c.log.Info("no longer the controller")
	}
}

func (c *Controller) onSession(e zkcoord.SessionEvent) {
	switch e {
	case zkcoord.SessionExpired:
		c.expired.Store(true)
		c.post("session expired", ControllerChange, func(context.Context) error {
			c.leave()
			c.controller.Store(zkcoord.NoController)
			return nil
		})
	case zkcoord.SessionReestablished:
		c.post("new session", ControllerChange, c.reregister)
	}
}

// begin joins the race. The session in which the broker was registered may have expired before the controller listened.
func (c *Controller) begin(ctx context.Context) error {
	if registered, err := c.env.Store.Registered(ctx, c.cfg.BrokerID); err != nil || !registered {
		return c.reregister(ctx)
	}
	return c.race(ctx)
}

// reregister registers the broker with a new session and joins the race.
func (c *Controller) reregister(ctx context.Context) error {
	c.leave()
	if c.cfg.Reregister != nil {
		if err := c.cfg.Reregister(ctx); err != nil {
			c.log.WithError(err).Error("cannot register the broker again")
			c.env.After(retryBackoff, func() { c.post("new session", ControllerChange, c.reregister) })
			return nil
		}
	}
	c.expired.Store(false)
	return c.race(ctx)
}

// race finds out who the controller is, and becomes the controller if there is none.
func (c *Controller) race(ctx context.Context) error {
	if c.expired.Load() {
		return nil // reregister joins the race: a controller must be a registered broker
	}
	id, err := c.env.Store.WatchController(ctx)
	if err != nil {
		return err
	}
	c.controller.Store(id)
	if c.current != nil && id == c.cfg.BrokerID {
		return nil
	}
	c.leave()
	if id != zkcoord.NoController && id != c.cfg.BrokerID {
		return nil
	}
	// The node may name this broker although it is not the active controller: the election was won, but the answer was
	// lost. Elect finds that out.
	term, won, err := c.env.Store.Elect(ctx, c.cfg.BrokerID)
	if err != nil {
		return err
	}
	if !won {
		if id, err = c.env.Store.WatchController(ctx); err != nil {
			return err
		}
		c.controller.Store(id)
		if id == zkcoord.NoController { // gone again: its watch may have fired before it was set
			c.postRace()
		}
		return nil
	}
	if term.Epoch == c.last {
		// This term was given up, but its node still exists. Requests that it has sent may still arrive, and brokers
		// could not distinguish them from those of another term with the same epoch.
		c.postRace()
		return c.env.Store.Resign(ctx, term)
	}
	c.last = term.Epoch
	if _, err := c.env.Store.WatchController(ctx); err != nil {
		return err
	}
	c.controller.Store(c.cfg.BrokerID)
	c.log.WithField(logx.ControllerEpoch, term.Epoch).Info("elected as controller")
	c.current = newActiveController(c, term)
	c.active.Store(true) // requests queue up behind this event; brokers hear of the term before it ends
	return c.current.takeOver(ctx)
}

// onChange converts what a watch reports to an event of the active controller.
func (c *Controller) onChange(change zkcoord.Change) {
	if change.Kind == zkcoord.ControllerChanged {
		c.post("controller changed", ControllerChange, c.race)
		return
	}
	var name string
	var w Work
	var run func(ac *activeController, ctx context.Context) error
	switch change.Kind {
	case zkcoord.BrokersChanged, zkcoord.BrokerChanged:
		name, w, run = "brokers changed", BrokerChange, (*activeController).brokersChanged
	case zkcoord.TopicsChanged:
		name, w, run = "topics changed", TopicChange, (*activeController).topicsChanged
	case zkcoord.TopicChanged:
		name, w, run = "topic changed", TopicChange, func(ac *activeController, ctx context.Context) error { return ac.topicChanged(ctx, change.Topic) }
	case zkcoord.TopicDeletionsChanged:
		name, w, run = "topic deletions changed", TopicDeletion, (*activeController).deletionsAsked
	case zkcoord.ReassignmentsChanged:
		name, w, run = "reassignments asked", AlterPartitionReassignment, (*activeController).reassignmentsAsked
	case zkcoord.PreferredElectionChanged:
		name, w, run = "preferred elections asked", ManualLeaderBalance, (*activeController).preferredElectionAsked
	case zkcoord.ISRNotificationsChanged:
		name, w, run = "ISRs changed", ISRChange, (*activeController).isrsNotified
	case zkcoord.LogDirEventsChanged:
		name, w, run = "log directory failed", LogDirChange, (*activeController).logDirEvents
	default:
		return
	}
	c.postActive(name, w, run)
}

package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"barnabas/internal/logx"
	"barnabas/zkcoord"
)

// Config is what a controller needs to know of its broker.
type Config struct {
	BrokerID int32
	// Listener is the one on which brokers speak to each other, and where LeaderAndIsr
	// requests say the leaders are (inter.broker.listener.name).
	Listener string
	Protocol Protocol
	// UncleanDefault gives unclean.leader.election.enable of the broker, which topics may
	// override. It may be called from the controller's goroutine at any time. nil: false.
	UncleanDefault     func() bool
	DeleteTopicEnable  bool          // delete.topic.enable
	AutoRebalance      bool          // auto.leader.rebalance.enable
	RebalanceInterval  time.Duration // leader.imbalance.check.interval.seconds. 0: 300 s
	RebalanceThreshold int           // leader.imbalance.per.broker.percentage
	// Reregister registers the broker again. It is called after a ZooKeeper session expired,
	// with the new one, and before the broker races for the controller's office again.
	Reregister func(ctx context.Context) error
	// Handled is told of each event that was handled, on the controller's goroutine. nil: nobody asks.
	Handled func(w Work, waited, took time.Duration)
	// Sent hears how long a request of the controller to a broker has waited to be sent. It must not block. nil: nobody asks.
	Sent func(broker int32, waited time.Duration)
}

const (
	defaultRebalanceInterval = 300 * time.Second
	firstRebalance           = 5 * time.Second // after the election
	retryBackoff             = time.Second     // after an unexpected failure
)

// Controller takes part in the race for the controller's office, and holds it while it is
// the winner. Methods other than Run are safe for concurrent use.
type Controller struct {
	cfg   Config
	world World
	log   *logrus.Entry
	queue eventQueue
	ended chan struct{} // closed when Run has ended

	controller atomic.Int32 // broker id, or zkcoord.NoController
	active     atomic.Bool
	unclean    atomic.Int64
	work       atomic.Int64 // Work of the event that is being handled
	deletions  atomic.Pointer[DeletionCounts]
	links      atomic.Pointer[map[int32]Link] // those of the office, for who asks for their queues; replaced whole
	expired    atomic.Bool                    // the session, and the broker is not registered with the next one yet

	office *office // the loop's; nil when another broker is the controller
	last   int32   // epoch of the last office
}

// New makes a controller; Run makes it work.
func New(cfg Config, store Store, sender Sender, log *logrus.Entry) *Controller {
	return NewIn(RealWorld(store, sender, cfg.Sent), cfg, log)
}

// NewIn makes a controller in a world of its own.
func NewIn(world World, cfg Config, log *logrus.Entry) *Controller {
	if cfg.UncleanDefault == nil {
		cfg.UncleanDefault = func() bool { return false }
	}
	if cfg.RebalanceInterval <= 0 {
		cfg.RebalanceInterval = defaultRebalanceInterval
	}
	c := &Controller{
		cfg:   cfg,
		world: world,
		log:   log.WithField(logx.Broker, cfg.BrokerID),
		ended: make(chan struct{}),
	}
	c.queue.wake = make(chan struct{}, 1)
	c.controller.Store(zkcoord.NoController)
	c.deletions.Store(new(DeletionCounts))
	c.links.Store(new(map[int32]Link))
	return c
}

// Active tells whether this broker is the controller. While it is taking over, what it is asked waits.
func (c *Controller) Active() bool { return c.active.Load() }

// ControllerID gives the controller's broker id as far as this broker knows, or
// zkcoord.NoController.
func (c *Controller) ControllerID() int32 { return c.controller.Load() }

// UncleanElections counts the leaders that this controller made of replicas out of sync, which
// may have lost acknowledged records.
func (c *Controller) UncleanElections() int64 { return c.unclean.Load() }

// DeletionCounts are the topics that are to be deleted, with their replicas that have not been.
type DeletionCounts struct {
	Topics, Replicas int
	HeldTopics       int // those that wait for a broker to come back
	FailedReplicas   int // whose broker is down or could not delete them
}

// Deletions counts what this controller still has to delete; nothing, when another broker is the controller.
func (c *Controller) Deletions() DeletionCounts { return *c.deletions.Load() }

// Queued is how many events wait to be handled.
func (c *Controller) Queued() int { return c.queue.length() }

// QueuedRequests is how many requests wait to be sent to each broker; none, when another broker is the controller.
func (c *Controller) QueuedRequests() map[int32]int {
	queued := make(map[int32]int)
	for id, l := range *c.links.Load() {
		queued[id] = l.Queued()
	}
	return queued
}

// Work is what the event is for that is being handled; Idle, when there is none.
func (c *Controller) Work() Work { return Work(c.work.Load()) }

// Run races for the office, and works in it, until ctx is done. It is called once, and with
// a broker that is registered. The office ends with the ZooKeeper session, not with Run:
// who closes the session gives up registration and office at once.
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

// Start makes the controller listen to ZooKeeper and sends it into the race, for Step to run.
// stop ends both, and the office. Who calls Run needs neither.
func (c *Controller) Start() (stop func()) {
	ignoreChanges := c.world.Store.OnChange(c.onChange)
	ignoreSession := c.world.Store.OnSession(c.onSession)
	c.post("start", ControllerChange, c.race)
	return func() {
		ignoreSession()
		ignoreChanges()
		c.leave()
		close(c.ended)
	}
}

// Step handles the next event that is due, in one thread with all else that calls the
// controller. It tells whether there was one.
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

// inOffice posts something to do if o is still in office when its turn comes.
func (c *Controller) inOffice(o *office, name string, w Work, run func(ctx context.Context) error) {
	c.post(name, w, func(ctx context.Context) error {
		if c.office != o {
			return nil
		}
		return run(ctx)
	})
}

// handle runs an event. What fails leaves an office that may not know the cluster any more:
// it is given up, and the next one, of whoever, reads everything anew.
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
	o := c.office
	c.leave()
	log := c.log.WithError(err).WithField(logx.Value, e.name)
	switch {
	case errors.Is(err, zkcoord.ErrSessionLost): // comeBack follows, or has been
		log.Info("office lost with the session")
		return
	case errors.Is(err, zkcoord.ErrDeposed):
		log.Info("another controller was elected")
		c.postRace()
		return
	}
	log.Error("controller event failed")
	if o != nil && c.world.Store.Resign(ctx, o.term) == nil {
		c.postRace()
		return
	}
	c.world.After(retryBackoff, c.postRace)
}

// leave ends the office, without a word to ZooKeeper.
func (c *Controller) leave() {
	c.active.Store(false)
	c.deletions.Store(new(DeletionCounts))
	if c.office != nil {
		c.links.Store(new(map[int32]Link))
		c.office.close()
		c.office = nil
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
		c.post("new session", ControllerChange, c.comeBack)
	}
}

// comeBack registers the broker with a new session and races.
func (c *Controller) comeBack(ctx context.Context) error {
	c.leave()
	if c.cfg.Reregister != nil {
		if err := c.cfg.Reregister(ctx); err != nil {
			c.log.WithError(err).Error("broker could not be registered again")
			c.world.After(retryBackoff, func() { c.post("new session", ControllerChange, c.comeBack) })
			return nil
		}
	}
	c.expired.Store(false)
	return c.race(ctx)
}

// race looks who the controller is, and becomes it when there is none.
func (c *Controller) race(ctx context.Context) error {
	if c.expired.Load() {
		return nil // comeBack races: a controller must be one of the registered brokers
	}
	id, err := c.world.Store.WatchController(ctx)
	if err != nil {
		return err
	}
	c.controller.Store(id)
	if c.office != nil && id == c.cfg.BrokerID {
		return nil
	}
	c.leave()
	if id != zkcoord.NoController && id != c.cfg.BrokerID {
		return nil
	}
	// The node may name us though we are not in office: the election was won, and its
	// answer lost. Elect finds that out.
	term, won, err := c.world.Store.Elect(ctx, c.cfg.BrokerID)
	if err != nil {
		return err
	}
	if !won {
		if id, err = c.world.Store.WatchController(ctx); err != nil {
			return err
		}
		c.controller.Store(id)
		if id == zkcoord.NoController { // gone again: its watch may have fired before it was set
			c.postRace()
		}
		return nil
	}
	if term.Epoch == c.last {
		// This office was given up, and its node is still there. What it has sent may arrive
		// yet, so that brokers could not tell it from what another office of its epoch sends.
		c.postRace()
		return c.world.Store.Resign(ctx, term)
	}
	c.last = term.Epoch
	if _, err := c.world.Store.WatchController(ctx); err != nil {
		return err
	}
	c.controller.Store(c.cfg.BrokerID)
	c.log.WithField(logx.ControllerEpoch, term.Epoch).Info("elected as controller")
	c.office = newOffice(c, term)
	c.active.Store(true) // requests wait their turn, behind this event; brokers hear of the office before it ends
	if err := c.office.takeOver(ctx); err != nil {
		return err
	}
	return nil
}

// onChange translates what a watch brings into an event of the office.
func (c *Controller) onChange(change zkcoord.Change) {
	if change.Kind == zkcoord.ControllerChanged {
		c.post("controller changed", ControllerChange, c.race)
		return
	}
	var name string
	var w Work
	var run func(o *office, ctx context.Context) error
	switch change.Kind {
	case zkcoord.BrokersChanged, zkcoord.BrokerChanged:
		name, w, run = "brokers changed", BrokerChange, (*office).brokersChanged
	case zkcoord.TopicsChanged:
		name, w, run = "topics changed", TopicChange, (*office).topicsChanged
	case zkcoord.TopicChanged:
		name, w, run = "topic changed", TopicChange, func(o *office, ctx context.Context) error { return o.topicChanged(ctx, change.Topic) }
	case zkcoord.TopicDeletionsChanged:
		name, w, run = "topic deletions changed", TopicDeletion, (*office).deletionsAsked
	case zkcoord.ReassignmentsChanged:
		name, w, run = "reassignments asked", AlterPartitionReassignment, (*office).reassignmentsAsked
	case zkcoord.PreferredElectionChanged:
		name, w, run = "preferred elections asked", ManualLeaderBalance, (*office).preferredElectionAsked
	case zkcoord.ISRNotificationsChanged:
		name, w, run = "ISRs changed", ISRChange, (*office).isrsNotified
	case zkcoord.LogDirEventsChanged:
		name, w, run = "log directory failed", LogDirChange, (*office).logDirEvents
	default:
		return
	}
	c.post(name, w, func(ctx context.Context) error {
		if c.office == nil {
			return nil
		}
		return run(c.office, ctx)
	})
}

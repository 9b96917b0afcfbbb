package acl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// Store is where the ACLs are stored: ZooKeeper.
type Store interface {
	EnsureACLNodes(context.Context) error
	AllACLs(context.Context) (map[Resource][]Entry, error)
	ACLs(context.Context, Resource) ([]Entry, error)
	UpdateACLs(ctx context.Context, r Resource, change func([]Entry) []Entry) error
	WatchACLChanges(ctx context.Context, ready func(), changed func(resources []Resource, all bool)) error
}

// Config configures an authorizer.
type Config struct {
	SuperUsers  []string // TYPE:NAME; may do everything, whatever the ACLs say
	AllowIfNone bool     // resources without ACLs are open to everyone
	NoPrefixes  bool     // inter.broker.protocol.version before 2.0: other brokers would not see prefixed ACLs
	Store       Store
	Failed      func(error)            // called once if ACLs cannot be followed any more
	APIName     func(key int16) string // for the log
	Logger      *logrus.Entry          // for denied operations; at DEBUG also for allowed ones
}

// Authorizer decides who may do what. All its methods except Start and Close are safe for concurrent use.
type Authorizer struct {
	cfg      Config
	super    map[string]bool
	snapshot atomic.Pointer[snapshot]
	lines    logx.Sampler // for denials, which clients cause

	wake    chan struct{}
	refresh await.Signal // notified when done has grown
	mu      struct {
		sync.Mutex
		resources map[Resource]struct{} // to be read again
		all       bool                  // everything is to be read again
		asked     uint64                // number of reads that were requested
		done      uint64                // number of these that are complete
	}

	cancel  context.CancelCauseFunc
	running sync.WaitGroup
}

// denialInterval is the interval between log lines about denials of one kind; each line says how many were suppressed.
const denialInterval = time.Second

// New returns an authorizer that denies everything to everyone except super users until it is started.
func New(cfg Config) *Authorizer {
	a := &Authorizer{cfg: cfg, super: make(map[string]bool), lines: logx.Sampler{Interval: denialInterval}, wake: make(chan struct{}, 1)}
	for _, user := range cfg.SuperUsers {
		a.super[user] = true
	}
	a.mu.resources = make(map[Resource]struct{})
	a.snapshot.Store(newSnapshot(nil))
	return a
}

// Start reads all ACLs and keeps them up to date until Close. ACLs that cannot be read are an error, since what they
// deny would be allowed.
func (a *Authorizer) Start(ctx context.Context) error {
	if err := a.cfg.Store.EnsureACLNodes(ctx); err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	a.cancel = cancel
	watching := make(chan struct{})
	a.running.Go(func() { a.watch(running, watching) })
	select {
	case <-watching: // so that no change after the read is missed
	case <-running.Done():
		return context.Cause(running)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	all, err := a.cfg.Store.AllACLs(ctx)
	if bad := unreadableIn(err); len(bad) > 1 {
		return fmt.Errorf("the ACLs in %s and %d other nodes cannot be read", bad[0].Path(), len(bad)-1)
	}
	if err != nil {
		return err
	}
	a.snapshot.Store(newSnapshot(all))
	a.cfg.Logger.WithField(logx.Count, a.Count()).Info("ACLs loaded")
	a.running.Go(func() { a.keep(running) })
	return nil
}

// watch follows changes until the authorizer is closed.
func (a *Authorizer) watch(ctx context.Context, watching chan struct{}) {
	err := a.cfg.Store.WatchACLChanges(ctx, func() { close(watching) }, func(resources []Resource, all bool) { a.ask(resources, all) })
	if ctx.Err() != nil {
		return
	}
	err = fmt.Errorf("changes of ACLs can no longer be watched: %w", err)
	a.cancel(err)
	a.cfg.Failed(err)
}

// Close ends what Start has begun.
func (a *Authorizer) Close() {
	if a.cancel != nil {
		a.cancel(context.Canceled)
	}
	a.running.Wait()
}

// Count returns the number of ACLs.
func (a *Authorizer) Count() int { return a.snapshot.Load().count() }

// ask requests that resources are read again, and returns the number to wait for.
func (a *Authorizer) ask(resources []Resource, all bool) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range resources {
		a.mu.resources[r] = struct{}{}
	}
	a.mu.all = a.mu.all || all
	a.mu.asked++
	select {
	case a.wake <- struct{}{}:
	default: // already awake
	}
	return a.mu.asked
}

// reread waits until resources have been read again.
func (a *Authorizer) reread(ctx context.Context, resources []Resource) error {
	return a.await(ctx, a.ask(resources, false))
}

// await waits until a requested read is complete.
func (a *Authorizer) await(ctx context.Context, number uint64) error {
	return await.Until(ctx, func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.mu.done >= number, nil
	}, &a.refresh)
}

// keep is the goroutine that replaces the snapshot.
func (a *Authorizer) keep(ctx context.Context) {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		resources, all, asked := a.taken()
		if all {
			resources, all = nil, !a.readAll(ctx)
		} else {
			resources = a.read(ctx, resources)
		}
		a.served(asked)
		if all || len(resources) > 0 {
			time.AfterFunc(rereadPause, func() { a.ask(resources, all) })
		}
	}
}

// rereadPause is the time after which ACLs that could not be read are read again.
const rereadPause = 10 * time.Second

func (a *Authorizer) taken() (resources []Resource, all bool, asked uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r := range a.mu.resources {
		resources = append(resources, r)
	}
	all, asked = a.mu.all, a.mu.asked
	clear(a.mu.resources)
	a.mu.all = false
	return resources, all, asked
}

func (a *Authorizer) served(asked uint64) {
	a.mu.Lock()
	a.mu.done = asked
	a.mu.Unlock()
	a.refresh.Notify()
}

// read applies the current ACLs of resources. Those that cannot be read stay as they were; it returns the ones among them
// that may be readable later.
func (a *Authorizer) read(ctx context.Context, resources []Resource) (failed []Resource) {
	changes := make(map[Resource][]Entry, len(resources))
	for _, r := range resources {
		entries, err := a.cfg.Store.ACLs(ctx, r)
		if err != nil {
			a.unreadable(ctx, err)
			if len(unreadableIn(err)) == 0 { // otherwise the content is bad, and whoever corrects it will announce that
				failed = append(failed, r)
			}
			continue
		}
		changes[r] = entries
	}
	if len(changes) > 0 {
		a.snapshot.Store(a.snapshot.Load().with(changes))
	}
	return failed
}

// readAll applies all current ACLs. Those whose content is bad stay as they were. It reports whether they could be
// listed.
func (a *Authorizer) readAll(ctx context.Context) bool {
	all, err := a.cfg.Store.AllACLs(ctx)
	if err != nil {
		a.unreadable(ctx, err)
		if all == nil {
			return false
		}
		for _, r := range unreadableIn(err) {
			if last := a.snapshot.Load().entries(r); len(last) > 0 {
				all[r] = last
			}
		}
	}
	a.snapshot.Store(newSnapshot(all))
	return true
}

// unreadableIn returns the resources whose ACLs an error reports as unreadable.
func unreadableIn(err error) []Resource {
	var one *zkcoord.ErrUnreadableACLs
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []Resource
		for _, e := range joined.Unwrap() {
			all = append(all, unreadableIn(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []Resource{one.Resource}
	}
	return nil
}

func (a *Authorizer) unreadable(ctx context.Context, err error) {
	if ctx.Err() == nil {
		a.cfg.Logger.WithError(err).Error("cannot read the changed ACLs, keeping the previous ones")
	}
}

// AccessRequest describes an operation that a client wants to carry out.
type AccessRequest struct {
	Who  Subject
	Op   Operation
	Type ResourceType
	Name string
	API  int16 // of the request, for the log
	// Quiet requests only find out what is allowed, for example to filter a list. A denial is then not logged.
	Quiet bool
}

// Allowed reports whether an operation is allowed (AclAuthorizer.authorize, 3.9).
func (a *Authorizer) Allowed(q *AccessRequest) bool {
	ok := a.super[q.Who.Principal]
	if !ok {
		switch a.snapshot.Load().decide(q.Who, q.Op, q.Type, q.Name) {
		case allowed:
			ok = true
		case unmentioned:
			ok = a.cfg.AllowIfNone
		}
	}
	a.log(q, ok)
	return ok
}

// AllowedSomewhere reports whether the operation may be allowed on some resource of the type (KIP-679); the name in the
// request is ignored. It examines all ACLs of the type.
func (a *Authorizer) AllowedSomewhere(q *AccessRequest) bool {
	ok := a.super[q.Who.Principal]
	if !ok {
		answer := a.snapshot.Load().decideSomewhere(q.Who, q.Op, q.Type)
		ok = answer == allowed || answer != denied && a.cfg.AllowIfNone
	}
	a.log(q, ok)
	return ok
}

// log writes an audit line. Of denials of one kind, one per second is logged, with the number of those suppressed.
func (a *Authorizer) log(q *AccessRequest, ok bool) {
	level, message := logrus.InfoLevel, "denied"
	if ok {
		level, message = logrus.DebugLevel, "allowed"
	}
	if q.Quiet {
		level = logrus.TraceLevel
	}
	if !a.cfg.Logger.Logger.IsLevelEnabled(level) {
		return
	}
	line, show := a.cfg.Logger, true
	if level == logrus.InfoLevel {
		line, show = a.lines.Line(a.cfg.APIName(q.API)+" "+q.Op.String()+" "+q.Type.String(), line)
	}
	if show {
		line.WithFields(logrus.Fields{logx.Principal: q.Who.Principal, logx.Host: q.Who.Host, logx.Operation: q.Op.String(),
			logx.Resource: about(q.Type, q.Name), logx.API: a.cfg.APIName(q.API)}).Log(level, message)
	}
}

// Bindings returns all ACLs that match a filter, sorted by resource.
func (a *Authorizer) Bindings(f Filter) []Binding {
	var found []Binding
	a.snapshot.Load().each(func(r Resource, entries []Entry) {
		if !f.matchesResource(r) {
			return
		}
		for _, e := range entries {
			if f.matchesEntry(e) {
				found = append(found, Binding{r, e})
			}
		}
	})
	slices.SortFunc(found, Binding.compare)
	return found
}

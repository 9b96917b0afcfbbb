package txn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"barnabas/internal/await"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Block is a range of producer ids that is this broker's alone.
type Block struct {
	First int64
	Count int32
}

// ProducerIDs gives out producer ids from blocks that the controller allocates. The next block is fetched in
// the background, before the current one is used up (RPCProducerIdManager, 3.9; KIP-730).
type ProducerIDs struct {
	allocate func(context.Context) (Block, error)
	log      *logrus.Entry
	ctx      context.Context
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	arrived  await.Signal // rings when there is a new block

	mu struct {
		sync.Mutex
		current  Block // what is left of it
		next     *Block
		fetching bool
	}
}

const (
	prefetchBelow   = 100 // ids left when the next block is fetched: a tenth of the controller's 1,000
	allocateTimeout = 30 * time.Second
	allocateBackoff = 50 * time.Millisecond
	// allocatePatience is how long a request waits for a block. Not every client comes back when it hears that there is none.
	allocatePatience = time.Second
)

// errNoBlock is COORDINATOR_LOAD_IN_PROGRESS.
var errNoBlock = fmt.Errorf("the next block of producer ids is on its way: %w", kerr.CoordinatorLoadInProgress)

// NewProducerIDs returns a source of ids without any yet. Close ends its background work.
func NewProducerIDs(allocate func(context.Context) (Block, error), log *logrus.Entry) *ProducerIDs {
	p := &ProducerIDs{allocate: allocate, log: log}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close ends a fetch under way.
func (p *ProducerIDs) Close() {
	p.cancel()
	p.mu.Lock()
	p.mu.fetching = true // no other one begins
	p.mu.Unlock()
	p.tasks.Wait()
}

// Prefetch takes the first block, for a broker that shall have one from its start (ZkProducerIdManager, 3.9: before KIP-730).
func (p *ProducerIDs) Prefetch(ctx context.Context) error {
	block, err := p.allocate(ctx)
	if err != nil {
		return fmt.Errorf("cannot take a block of producer ids: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next = &block
	return nil
}

// Wait is Next that waits a moment for a block.
func (p *ProducerIDs) Wait(ctx context.Context) (id int64, err error) {
	if id, err = p.Next(); err == nil {
		return id, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, allocatePatience, err)
	defer cancel()
	err = await.Until(ctx, func() (bool, error) {
		var err error
		id, err = p.Next()
		return err == nil, nil
	}, &p.arrived)
	return id, err
}

// Next gives an id that nobody else has. While the first block is on its way it is
// COORDINATOR_LOAD_IN_PROGRESS, which clients retry.
func (p *ProducerIDs) Next() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.current.Count == 0 && p.mu.next != nil {
		p.mu.current, p.mu.next = *p.mu.next, nil
	}
	if p.mu.current.Count <= prefetchBelow && p.mu.next == nil && !p.mu.fetching {
		p.mu.fetching = true
		p.tasks.Go(p.fetch)
	}
	if p.mu.current.Count == 0 {
		return -1, errNoBlock
	}
	id := p.mu.current.First
	p.mu.current.First++
	p.mu.current.Count--
	return id, nil
}

// fetch asks until there is a block.
func (p *ProducerIDs) fetch() {
	for {
		ctx, cancel := context.WithTimeout(p.ctx, allocateTimeout)
		block, err := p.allocate(ctx)
		cancel()
		if err == nil {
			p.mu.Lock()
			p.mu.next, p.mu.fetching = &block, false
			p.mu.Unlock()
			p.arrived.Notify()
			return
		}
		p.log.WithError(err).Info("the controller gave no producer ids, trying again")
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(allocateBackoff):
		}
	}
}

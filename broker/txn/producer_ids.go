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

// Block is a range of producer ids that belongs to this broker alone.
type Block struct {
	First int64
	Count int32
}

// ProducerIDs assigns producer ids from blocks that the controller allocates. The next block is fetched in the
// background before the current one is used up (RPCProducerIdManager, 3.9; KIP-730).
type ProducerIDs struct {
	allocate func(context.Context) (Block, error)
	log      *logrus.Entry
	ctx      context.Context
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	arrived  await.Signal // notified when there is a new block

	mu struct {
		sync.Mutex
		current  Block // the unused part
		next     *Block
		fetching bool
	}
}

const (
	prefetchBelow   = 100 // ids left when the next block is fetched: a tenth of the controller's 1,000
	allocateTimeout = 30 * time.Second
	allocateBackoff = 50 * time.Millisecond
	// allocatePatience is how long a request waits for a block. Not every client retries when there is none.
	allocatePatience = time.Second
)

// errNoBlock is COORDINATOR_LOAD_IN_PROGRESS.
var errNoBlock = fmt.Errorf("the next block of producer ids is being fetched: %w", kerr.CoordinatorLoadInProgress)

// NewProducerIDs returns a source without any ids yet. Close ends its background work.
func NewProducerIDs(allocate func(context.Context) (Block, error), log *logrus.Entry) *ProducerIDs {
	p := &ProducerIDs{allocate: allocate, log: log}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close cancels a fetch in progress.
func (p *ProducerIDs) Close() {
	p.cancel()
	p.mu.Lock()
	p.mu.fetching = true // prevents another one
	p.mu.Unlock()
	p.tasks.Wait()
}

// Prefetch fetches the first block, for brokers that must have one from the start (ZkProducerIdManager, 3.9: before
// KIP-730).
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

// Wait is Next, but waits briefly for a block.
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

// Next returns an unused id. While the first block is being fetched the error is COORDINATOR_LOAD_IN_PROGRESS, on which
// clients retry.
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

// fetch requests a block until it gets one.
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
		p.log.WithError(err).Info("cannot get producer ids from the controller, trying again")
		if await.Pause(p.ctx, allocateBackoff) != nil {
			return
		}
	}
}

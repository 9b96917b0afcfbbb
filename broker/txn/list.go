package txn

import (
	"slices"
	"time"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Description is what is known about a transactional id.
type Description struct {
	Identity
	State      State
	Timeout    time.Duration
	Started    int64                     // ms; -1: not open
	Partitions []logstore.TopicPartition // ordered by topic and number; while markers are being written, those still without one
}

// Describe describes an id. The error is TRANSACTIONAL_ID_NOT_FOUND if there is none.
func (c *Coordinator) Describe(id string) (Description, error) {
	s, err := c.shardOf(id)
	if err != nil {
		return Description{}, err
	}
	t, found, err := s.view(id)
	if err != nil {
		return Description{}, err
	}
	if !found {
		return Description{}, fault(kerr.TransactionalIDNotFound, "transactional id %q", id)
	}
	return Description{t.Identity, t.state, t.timeout, t.started, t.partitions.sorted()}, nil
}

// Filter selects ids for List. A nil field selects all.
type Filter struct {
	States    []State
	Producers []int64
	OpenFor   time.Duration // longer than this; negative: any
}

func (f *Filter) has(t *transaction, now int64) bool {
	return (f.States == nil || slices.Contains(f.States, t.state)) &&
		(f.Producers == nil || slices.Contains(f.Producers, t.ID)) &&
		(f.OpenFor < 0 || now-t.started > f.OpenFor.Milliseconds())
}

// Listing is one id in a list.
type Listing struct {
	ID       string
	Producer int64
	State    State
}

// List returns the ids that this broker coordinates and that match the filter, in no particular order. The error is
// COORDINATOR_LOAD_IN_PROGRESS while not all are loaded.
func (c *Coordinator) List(f Filter) ([]Listing, error) {
	all, err := c.shards()
	if err != nil {
		return nil, err
	}
	var list []Listing
	now := c.now()
	for _, s := range all {
		err := s.each(func(id string, t *transaction, _ bool) {
			if f.has(t, now) {
				list = append(list, Listing{id, t.ID, t.state})
			}
		})
		if err != nil && s.ctx.Err() == nil {
			return nil, err
		}
	}
	return list, nil
}

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
	Started    int64                     // ms, -1: not
	Partitions []logstore.TopicPartition // by topic and number; while markers are written, those without theirs
}

// Describe tells about an id: TRANSACTIONAL_ID_NOT_FOUND when there is none.
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

// Filter chooses ids for List. A filter that is nil chooses all.
type Filter struct {
	States    []State
	Producers []int64
	OpenFor   time.Duration // longer than this; negative: all
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

// List gives the ids that this broker looks after and a filter chooses, in no order: COORDINATOR_LOAD_IN_PROGRESS while it
// does not know all of them.
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

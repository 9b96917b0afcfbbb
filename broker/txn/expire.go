package txn

import (
	"context"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
)

// abortTimedOut aborts the transactions that have been open for longer than their timeout. The epoch is incremented, so
// that a producer that comes back is fenced (TransactionCoordinator.abortTimedOutTransactions, 3.9).
func (c *Coordinator) abortTimedOut() {
	all, err := c.shards()
	if err != nil {
		return
	}
	for _, s := range all {
		var late []string
		now := c.now()
		_ = s.each(func(id string, t *transaction, busy bool) { // a shard that is being loaded is checked the next time
			if !busy && t.timedOut(now) {
				late = append(late, id)
			}
		})
		for _, id := range late {
			c.abortLate(s, id)
		}
	}
}

func (c *Coordinator) abortLate(s *shard, id string) {
	done, err := s.step(id, c.now(), func(known *transaction) (transaction, bool, error) {
		if known == nil || !known.timedOut(c.now()) {
			return transaction{}, false, nil // it has ended in between
		}
		return known.fence(c.now()), true, nil
	})
	log := c.log.WithField(logx.TxnID, id)
	switch {
	case err != nil:
		log.WithError(err).Info("cannot abort a transaction that has timed out, trying again")
	case done.end != 0:
		log.WithFields(logrus.Fields{logx.ProducerID: done.ID, logx.ProducerEpoch: done.Epoch}).
			Info("aborting a transaction that takes too long")
		c.background(func() { c.finish(s, id, done.epoch, done.end) })
	}
}

// expireIdle forgets the ids that have not been used for long.
func (c *Coordinator) expireIdle() {
	all, err := c.shards()
	if err != nil {
		return
	}
	for _, s := range all {
		total, err := c.expireIn(s)
		log := c.log.WithFields(logrus.Fields{logx.Partition: s.partition, logx.Count: total})
		if err != nil && !isOne(err, context.Canceled) {
			log.WithError(err).Info("cannot remove all unused transactional ids")
		} else if total > 0 {
			log.Info("removed unused transactional ids")
		}
	}
}

func (c *Coordinator) expireIn(s *shard) (total int, err error) {
	idle := func(t *transaction) bool { return t.idle(c.now(), c.cfg.Expiration) }
	for more := true; more && s.ctx.Err() == nil; {
		var count int
		if count, more, err = s.expire(c.now(), idle); err != nil {
			return total, err
		}
		total += count
	}
	return total, nil
}

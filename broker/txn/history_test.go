package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/seeds"
	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// attempt is a transaction as its producer sees it.
type attempt struct {
	number    int
	records   map[logstore.TopicPartition]int // acknowledged records
	added     map[logstore.TopicPartition]bool
	tried     bool // a commit was attempted
	committed bool // and acknowledged
	aborted   bool // and acknowledged
	ending    bool // a response is missing: a retry must end it the same way
	commit    bool
}

// producer is one incarnation of a transactional id. It continues after it has become a zombie.
type producer struct {
	id   string
	self Identity
	open *attempt
	seq  map[logstore.TopicPartition]int32
	used bool // it has ended a transaction with this epoch
	dead bool // it knows that it is fenced or cannot continue
}

// history is a random history of a cluster.
type history struct {
	*world
	producers []*producer
	attempts  []*attempt
	late      []func() // notifications of brokers that do not know yet that they have lost a leadership
}

const clientPatience = 300 * time.Millisecond

func (h *history) intn(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.rng.IntN(n)
}

func (h *history) call(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	err := f(ctx)
	if h.chance(h.trouble() / 4) {
		return errLost // the response is lost: the request may have been executed
	}
	return err
}

// restart begins a new incarnation of an id. The earlier one may continue.
func (h *history) restart(id string) {
	p := &producer{id: id, seq: make(map[logstore.TopicPartition]int32)}
	err := h.call(func(ctx context.Context) (err error) {
		p.self, err = h.coordinator(id).InitProducerID(ctx, id, 10*time.Second, nil)
		return err
	})
	if err == nil {
		h.producers = append(h.producers, p)
	}
}

// resume requests the next epoch for the same producer (KIP-360).
func (h *history) resume(p *producer) {
	var next Identity
	err := h.call(func(ctx context.Context) (err error) {
		next, err = h.coordinator(p.id).InitProducerID(ctx, p.id, 10*time.Second, &p.self)
		return err
	})
	switch {
	case err == nil:
		p.self, p.open, p.seq, p.used, p.dead = next, nil, make(map[logstore.TopicPartition]int32), false, false
	case errors.Is(err, kerr.ProducerFenced):
		p.dead = true
	}
}

// write adds a partition to the producer's transaction if necessary, and produces a record.
func (h *history) write(p *producer) {
	if p.open == nil {
		a := &attempt{number: len(h.attempts), records: make(map[logstore.TopicPartition]int), added: make(map[logstore.TopicPartition]bool)}
		h.attempts = append(h.attempts, a)
		p.open = a
	}
	if p.open.ending {
		return
	}
	tp := logstore.TopicPartition{Topic: "t", Partition: int32(h.intn(len(h.data)))}
	// Some producers do not add it. That is detected, unless markers of the producer's last transaction are still being
	// written.
	if !p.open.added[tp] && (p.used || !h.chance(0.1)) {
		err := h.call(func(ctx context.Context) error {
			return h.coordinator(p.id).AddPartitions(ctx, p.id, p.self, []logstore.TopicPartition{tp})
		})
		if p.dead = p.dead || fatal(err); err != nil {
			return
		}
		p.open.added[tp] = true
	}
	a := p.open
	err := h.produce(p, tp)
	switch {
	case err == nil:
		a.records[tp]++
		p.seq[tp]++
	case errors.Is(err, kerr.InvalidProducerEpoch), errors.Is(err, kerr.OutOfOrderSequenceNumber):
		p.dead = true
	}
}

func fatal(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.InvalidTxnState)
}

// produce handles a transactional record as a partition leader does.
func (h *history) produce(p *producer, tp logstore.TopicPartition) error {
	leader, _ := h.leader(tp)
	if leader < 0 {
		return kerr.NotLeaderForPartition
	}
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = p.self.ID, p.self.Epoch, p.seq[tp], true
	b.Add(time.Now().UnixMilli(), nil, []byte(strconv.Itoa(p.open.number)))
	o := logstore.LeaderAppend{Origin: logstore.Client, Verify: true}
	guard, needed := h.data[tp].StartVerification(p.self.ID, p.self.Epoch, p.seq[tp])
	if needed {
		o.Guard = guard
		ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
		defer cancel()
		missing, err := h.brokers[leader].VerifyAtCoordinator(ctx, p.id, p.self, []logstore.TopicPartition{tp})
		if err == nil {
			err = missing[tp]
		}
		if err != nil {
			return err
		}
		h.meanwhile(p)
	}
	return h.append(tp, b.MustBuild(), o)
}

// meanwhile may end the producer's transaction between its verification and the append.
func (h *history) meanwhile(p *producer) {
	switch h.intn(10) {
	case 0:
		h.restart(p.id)
		synctest.Wait()
	case 1:
		h.end(p)
		synctest.Wait()
	case 2:
		time.Sleep(12 * time.Second) // longer than the transaction timeout
		synctest.Wait()
	}
}

// end commits or aborts, retrying until there is a response.
func (h *history) end(p *producer) {
	a := p.open
	if a == nil || len(a.added) == 0 && !a.ending {
		return
	}
	if !a.ending {
		a.ending, a.commit = true, h.chance(0.7)
	}
	a.tried = a.tried || a.commit
	err := h.call(func(ctx context.Context) error { return h.coordinator(p.id).EndTxn(ctx, p.id, p.self, a.commit) })
	switch {
	case err == nil:
		a.committed, a.aborted, p.open, p.used = a.commit, !a.commit, nil, true
	case fatal(err):
		p.dead = true
	}
}

// injectFault makes a fault happen to the cluster.
func (h *history) injectFault() {
	log := h.intn(worldLogs)
	r := h.logs[log]
	switch h.intn(7) {
	case 0:
		tell := h.lead(log, int32(h.intn(worldBrokers)))
		if h.chance(0.5) {
			tell()
		} else {
			h.late = append(h.late, tell)
		}
	case 1:
		h.tellLate()
	case 2:
		tp := logstore.TopicPartition{Topic: "t", Partition: int32(h.intn(len(h.data)))}
		h.setLeader(tp, int32(h.intn(worldBrokers+1))-1)
	case 3:
		r.set(func() { r.mu.held = !r.mu.held })
	case 4:
		r.set(func() { r.mu.few = !r.mu.few })
	default:
		time.Sleep(time.Duration(h.intn(3000)) * time.Millisecond)
	}
}

func (h *history) tellLate() {
	for _, tell := range h.late {
		tell()
	}
	h.late = nil
}

// heal ends all faults and lets the cluster settle.
func (h *history) heal() {
	h.tellLate()
	h.mu.Lock()
	h.mu.trouble = 0
	for tp, id := range h.mu.leaders {
		h.mu.leaders[tp] = max(id, 0)
	}
	h.mu.Unlock()
	h.metadata.Notify()
	for _, r := range h.logs {
		r.set(func() { r.mu.held, r.mu.few = false, false })
	}
	time.Sleep(time.Minute) // longer than any transaction timeout
	synctest.Wait()
}

func (h *history) run(steps int) {
	ids := []string{"id-0", "id-1", "id-2"}
	for _, id := range ids {
		h.restart(id)
	}
	h.mu.Lock()
	h.mu.trouble = 0.1
	h.mu.Unlock()
	for range steps {
		if h.chance(0.05) || len(h.producers) == 0 {
			h.restart(ids[h.intn(len(ids))])
		}
		if h.chance(0.15) {
			h.injectFault()
		}
		if h.chance(0.2) { // the followers are back
			log := h.logs[h.intn(worldLogs)]
			log.set(func() { log.mu.held, log.mu.few = false, false })
		}
		if len(h.producers) == 0 {
			continue
		}
		p := h.producers[h.intn(len(h.producers))]
		if h.chance(0.5) { // more often the newest one; the others are zombies by now
			p = h.producers[len(h.producers)-1-h.intn(min(len(h.producers), len(ids)))]
		}
		switch n := h.intn(10); {
		case p.dead && n < 8:
		case n == 0 || p.dead:
			h.resume(p)
		case n < 7:
			h.write(p)
		default:
			h.end(p)
		}
		if h.chance(0.3) {
			synctest.Wait()
		}
	}
}

// check reads all partitions as a consumer with read_committed does.
func (h *history) check() {
	seen := make(map[int]map[logstore.TopicPartition]int)
	for tp, log := range h.data {
		if end, stable := log.LogEndOffset(), log.LastStableOffset(); end != stable {
			h.t.Errorf("%v: the last stable offset is %d, the log end %d", tp, stable, end)
		}
		for _, number := range committedIn(h.t, log) {
			if seen[number] == nil {
				seen[number] = make(map[logstore.TopicPartition]int)
			}
			seen[number][tp]++
		}
	}
	for _, a := range h.attempts {
		if err := a.judge(seen[a.number]); err != nil {
			h.t.Errorf("transaction %d: %v; %+v", a.number, err, *a)
		}
	}
	for _, c := range h.brokers {
		list, err := c.List(Filter{OpenFor: -1})
		if err != nil {
			h.t.Error(err)
		}
		for _, l := range list {
			if l.State == Ongoing || l.State == PrepareAbort || l.State == PrepareCommit {
				h.t.Errorf("%s is still %v", l.ID, l.State)
			}
		}
	}
}

func (a *attempt) judge(seen map[logstore.TopicPartition]int) error {
	all, none := true, len(seen) == 0
	for tp, n := range a.records {
		all = all && seen[tp] == n
	}
	for tp, n := range seen {
		all = all && a.records[tp] == n
	}
	switch {
	case a.committed && !all:
		return fmt.Errorf("it was committed, but consumers see %v", seen)
	case a.aborted && !none, !a.tried && !none:
		return fmt.Errorf("it was not committed, but consumers see %v", seen)
	case !all && !none:
		return fmt.Errorf("consumers see only part of it: %v", seen)
	}
	return nil
}

// committedIn lists the values that a read_committed consumer gets: up to the last stable offset, without aborted
// records and markers.
func committedIn(t testing.TB, log *logstore.Log) []int {
	stable := log.LastStableOffset()
	aborted, err := log.AbortedTransactions(0, stable)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(aborted, func(a, b logstore.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	var values []int
	dropping := make(map[int64]bool)
	for _, b := range batchesOf(t, log, stable) {
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			dropping[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case b.Control():
			delete(dropping, b.ProducerID())
		case !dropping[b.ProducerID()]:
			_ = b.Records(func(r *record.Record) error {
				n, err := strconv.Atoi(string(r.Value))
				values = append(values, n)
				return err
			})
		}
	}
	return values
}

func batchesOf(t testing.TB, log *logstore.Log, end int64) []record.Batch {
	var batches []record.Batch
	for offset := int64(0); offset < end; {
		r, err := log.Read(offset, 1<<20, end, true)
		if err != nil {
			t.Fatal(err)
		}
		data, err := r.Append(nil)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		walk := record.Split(data)
		for walk.Next() {
			batches = append(batches, walk.Batch())
			offset = walk.Batch().LastOffset() + 1
		}
	}
	return batches
}

// TestHistories runs producers, zombies among them, through failovers, lost requests and lost responses. In the end a
// consumer must see all records of a transaction or none: all if its commit was acknowledged, none if no commit was
// attempted or its abort was acknowledged; and no transaction may hang.
func TestHistories(t *testing.T) {
	const steps = 600
	for seed := range seeds.Count(t, 30, 5) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &history{world: newWorld(t, seed, 4)}
				defer h.close()
				h.run(steps)
				h.heal()
				h.check()
				committed := 0
				for _, a := range h.attempts {
					if a.committed {
						committed++
					}
				}
				t.Logf("%d transactions, %d known to be committed", len(h.attempts), committed)
			})
		})
	}
}

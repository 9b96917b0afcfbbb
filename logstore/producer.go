package logstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// rememberedBatches is how many of a producer's last batches are remembered, so that a retry of any of them is
// recognised: as many as an idempotent producer may have in flight (KIP-98).
const rememberedBatches = 5

// ProducerState is what a log knows about an idempotent producer.
type ProducerState struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32 // -1: none
	LastTimestamp    int64 // ms; -1: none
	CoordinatorEpoch int32 // of the last transaction marker; -1: none
	TxnFirstOffset   int64 // of the open transaction; -1: none
}

// producerBatch is an appended batch of a producer.
type producerBatch struct {
	lastSeq     int32
	lastOffset  int64
	offsetDelta int32
	timestamp   int64
}

func newProducerBatch(b record.Batch) producerBatch {
	return producerBatch{b.LastSequence(), b.LastOffset(), b.LastOffsetDelta(), b.MaxTimestamp()}
}

// firstSeq accounts for the wraparound of sequence numbers.
func (b *producerBatch) firstSeq() int32 {
	if b.lastSeq < b.offsetDelta {
		return math.MaxInt32 - (b.offsetDelta - b.lastSeq) + 1
	}
	return b.lastSeq - b.offsetDelta
}

func (b *producerBatch) firstOffset() int64 { return b.lastOffset - int64(b.offsetDelta) }

// producer is the state of one producer id.
type producer struct {
	id               int64
	epoch            int16
	coordinatorEpoch int32
	lastTimestamp    int64
	txnFirst         int64 // -1: none
	batches          [rememberedBatches]producerBatch
	n                int // number of batches, oldest first
}

func newProducer(id int64) *producer {
	return &producer{id: id, epoch: record.NoProducerEpoch, coordinatorEpoch: -1, lastTimestamp: record.NoTimestamp, txnFirst: -1}
}

func (p *producer) last() *producerBatch {
	if p.n == 0 {
		return nil
	}
	return &p.batches[p.n-1]
}

func (p *producer) lastSeq() int32 {
	if p.n == 0 {
		return record.NoSequence
	}
	return p.batches[p.n-1].lastSeq
}

// duplicate returns the remembered batch that b repeats, or nil.
func (p *producer) duplicate(b record.Batch) *producerBatch {
	if b.ProducerEpoch() != p.epoch {
		return nil
	}
	first, last := b.BaseSequence(), b.LastSequence()
	for i := range p.n {
		if m := &p.batches[i]; m.lastSeq == last && m.firstSeq() == first {
			return m
		}
	}
	return nil
}

// setEpoch forgets the batches of an earlier epoch.
func (p *producer) setEpoch(epoch int16) {
	if epoch != p.epoch {
		p.epoch, p.n = epoch, 0
	}
}

func (p *producer) add(m producerBatch) {
	if p.n == rememberedBatches {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = m
	p.n++
}

// openTxn is a transaction without its marker; completedTxn, one whose marker is not below the high watermark yet.
type openTxn struct{ producerID, first int64 }
type completedTxn struct{ first, last int64 }

// producerTable is the state of all producers of a log and of their transactions. The Log's lock guards it.
type producerTable struct {
	byID map[int64]*producer
	end  int64          // the state is that before this offset
	open []openTxn      // by first offset
	done []completedTxn // by last offset; they still hold back the last stable offset
	keep time.Duration  // idle time after which producers are forgotten

	verifying map[int64]*verification // by producer id; not stored
}

func newProducerTable(keep time.Duration) *producerTable {
	return &producerTable{byID: make(map[int64]*producer), verifying: make(map[int64]*verification), keep: keep}
}

// reset forgets everything; the state is that before end.
func (t *producerTable) reset(end int64) {
	clear(t.byID)
	clear(t.verifying)
	t.end, t.open, t.done = end, nil, nil
}

// check checks whether b may follow what its producer has appended. Sequence numbers are checked only for clients
// (ProducerAppendInfo, 3.9); batches of coordinators have none.
func (t *producerTable) check(b record.Batch, o LeaderAppend) error {
	if err := t.checkVerified(b, o); err != nil {
		return err
	}
	client := o.Origin == Client
	epoch := b.ProducerEpoch()
	p, known := t.byID[b.ProducerID()]
	switch {
	case epoch < record.NoProducerEpoch:
		return fmt.Errorf("producer %d has epoch %d: %w", b.ProducerID(), epoch, kerr.InvalidProducerEpoch)
	case known:
	case client:
		return t.checkLowest(b)
	default:
		return nil
	}
	if epoch < p.epoch {
		return fmt.Errorf("producer %d has epoch %d, not %d: %w", p.id, p.epoch, epoch, kerr.InvalidProducerEpoch)
	}
	if b.Control() {
		return p.checkMarker(b)
	}
	if client {
		if err := t.checkLowest(b); err != nil {
			return err
		}
		if err := p.checkSequence(epoch, b.BaseSequence()); err != nil {
			return err
		}
	}
	if p.txnFirst >= 0 && !b.Transactional() {
		return fmt.Errorf("producer %d has an open transaction: %w", p.id, kerr.InvalidTxnState)
	}
	return nil
}

func (p *producer) checkSequence(epoch int16, first int32) error {
	if p.epoch == record.NoProducerEpoch {
		return nil // known only from a batch without an epoch: nothing to compare with
	}
	if epoch != p.epoch {
		if first != 0 {
			return fmt.Errorf("producer %d begins epoch %d with sequence %d: %w", p.id, epoch, first, kerr.OutOfOrderSequenceNumber)
		}
		return nil
	}
	if last := p.lastSeq(); first != last+1 && (first != 0 || last != math.MaxInt32) {
		return fmt.Errorf("producer %d sends sequence %d after %d: %w", p.id, first, last, kerr.OutOfOrderSequenceNumber)
	}
	return nil
}

func (p *producer) checkMarker(b record.Batch) error {
	m, ok, err := parseMarker(b)
	if err == nil && ok && m.coordinatorEpoch < p.coordinatorEpoch {
		err = fmt.Errorf("marker of coordinator epoch %d after one of %d: %w", m.coordinatorEpoch, p.coordinatorEpoch,
			kerr.TransactionCoordinatorFenced)
	}
	return err
}

// apply adds a batch that is in the log. For a marker that aborts a transaction it returns the transaction.
func (t *producerTable) apply(b record.Batch) (aborted AbortedTxn, ok bool, err error) {
	defer func() { t.end = b.LastOffset() + 1 }()
	if !b.HasProducerID() {
		return AbortedTxn{}, false, nil
	}
	if b.Transactional() { // the transaction has its first records, or ends: an answer that comes later is about another one
		delete(t.verifying, b.ProducerID())
	}
	if b.Control() {
		return t.applyMarker(b)
	}
	p := t.get(b.ProducerID())
	p.setEpoch(b.ProducerEpoch())
	p.add(newProducerBatch(b))
	p.lastTimestamp = b.MaxTimestamp()
	if b.Transactional() && p.txnFirst < 0 {
		p.txnFirst = b.BaseOffset()
		t.open = append(t.open, openTxn{p.id, p.txnFirst})
	}
	return AbortedTxn{}, false, nil
}

func (t *producerTable) get(id int64) *producer {
	p := t.byID[id]
	if p == nil {
		p = newProducer(id)
		t.byID[id] = p
	}
	return p
}

func (t *producerTable) applyMarker(b record.Batch) (aborted AbortedTxn, ok bool, err error) {
	m, ok, err := parseMarker(b)
	if err != nil || !ok {
		return AbortedTxn{}, false, err
	}
	p := t.get(b.ProducerID())
	p.setEpoch(b.ProducerEpoch())
	p.coordinatorEpoch, p.lastTimestamp = m.coordinatorEpoch, m.timestamp
	first := p.txnFirst
	if p.txnFirst = -1; first < 0 {
		return AbortedTxn{}, false, nil // a marker without data holds nothing back
	}
	t.open = slices.DeleteFunc(t.open, func(o openTxn) bool { return o.producerID == p.id })
	t.done = append(t.done, completedTxn{first, b.BaseOffset()})
	if m.commit {
		return AbortedTxn{}, false, nil
	}
	stable := b.BaseOffset() + 1
	if len(t.open) > 0 {
		stable = t.open[0].first
	}
	return AbortedTxn{p.id, first, b.BaseOffset(), stable}, true, nil
}

// firstUnstable returns the first offset of a transaction that is open, or whose marker is not below the high
// watermark; -1 if there is none.
func (t *producerTable) firstUnstable() int64 {
	first := int64(-1)
	if len(t.open) > 0 {
		first = t.open[0].first
	}
	for _, d := range t.done {
		if first < 0 || d.first < first {
			first = d.first
		}
	}
	return first
}

// replicated forgets the ended transactions whose marker is below the high watermark.
func (t *producerTable) replicated(highWatermark int64) {
	t.done = slices.DeleteFunc(t.done, func(d completedTxn) bool { return d.last < highWatermark })
}

// expire forgets producers without an open transaction that have been idle for too long.
func (t *producerTable) expire(now time.Time) {
	for id, p := range t.byID {
		if p.txnFirst < 0 && t.expired(p, now) {
			delete(t.byID, id)
		}
	}
	for id, v := range t.verifying {
		if t.keep > 0 && now.Sub(v.since) >= t.keep {
			delete(t.verifying, id)
		}
	}
}

func (t *producerTable) expired(p *producer, now time.Time) bool {
	return t.keep > 0 && saturatedMillis(now.UnixMilli()-p.lastTimestamp) >= t.keep
}

// states returns the state of all producers, by id.
func (t *producerTable) states() []ProducerState {
	states := make([]ProducerState, 0, len(t.byID))
	for _, p := range t.byID {
		states = append(states, ProducerState{p.id, p.epoch, p.lastSeq(), p.lastTimestamp, p.coordinatorEpoch, p.txnFirst})
	}
	slices.SortFunc(states, func(a, b ProducerState) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return states
}

// marker is the control record that ends a transaction.
type marker struct {
	commit           bool
	coordinatorEpoch int32
	timestamp        int64
}

// parseMarker parses a control batch: key int16 version, int16 type (0 abort, 1 commit); value int16 version, int32
// coordinator epoch. ok is false for a batch emptied by compaction and for other control records.
func parseMarker(b record.Batch) (m marker, ok bool, err error) {
	if b.Count() == 0 {
		return marker{}, false, nil
	}
	err = b.Records(func(r *record.Record) error {
		if len(r.Key) < 4 {
			return fmt.Errorf("control record with a key of %d bytes: %w", len(r.Key), kerr.InvalidRecord)
		}
		kind := binary.BigEndian.Uint16(r.Key[2:])
		if kind > 1 {
			return nil
		}
		if len(r.Value) < 6 {
			return fmt.Errorf("transaction marker with a value of %d bytes: %w", len(r.Value), kerr.InvalidRecord)
		}
		m = marker{kind == 1, int32(binary.BigEndian.Uint32(r.Value[2:])), r.Timestamp}
		ok = true
		return nil
	})
	return m, ok, err
}

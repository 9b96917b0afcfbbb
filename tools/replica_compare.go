package tools

import (
	"fmt"
	"time"

	"barnabas/logstore/record"
)

// reportFunc prints a line.
type reportFunc func(format string, args ...any)

// comparedPartition is a partition whose replicas are compared, from its offset on.
type comparedPartition struct {
	topic    string
	id       int32
	replicas []int32 // brokers, sorted
	offset   int64   // everything below has been compared
	fetched  []fetchedReplica
	reported map[string]bool // lines about what is after offset: while a replica is away, it is compared in each round
}

// fetchedReplica is a replica's response in one round.
type fetchedReplica struct {
	highWatermark int64 // -1: it did not answer
	batches       record.Batches
}

func newComparedPartition(topic string, id int32, replicas []int32) *comparedPartition {
	p := &comparedPartition{topic: topic, id: id, replicas: replicas, reported: make(map[string]bool), fetched: make([]fetchedReplica, len(replicas))}
	p.forget()
	return p
}

func (p *comparedPartition) name() string { return partitionName(p.topic, p.id) }

// forget drops what was fetched.
func (p *comparedPartition) forget() {
	for i := range p.fetched {
		p.fetched[i] = fetchedReplica{highWatermark: -1}
	}
}

// lag returns how many offsets have not been compared, up to the highest high watermark of any replica.
func (p *comparedPartition) lag() int64 {
	end := int64(-1)
	for _, f := range p.fetched {
		end = max(end, f.highWatermark)
	}
	return end - p.offset
}

// compare compares one batch after another from all replicas, as long as all have one below their high watermarks, and
// advances the offset. Differences are reported. If batches end at different offsets, nothing after them can be
// compared: the error is an exitCode, since that was reported too.
func (p *comparedPartition) compare(report reportFunc) error {
	from := p.offset
	for {
		next, all, err := p.compareNext(report)
		if err != nil {
			return err
		}
		if !all {
			break
		}
		p.offset = next
	}
	if p.offset > from {
		clear(p.reported)
	}
	return nil
}

// compareNext compares the next batch of each replica that has one. all is true if each has one; next is the offset
// after it.
func (p *comparedPartition) compareNext(report reportFunc) (next int64, all bool, err error) {
	all = true
	var first record.Batch
	var owner int32
	for i, replica := range p.replicas {
		b, err := p.fetched[i].next()
		switch {
		case err != nil:
			return 0, false, fmt.Errorf("replica %d of partition %s behind offset %d: %w", replica, p.name(), p.offset, err)
		case b == nil:
			all = false
			continue
		case first == nil:
			first, owner = b, replica
		case first.LastOffset() != b.LastOffset():
			report("partition %s: replica %d's offset %d doesn't match replica %d's offset %d",
				p.name(), owner, first.LastOffset(), replica, b.LastOffset())
			return 0, false, exitCode(1)
		case first.CRC() != b.CRC():
			p.once(report, "partition %s has unmatched checksum at offset %d; replica %d's checksum %d; replica %d's checksum %d",
				p.name(), b.LastOffset(), owner, first.CRC(), replica, b.CRC())
		}
		// The original stops here. But bytes damaged on disk leave the stored checksum unchanged.
		if !b.Valid() {
			p.once(report, "partition %s has a corrupt batch at offset %d; replica %d's content is not that of its checksum %d",
				p.name(), b.LastOffset(), replica, b.CRC())
		}
	}
	if first == nil {
		return 0, false, nil
	}
	return first.LastOffset() + 1, all, nil
}

// once reports a line unless it was reported since the offset last advanced.
func (p *comparedPartition) once(report reportFunc, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !p.reported[line] {
		p.reported[line] = true
		report("%s", line)
	}
}

// next returns the replica's next batch below its high watermark, nil if there is none.
func (f *fetchedReplica) next() (record.Batch, error) {
	if !f.batches.Next() {
		return nil, f.batches.Err()
	}
	if b := f.batches.Batch(); b.LastOffset() < f.highWatermark {
		return b, nil
	}
	return nil, nil
}

// lagReport is the line that is printed once per interval: the partition that is furthest behind. If no replica
// answered in a round, it refers to the round before.
type lagReport struct {
	every     time.Duration
	last      time.Time
	lag       int64 // of this round, -1: none
	offset    int64
	partition string
}

// newLagReport begins an interval.
func newLagReport(every time.Duration, now time.Time) lagReport {
	return lagReport{every: every, last: now, lag: -1, offset: -1, partition: "null"}
}

// begin begins a round.
func (r *lagReport) begin() { r.lag = -1 }

// add includes a compared partition.
func (r *lagReport) add(p *comparedPartition) {
	if lag := p.lag(); lag > r.lag {
		r.lag, r.offset, r.partition = lag, p.offset, p.name()
	}
}

// due reports whether the interval is over, and begins the next one.
func (r *lagReport) due(now time.Time) bool {
	if now.Sub(r.last) <= r.every {
		return false
	}
	r.last = now
	return true
}

package logstore

import (
	"errors"
	"sync/atomic"

	"barnabas/logstore/record"
)

// Rejections counts what was rejected by any of the logs as invalid, by reason, as Apache Kafka does
// (LogValidator.MetricsRecorder, 3.9).
type Rejections struct {
	Magic    atomic.Int64 // batches that mix formats
	Checksum atomic.Int64 // batches with a wrong one, from clients and leaders
	Offset   atomic.Int64 // batches whose counts, offsets or sequence numbers are inconsistent, or which only brokers may write
	Keyless  atomic.Int64 // records without a key for a compacted topic
}

// Rejections returns the counts since the start.
func (m *Manager) Rejections() *Rejections { return &m.env.rejections }

// inside counts errors of the messages inside a compressed one.
func (r *Rejections) inside(err error) {
	switch {
	case errors.Is(err, record.ErrInnerMagic):
		r.Magic.Add(1)
	case errors.Is(err, record.ErrInnerChecksum):
		r.Checksum.Add(1)
	}
}

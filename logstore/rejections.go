package logstore

import (
	"errors"
	"sync/atomic"

	"barnabas/logstore/record"
)

// Rejections count what was not appended to any of the logs because it is not as it should be, by what is wrong with it, as Apache Kafka
// does (LogValidator.MetricsRecorder, 3.9).
type Rejections struct {
	Magic    atomic.Int64 // batches that mix formats
	Checksum atomic.Int64 // batches with a wrong one, from clients and from leaders
	Offset   atomic.Int64 // batches whose counts, offsets or sequence contradict each other, or which only brokers may write
	Keyless  atomic.Int64 // records without a key for a compacted topic
}

// Rejections gives the counts since the start.
func (m *Manager) Rejections() *Rejections { return &m.env.rejections }

// inside counts what is wrong with the messages inside of a compressed one.
func (r *Rejections) inside(err error) {
	switch {
	case errors.Is(err, record.ErrInnerMagic):
		r.Magic.Add(1)
	case errors.Is(err, record.ErrInnerChecksum):
		r.Checksum.Add(1)
	}
}

package logstore

import "sync/atomic"

// recentBatches is how many batches at the end of a log are remembered: as many as a follower is behind one that is written to
// request by request.
const recentBatches = 32

// recent knows where the last batches of a segment lie, so that those who follow the end of a log, as replicas and most
// consumers do, are not sent to the index and the file for it. The log's lock covers add; find takes none.
type recent struct {
	added   atomic.Int64 // batches, ever
	batches [recentBatches]struct {
		last  atomic.Int64  // offset of the last record
		place atomic.Uint64 // position in the file, above its size in 32 bits
	}
}

func (r *recent) add(last, position int64, size int) {
	n := r.added.Load()
	b := &r.batches[n%recentBatches]
	b.last.Store(last)
	b.place.Store(uint64(position)<<32 | uint64(size))
	r.added.Store(n + 1)
}

func (r *recent) at(n int64) (last, position, size int64) {
	b := &r.batches[n%recentBatches]
	place := b.place.Load() // before last, which add stores first
	return b.last.Load(), int64(place >> 32), int64(place & (1<<32 - 1))
}

// find is segment.find for an offset between two batches that are known: behind the last record of one, and not behind that of the
// other, which follows it in the file. ok is false when there are none. Batches are overwritten from the oldest on, their last
// offsets first, by higher ones: when one still ends below offset, nothing that was seen on the way to it had been overwritten.
func (r *recent) find(offset int64) (position, size int64, ok bool) {
	newest := r.added.Load() - 1
	oldest := max(newest-recentBatches+1, 0)
	if newest < 1 {
		return 0, 0, false
	}
	if last, _, _ := r.at(oldest); offset <= last {
		return 0, 0, false
	}
	last, position, size := r.at(newest)
	if offset > last {
		return 0, 0, false
	}
	for n := newest - 1; n >= oldest; n-- {
		last, at, length := r.at(n)
		if last < offset {
			return position, size, at+length == position
		}
		position, size = at, length
	}
	return 0, 0, false
}

package logstore

import "sync/atomic"

// recentBatches is how many batches at the end of a log are remembered: as many as a follower may be behind a log that
// is being written to with each request.
const recentBatches = 32

// recent knows the positions of the last batches in a segment, so that readers at the end of a log, such as replicas
// and most consumers, do not need the index and the file. add requires the log's lock; find takes none.
type recent struct {
	added   atomic.Int64 // total number of batches
	batches [recentBatches]struct {
		last  atomic.Int64  // offset of the last record
		place atomic.Uint64 // position in the file, shifted above a size of 32 bits
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
	place := b.place.Load() // before last, since add stores it first
	return b.last.Load(), int64(place >> 32), int64(place & (1<<32 - 1))
}

// find is segment.find for an offset between two known batches: above the last record of one, and not above that of the
// other, which follows it in the file. ok is false if there are none. Batches are overwritten from the oldest on, their
// last offsets first, by higher ones: if one still ends below offset, nothing that was read before it had been
// overwritten.
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

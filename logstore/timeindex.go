package logstore

import (
	"encoding/binary"
	"sort"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"
)

// stamp is a timestamp (ms) and the last offset of the batch that first had it.
type stamp struct {
	timestamp int64
	offset    int64
}

// noStamp is the largest stamp of a segment without records.
func noStamp(base int64) stamp { return stamp{record.NoTimestamp, base} }

// timeIndex maps timestamps to offsets: int64 timestamp, int32 offset-base. An entry has the largest timestamp up to
// its offset, so both ascend.
type timeIndex struct {
	*entryFile
	base int64
}

const timeEntrySize = 12

func newTimeIndex(fsys vfs.FS, path string, base int64, maxSize int32) timeIndex {
	return timeIndex{newEntryFile(fsys, path, timeEntrySize, maxSize), base}
}

// isFull reports whether there is room only for the entry that closes the segment.
func (x timeIndex) isFull() bool { return (int(x.count.Load())+1)*timeEntrySize >= x.maxSize }

func (x timeIndex) entry(b []byte, i int) stamp {
	b = b[i*timeEntrySize:]
	return stamp{int64(binary.BigEndian.Uint64(b)), x.base + int64(binary.BigEndian.Uint32(b[8:]))}
}

// last returns the last entry.
func (x timeIndex) last() (s stamp, err error) {
	s = noStamp(x.base)
	err = x.view(func(b []byte, n int) {
		if n > 0 {
			s = x.entry(b, n-1)
		}
	})
	return s, err
}

// ordered reports whether the entries ascend.
func (x timeIndex) ordered() (ok bool, err error) {
	ok = true
	err = x.view(func(b []byte, n int) {
		last := noStamp(x.base)
		for i := 0; i < n && ok; i++ {
			e := x.entry(b, i)
			ok = e.timestamp > last.timestamp && e.offset >= last.offset
			last = e
		}
	})
	return ok, err
}

// add appends s if its timestamp is above that of the last entry.
func (x timeIndex) add(s stamp) error {
	last, err := x.last()
	if err != nil || s.timestamp <= last.timestamp {
		return err
	}
	e := x.scratch[:timeEntrySize]
	binary.BigEndian.PutUint64(e, uint64(s.timestamp))
	binary.BigEndian.PutUint32(e[8:], uint32(s.offset-x.base))
	return x.append(e)
}

// lookup returns the largest entry whose timestamp is at most the given one, or the base: no record below its offset
// has a later timestamp.
func (x timeIndex) lookup(timestamp int64) (s stamp, err error) {
	s = noStamp(x.base)
	err = x.view(func(b []byte, n int) {
		i := sort.Search(n, func(i int) bool { return x.entry(b, i).timestamp > timestamp })
		if i > 0 {
			s = x.entry(b, i-1)
		}
	})
	return s, err
}

// truncateFrom removes the entries of offset and above.
func (x timeIndex) truncateFrom(offset int64) error {
	keep := 0
	err := x.view(func(b []byte, n int) {
		keep = sort.Search(n, func(i int) bool { return x.entry(b, i).offset >= offset })
	})
	if err != nil {
		return err
	}
	return x.truncate(keep)
}

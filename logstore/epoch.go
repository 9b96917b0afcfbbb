package logstore

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"barnabas/internal/vfs"
)

const epochFile = "leader-epoch-checkpoint"

// epochEntry is a leader epoch and the offset of its first record.
type epochEntry struct {
	epoch int32
	start int64
}

// epochCache knows the offset at which each leader epoch began (KIP-101). Epochs and offsets are strictly ascending.
// Changes are written to the file, so that truncation after a crash finds what it needs.
//
// In a log with a message format older than leader epochs it is disabled: there is no file, and no epoch is known.
type epochCache struct {
	fs vfs.FS

	mu struct {
		sync.RWMutex // leaf
		off          bool
		path         string
		entries      []epochEntry
		stored       []epochEntry // content of the file
		unsure       bool         // the file may have another content, since its directory could not be synced
	}
}

// newEpochs returns an empty cache.
func newEpochs(fsys vfs.FS, dir string) *epochCache {
	c := &epochCache{fs: fsys}
	c.mu.path = filepath.Join(dir, epochFile)
	return c
}

// load reads the file. If it cannot be parsed, the cache is empty.
func (c *epochCache) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines, err := readCheckpointLines(c.fs, c.mu.path)
	if err != nil {
		return err
	}
	var entries []epochEntry
	for i, line := range lines {
		e, ok := parseEpochLine(line)
		if !ok {
			return malformedLine(c.mu.path, i, line)
		}
		entries = appendEpoch(entries, e)
	}
	c.mu.entries, c.mu.stored = entries, entries
	return nil
}

// parseEpochLine parses a line of the file: epoch and start.
func parseEpochLine(line string) (epochEntry, bool) {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return epochEntry{}, false
	}
	epoch, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil {
		return epochEntry{}, false
	}
	start, err := strconv.ParseInt(fields[1], 10, 64)
	return epochEntry{int32(epoch), start}, err == nil && epoch >= 0 && start >= 0
}

// appendEpoch appends e and drops the entries that contradict it: those with a later epoch or start.
func appendEpoch(entries []epochEntry, e epochEntry) []epochEntry {
	n := len(entries)
	for n > 0 && (entries[n-1].epoch >= e.epoch || entries[n-1].start >= e.start) {
		n--
	}
	return append(entries[:n:n], e)
}

// setFormat follows the log's message format: with one older than epochs, what is known of them is forgotten, including
// the file (UnifiedLog.maybeCreateLeaderEpochCache, 3.9).
func (c *epochCache) setFormat(magic int8) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.off = magic < 2
	if !c.mu.off {
		return nil
	}
	c.mu.entries, c.mu.stored = nil, nil
	return ignoreNotExist(c.fs.Remove(c.mu.path))
}

// relocate follows a rename of the directory.
func (c *epochCache) relocate(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.path = filepath.Join(dir, epochFile)
}

// assign records that epoch begins at start, unless it is the latest epoch and began no later.
func (c *epochCache) assign(epoch int32, start int64) error {
	if epoch < 0 || start < 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.off {
		return nil
	}
	if n := len(c.mu.entries); n > 0 && c.mu.entries[n-1].epoch == epoch && start >= c.mu.entries[n-1].start {
		if m := len(c.mu.stored); m > 0 && c.mu.stored[m-1].epoch > epoch || c.mu.unsure { // the file still has what forgetEnd dropped
			return c.setLocked(c.mu.entries)
		}
		return nil
	}
	return c.setLocked(appendEpoch(c.mu.entries, epochEntry{epoch, start}))
}

// remember is assign without writing the file, for the many calls of a recovery, and only for an epoch above all known
// ones. It reports whether it was: then flush must follow.
func (c *epochCache) remember(epoch int32, start int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.mu.entries); c.mu.off || epoch < 0 || n > 0 && c.mu.entries[n-1].epoch >= epoch {
		return false
	}
	c.mu.entries = appendEpoch(c.mu.entries, epochEntry{epoch, start})
	return true
}

func (c *epochCache) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setLocked(c.mu.entries)
}

// rewrite is flush, whatever the file contains.
func (c *epochCache) rewrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeLocked(c.mu.entries)
}

// truncateEnd drops epochs that begin at end or later.
func (c *epochCache) truncateEnd(end int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.endLocked(end)
	return c.setLocked(c.mu.entries[:n:n])
}

// forgetEnd is truncateEnd without writing the file: until the log grows, the next load will drop the same. Usually the
// epoch comes back at once, with the leadership.
func (c *epochCache) forgetEnd(end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.endLocked(end)
	c.mu.entries = c.mu.entries[:n:n]
}

// endLocked returns how many epochs begin below an offset.
func (c *epochCache) endLocked(end int64) int {
	n := len(c.mu.entries)
	for n > 0 && c.mu.entries[n-1].start >= end {
		n--
	}
	return n
}

// forgetStart drops epochs that end at start or earlier; the one that contains start begins there now. The file is not
// written: the next flush will do so, and the next load drops the same
// (LeaderEpochFileCache.truncateFromStartAsyncFlush, 3.9). It reports whether that changes anything.
func (c *epochCache) forgetStart(start int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.mu.entries) && c.mu.entries[n].start <= start {
		n++
	}
	if n == 0 || n == 1 && c.mu.entries[0].start == start {
		return false
	}
	c.mu.entries = append([]epochEntry{{c.mu.entries[n-1].epoch, start}}, c.mu.entries[n:]...)
	return true
}

func (c *epochCache) clear() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setLocked(nil)
}

// setLocked writes the entries, unless the file has them already, and then makes them current.
func (c *epochCache) setLocked(entries []epochEntry) error {
	if slices.Equal(entries, c.mu.stored) && !c.mu.unsure {
		c.mu.entries = entries
		return nil
	}
	return c.writeLocked(entries)
}

func (c *epochCache) writeLocked(entries []epochEntry) error {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = fmt.Sprintf("%d %d", e.epoch, e.start)
	}
	if err := writeCheckpointLines(c.fs, c.mu.path, lines); err != nil {
		c.mu.unsure = c.mu.unsure || unsynced(err)
		return err
	}
	c.mu.entries, c.mu.stored, c.mu.unsure = entries, entries, false
	return nil
}

func (c *epochCache) latest() (int32, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n := len(c.mu.entries); n > 0 {
		return c.mu.entries[n-1].epoch, true
	}
	return 0, false
}

// start returns where a known epoch begins.
func (c *epochCache) start(epoch int32) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.mu.entries {
		if e.epoch == epoch {
			return e.start
		}
	}
	return -1
}

// endOf returns the largest epoch that is not above the given one, and the offset after its last record, where end is
// the log's. Both are -1 for an epoch above the latest, and if none is known. An epoch below the first one ends where
// the first one begins (LeaderEpochFileCache.endOffsetFor, 3.9).
func (c *epochCache) endOf(epoch int32, end int64) (int32, int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	entries := c.mu.entries
	i := sort.Search(len(entries), func(i int) bool { return entries[i].epoch > epoch })
	switch {
	case epoch < 0 || len(entries) == 0:
		return -1, -1
	case i == len(entries) && entries[i-1].epoch == epoch:
		return epoch, end
	case i == len(entries):
		return -1, -1
	case i == 0:
		return epoch, entries[0].start
	}
	return entries[i-1].epoch, entries[i].start
}

// first returns the entry of the oldest known epoch.
func (c *epochCache) first() (epochEntry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.mu.entries) == 0 {
		return epochEntry{-1, math.MaxInt64}, false
	}
	return c.mu.entries[0], true
}

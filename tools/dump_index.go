package tools

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"barnabas/logstore/record"
)

// dumpProblems are the errors found while dumping. They are printed at the end, to standard error.
type dumpProblems struct {
	gaps, offsets, timestamps, order []problemFile
	missing                          []string
}

// problemFile is a file with the lines about it.
type problemFile struct {
	file  string
	lines []string
}

func addProblem(list *[]problemFile, file, line string) {
	if path, err := filepath.Abs(file); err == nil {
		file = path
	}
	if n := len(*list); n == 0 || (*list)[n-1].file != file {
		*list = append(*list, problemFile{file: file})
	}
	p := &(*list)[len(*list)-1]
	p.lines = append(p.lines, line)
}

func (p *dumpProblems) gap(file string, last, next int64) {
	addProblem(&p.gaps, file, fmt.Sprintf("  %d is followed by %d", last, next))
}

func (p *dumpProblems) print(env *Env) {
	for _, kind := range []struct {
		title string
		files []problemFile
	}{{"Mismatches in :", p.offsets}, {"Found timestamp mismatch in :", p.timestamps}, {"Found out of order timestamp in :", p.order}} {
		printProblems(env, kind.title, kind.files)
	}
	if len(p.missing) > 0 {
		env.errorf("The following indexed offsets are not found in the log.")
		env.errorf("%s", strings.Join(p.missing, "\n"))
	}
	printProblems(env, "Non-consecutive offsets in ", p.gaps)
}

func printProblems(env *Env, title string, files []problemFile) {
	for _, f := range files {
		env.errorf("%s%s", title, f.file)
		env.errorf("%s", strings.Join(f.lines, "\n"))
	}
}

// offsetEntry and timeEntry are index entries with absolute offsets.
type offsetEntry struct {
	offset   int64
	position int64
}

type timeEntry struct{ timestamp, offset int64 }

// Sizes of the entries of both indexes, in bytes.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

// readOffsetIndex reads the entries of an offset index. A zero entry after the first one ends it: that is the unused
// part of a file that was not trimmed.
func readOffsetIndex(file string, base int64) ([]offsetEntry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, pathless(err)
	}
	var entries []offsetEntry
	for ; len(data) >= offsetEntrySize; data = data[offsetEntrySize:] {
		offset, position := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
		if len(entries) > 0 && offset == 0 {
			break
		}
		entries = append(entries, offsetEntry{base + int64(offset), int64(position)})
	}
	return entries, nil
}

func readTimeIndex(file string, base int64) ([]timeEntry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, pathless(err)
	}
	var entries []timeEntry
	for ; len(data) >= timeEntrySize; data = data[timeEntrySize:] {
		timestamp, offset := binary.BigEndian.Uint64(data), binary.BigEndian.Uint32(data[8:])
		if len(entries) > 0 && offset == 0 {
			break
		}
		entries = append(entries, timeEntry{int64(timestamp), base + int64(offset)})
	}
	return entries, nil
}

// checkIndexSize is the part of a broker's check that depends only on the file.
func checkIndexSize(file string, entrySize int64) error {
	info, err := os.Stat(file)
	if err != nil {
		return pathless(err)
	}
	if info.Size()%entrySize != 0 {
		return fmt.Errorf("corrupt index found: its size %d is not a multiple of %d", info.Size(), entrySize)
	}
	return nil
}

func dumpOffsetIndex(env *Env, d *dumpOptions, file string, problems *dumpProblems) error {
	base, err := baseOffset(file)
	if err != nil {
		return err
	}
	log, err := openSegment(strings.TrimSuffix(file, ".index") + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	entries, err := readOffsetIndex(file, base)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		env.printf("%s is empty.\n", file)
		return nil
	}
	if d.sanityOnly {
		if err := checkIndexSize(file, offsetEntrySize); err != nil {
			return err
		}
		if last := entries[len(entries)-1].offset; last < base {
			return fmt.Errorf("corrupt index found: its last offset %d is below the base offset %d", last, base)
		}
		env.printf("%s passed sanity check.\n", file)
		return nil
	}
	for _, e := range entries {
		b, err := log.batchAt(e.position)
		if err != nil {
			return fmt.Errorf("position %d of the log: %w", e.position, err)
		}
		if b.LastOffset() != e.offset {
			addProblem(&problems.offsets, file, fmt.Sprintf("  Index offset: %d, log offset: %d", e.offset, b.LastOffset()))
		}
		if !d.verifyOnly {
			env.printf("offset: %d position: %d\n", e.offset, e.position)
		}
	}
	return nil
}

// segmentFile is a segment's log file, for looking up batches.
type segmentFile struct {
	*os.File
	size int64
}

func openSegment(name string) (segmentFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return segmentFile{}, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return segmentFile{}, err
	}
	return segmentFile{f, info.Size()}, nil
}

// batchAt reads the batch at a position.
func (s segmentFile) batchAt(position int64) (record.Batch, error) {
	b, err := newBatchReader(s, position, s.size-position).next()
	if err == nil && b == nil {
		err = errors.New("there is no batch")
	}
	return b, err
}

func dumpTimeIndex(env *Env, d *dumpOptions, file string, problems *dumpProblems) error {
	base, err := baseOffset(file)
	if err != nil {
		return err
	}
	stem := strings.TrimSuffix(file, ".timeindex")
	log, err := openSegment(stem + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	index, err := readOffsetIndex(stem+".index", base)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	entries, err := readTimeIndex(file, base)
	if err != nil {
		return err
	}
	if d.sanityOnly {
		if err := checkTimeIndex(file, base, entries); err != nil {
			return err
		}
		env.printf("%s passed sanity check.\n", file)
		return nil
	}
	previous := record.NoTimestamp
	for _, e := range entries {
		if err := verifyTimeEntry(log, index, e, previous, file, problems); err != nil {
			return err
		}
		if !d.verifyOnly {
			env.printf("timestamp: %d offset: %d\n", e.timestamp, e.offset)
		}
		previous = e.timestamp
	}
	return nil
}

func checkTimeIndex(file string, base int64, entries []timeEntry) error {
	if err := checkIndexSize(file, timeEntrySize); err != nil || len(entries) == 0 {
		return err
	}
	first, last := entries[0], entries[len(entries)-1]
	switch {
	case last.timestamp < first.timestamp:
		return fmt.Errorf("corrupt time index found: its last timestamp %d is below the first, %d", last.timestamp, first.timestamp)
	case last.offset < base:
		return fmt.Errorf("corrupt time index found: its last offset %d is below the base offset %d", last.offset, base)
	}
	return nil
}

// verifyTimeEntry looks up the entry's batch and compares.
func verifyTimeEntry(log segmentFile, index []offsetEntry, e timeEntry, previous int64, file string, problems *dumpProblems) error {
	b, err := log.batchWith(index, e.offset)
	if err != nil {
		return err
	}
	if b == nil || b.LastOffset() != e.offset {
		found := int64(-1)
		if b != nil {
			found = b.LastOffset()
		}
		problems.missing = append(problems.missing, fmt.Sprintf("Indexed offset: %d, found log offset: %d", e.offset, found))
		return nil
	}
	largest := record.NoTimestamp
	err = b.Records(func(r *record.Record) error {
		largest = max(largest, r.Timestamp)
		return nil
	})
	if err != nil {
		return err
	}
	if largest != e.timestamp {
		addProblem(&problems.timestamps, file, fmt.Sprintf("  Index timestamp: %d, log timestamp: %d", e.timestamp, largest))
	}
	if previous >= e.timestamp {
		addProblem(&problems.order, file, fmt.Sprintf("  Index timestamp: %d, Previously indexed timestamp: %d", e.timestamp, previous))
	}
	return nil
}

// batchWith finds the first batch that ends at or after offset, nil if there is none.
func (s segmentFile) batchWith(index []offsetEntry, offset int64) (record.Batch, error) {
	from := int64(0)
	if i := sort.Search(len(index), func(i int) bool { return index[i].offset > offset }); i > 0 {
		from = index[i-1].position
	}
	in := newBatchReader(s, from, s.size-from)
	for {
		b, err := in.next()
		if err != nil || b == nil || b.LastOffset() >= offset {
			return b, err
		}
	}
}

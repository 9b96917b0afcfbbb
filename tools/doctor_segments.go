package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kadm"
)

// segmentSeen is a segment as seen in its files.
type segmentSeen struct {
	base    int64
	size    int64 // bytes of whole batches
	largest int64 // timestamp in ms; the file's modification time if no record has one
}

// replicaDir is where a broker stores one partition.
type replicaDir struct {
	broker    int32
	partition int32
	path      string // the partition's directory
	size      int64  // bytes
}

// replicaDirs asks the brokers where they store a topic. Brokers that do not answer are left out.
func (d *doctor) replicaDirs(ctx context.Context, topic string, partitions []int32) ([]replicaDir, error) {
	set := make(kadm.TopicsSet)
	set.Add(topic, partitions...)
	all, err := d.adm.DescribeAllLogDirs(ctx, set)
	var dirs []replicaDir
	for broker, logDirs := range all {
		for _, dir := range logDirs {
			for _, p := range dir.Topics[topic] {
				if !p.IsFuture {
					dirs = append(dirs, replicaDir{broker, p.Partition, filepath.Join(dir.Dir, partitionName(topic, p.Partition)), p.Size})
				}
			}
		}
	}
	if len(dirs) == 0 && err != nil {
		return nil, err
	}
	slices.SortFunc(dirs, func(a, b replicaDir) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.broker, b.broker))
	})
	return dirs, nil
}

// readSegments lists the segments in a directory, oldest first. If the directory does not exist there are none: the
// broker is on another host.
func readSegments(dir string) ([]segmentSeen, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var segments []segmentSeen
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		base, err := strconv.ParseInt(name, 10, 64)
		if !isLog || err != nil {
			continue
		}
		s, err := readSegment(filepath.Join(dir, e.Name()), base)
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		segments = append(segments, s)
	}
	return segments, nil // in the order of their names, which is that of their offsets
}

// readSegment reads the headers of a segment's batches.
func readSegment(path string, base int64) (segmentSeen, error) {
	f, err := os.Open(path)
	if err != nil {
		return segmentSeen{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return segmentSeen{}, err
	}
	s := segmentSeen{base: base, largest: record.NoTimestamp}
	for s.size < info.Size() {
		var head [record.HeaderSize]byte
		n, err := f.ReadAt(head[:], s.size)
		if err != nil && !errors.Is(err, io.EOF) {
			return s, fmt.Errorf("%s at %d: %w", path, s.size, err)
		}
		size, err := record.SizeOf(head[:n])
		if err != nil || size == 0 || s.size+int64(size) > info.Size() { // preallocated space, padding, or a batch that is being written
			break
		}
		s.largest = max(s.largest, record.Batch(head[:]).MaxTimestamp())
		s.size += int64(size)
	}
	if s.largest < 0 {
		s.largest = info.ModTime().UnixMilli()
	}
	return s, nil
}

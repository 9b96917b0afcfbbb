package tools

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// segmentSeen is a segment as seen in its files.
type segmentSeen struct {
	base    int64
	size    int64 // bytes
	largest int64 // timestamp in ms; the file's modification time if no record has one
	first   int64 // timestamp in ms of the first batch; -1: none
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

// Positions in the header of a batch in format 2, which all formats share up to the format's number.
const (
	batchLengthAt    = 8
	batchMagicAt     = 16
	batchFirstTimeAt = 27
	batchMaxTimeAt   = 35
	batchHeaderSize  = 43 // up to the timestamps
	batchPrefixSize  = 12 // offset and length, which the length does not include
)

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
	s := segmentSeen{base: base, size: info.Size(), largest: -1, first: -1}
	for at := int64(0); at+batchHeaderSize <= s.size; {
		var head [batchHeaderSize]byte
		if _, err := f.ReadAt(head[:], at); err != nil {
			return s, fmt.Errorf("%s at %d: %w", path, at, err)
		}
		length := int64(int32(binary.BigEndian.Uint32(head[batchLengthAt:])))
		if length <= 0 || head[batchMagicAt] < 2 { // pre-allocated space, or an old format, whose timestamps are elsewhere
			break
		}
		if s.first < 0 {
			s.first = int64(binary.BigEndian.Uint64(head[batchFirstTimeAt:]))
		}
		s.largest = max(s.largest, int64(binary.BigEndian.Uint64(head[batchMaxTimeAt:])))
		at += batchPrefixSize + length
	}
	if s.largest < 0 {
		s.largest = info.ModTime().UnixMilli()
	}
	return s, nil
}

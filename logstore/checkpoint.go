package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"barnabas/internal/vfs"
)

// Names of the files in a log directory.
const (
	recoveryPointFile = "recovery-point-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	cleanerFile       = "cleaner-offset-checkpoint"
)

// errMalformed reports a checkpoint file that cannot be parsed. None of it is used then: even lines that parse may be
// wrong.
var errMalformed = errors.New("malformed checkpoint")

// readCheckpoint reads a file of offsets by partition: "0", the number of lines, then lines of "topic partition
// offset". For a missing or empty file it returns nil.
func readCheckpoint(fsys vfs.FS, name string) (map[TopicPartition]int64, error) {
	lines, err := readCheckpointLines(fsys, name)
	if err != nil || lines == nil {
		return nil, err
	}
	offsets := make(map[TopicPartition]int64, len(lines))
	for i, line := range lines {
		tp, offset, ok := parseOffsetLine(line)
		if !ok {
			return nil, malformedLine(name, i, line)
		}
		offsets[tp] = offset
	}
	return offsets, nil
}

// malformedLine returns the error for a line after the first two.
func malformedLine(name string, i int, line string) error {
	return fmt.Errorf("%s: %w: line %d is %q", name, errMalformed, i+3, line)
}

func parseOffsetLine(line string) (TopicPartition, int64, bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return TopicPartition{}, 0, false
	}
	partition, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil {
		return TopicPartition{}, 0, false
	}
	offset, err := strconv.ParseInt(fields[2], 10, 64)
	return TopicPartition{fields[0], int32(partition)}, offset, err == nil && partition >= 0 && offset >= 0
}

func writeCheckpoint(fsys vfs.FS, name string, offsets map[TopicPartition]int64) error {
	lines := make([]string, 0, len(offsets))
	for tp, offset := range offsets {
		lines = append(lines, fmt.Sprintf("%s %d %d", tp.Topic, tp.Partition, offset))
	}
	sort.Strings(lines)
	return writeCheckpointLines(fsys, name, lines)
}

// unsynced reports whether a checkpoint was written, but a crash may bring back its former content.
func unsynced(err error) bool {
	var e *vfs.UnsyncedError
	return errors.As(err, &e)
}

// readCheckpointLines reads a file in the checkpoint format and checks version and count.
func readCheckpointLines(fsys vfs.FS, name string) ([]string, error) {
	data, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, fmt.Errorf("%s: %w: line 1 is %q, not version 0", name, errMalformed, lines[0])
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%s: %w: line 2 is %q, and %d lines follow", name, errMalformed, lines[1], len(lines)-2)
	}
	return lines[2:], nil
}

func writeCheckpointLines(fsys vfs.FS, name string, lines []string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(lines))
	for _, line := range lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return vfs.WriteFile(fsys, name, b.Bytes())
}

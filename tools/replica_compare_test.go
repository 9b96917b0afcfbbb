package tools

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"barnabas/logstore/record"

	"github.com/google/go-cmp/cmp"
)

// batchOf returns a batch of n records that ends with the given offset.
func batchOf(last int64, n int, value string) record.Batch {
	w := record.NewBuilder()
	for range n {
		w.Add(1, nil, []byte(value))
	}
	b := w.MustBuild()
	b.SetLastOffset(last)
	return b
}

// damaged returns a batch with one byte changed.
func damaged(b record.Batch, at int) record.Batch {
	b[at] ^= 1
	return b
}

func replicaWith(highWatermark int64, batches ...record.Batch) fetchedReplica {
	var all []byte
	for _, b := range batches {
		all = append(all, b...)
	}
	return fetchedReplica{highWatermark: highWatermark, batches: record.Split(all)}
}

func TestComparingReplicas(t *testing.T) {
	const crcAt = 17
	a, b := batchOf(1, 2, "a"), batchOf(2, 1, "b")
	sum, other := b.CRC(), batchOf(2, 1, "x").CRC()
	away := fetchedReplica{highWatermark: -1}
	for _, test := range []struct {
		name    string
		fetched []fetchedReplica
		offset  int64
		lag     int64
		lines   []string
		fails   bool
	}{
		{name: "equal", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(3, a, b)}, offset: 3},
		{name: "one replica", fetched: []fetchedReplica{replicaWith(3, a, b)}, offset: 3},
		{name: "nothing", fetched: []fetchedReplica{replicaWith(0), replicaWith(0)}},
		{name: "up to the lowest high watermark", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(2, a, b)}, offset: 2, lag: 1},
		{name: "one is behind", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(2, a)}, offset: 2, lag: 1},
		{name: "a batch cut off", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(3, a, b[:20])}, offset: 2, lag: 1},
		{name: "one is away", fetched: []fetchedReplica{replicaWith(3, a, b), away}, lag: 3},
		{name: "all are away", fetched: []fetchedReplica{away, away}, lag: -1},
		{
			name: "another record", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(3, a, batchOf(2, 1, "x"))}, offset: 3,
			lines: []string{fmt.Sprintf("partition t-0 has unmatched checksum at offset 2; replica 1's checksum %d; replica 2's checksum %d", sum, other)},
		},
		{
			name: "another record, and one replica away", fetched: []fetchedReplica{replicaWith(3, b), away, replicaWith(3, batchOf(2, 1, "x"))}, lag: 3,
			lines: []string{fmt.Sprintf("partition t-0 has unmatched checksum at offset 2; replica 1's checksum %d; replica 3's checksum %d", sum, other)},
		},
		{
			name: "content that rotted", fetched: []fetchedReplica{replicaWith(3, a, damaged(batchOf(2, 1, "b"), len(b)-2)), replicaWith(3, a, b)}, offset: 3,
			lines: []string{fmt.Sprintf("partition t-0 has a corrupt batch at offset 2; replica 1's content is not that of its checksum %d", sum)},
		},
		{
			name: "checksum that rotted", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(3, a, damaged(batchOf(2, 1, "b"), crcAt))}, offset: 3,
			lines: []string{
				fmt.Sprintf("partition t-0 has unmatched checksum at offset 2; replica 1's checksum %d; replica 2's checksum %d", sum, sum^1<<24),
				fmt.Sprintf("partition t-0 has a corrupt batch at offset 2; replica 2's content is not that of its checksum %d", sum^1<<24),
			},
		},
		{
			name: "a batch is missing", fetched: []fetchedReplica{replicaWith(3, a, b), replicaWith(3, b)}, lag: 3, fails: true,
			lines: []string{"partition t-0: replica 1's offset 1 doesn't match replica 2's offset 2"},
		},
		{name: "no batch at all", fetched: []fetchedReplica{replicaWith(3, a), replicaWith(3, damaged(batchOf(1, 2, "a"), 16))}, lag: 3, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newComparedPartition("t", 0, []int32{1, 2, 3}[:len(test.fetched)])
			p.fetched = test.fetched
			var lines []string
			err := p.compare(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
			if (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			var code exitCode
			if errors.As(err, &code) != (err != nil && test.lines != nil) {
				t.Errorf("error %v after the lines %q", err, lines)
			}
			if p.offset != test.offset || p.lag() != test.lag {
				t.Errorf("offset %d with a lag of %d, want %d and %d", p.offset, p.lag(), test.offset, test.lag)
			}
			if d := cmp.Diff(test.lines, lines); d != "" {
				t.Errorf("lines (-want +got)\n%s", d)
			}
		})
	}
}

// TestDifferencesAreReportedOnce: while a replica is away, the records of the others are compared again in each round,
// but differences are reported once.
func TestDifferencesAreReportedOnce(t *testing.T) {
	p := newComparedPartition("t", 0, []int32{1, 2, 3})
	var lines []string
	round := func(third fetchedReplica) {
		t.Helper()
		p.fetched = []fetchedReplica{replicaWith(1, batchOf(0, 1, "a")), replicaWith(1, batchOf(0, 1, "b")), third}
		if err := p.compare(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }); err != nil {
			t.Fatal(err)
		}
		p.forget()
	}
	round(fetchedReplica{highWatermark: -1})
	round(fetchedReplica{highWatermark: -1})
	if len(lines) != 1 {
		t.Errorf("reported %q", lines)
	}
	round(replicaWith(1, batchOf(0, 1, "c")))
	if len(lines) != 2 || !strings.Contains(lines[1], "replica 3's checksum") || p.offset != 1 {
		t.Errorf("reported %q when the third replica was back, offset %d", lines, p.offset)
	}
}

func TestLagReport(t *testing.T) {
	now := time.UnixMilli(0)
	r := newLagReport(time.Second, now)
	if r.due(now.Add(time.Second)) || !r.due(now.Add(time.Second+1)) || r.due(now.Add(2*time.Second)) {
		t.Error("a report is not due exactly when more than a second has passed since the last")
	}
	r.begin()
	for i, hw := range []int64{3, 7, 5} {
		p := newComparedPartition("t", int32(i), []int32{1, 2})
		p.fetched = []fetchedReplica{replicaWith(hw), replicaWith(2)}
		r.add(p)
	}
	if r.partition != "t-1" || r.lag != 7 || r.offset != 0 {
		t.Errorf("reports a lag of %d of %s at %d", r.lag, r.partition, r.offset)
	}
}

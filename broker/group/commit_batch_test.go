package group

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"barnabas/logstore"
	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// commitAtOnce queues several commits at the shard in the given order, and returns the result of each.
func commitAtOnce(t *testing.T, c *Coordinator, requests []*commitRequest) []error {
	t.Helper()
	s, err := c.shardOf("g", false)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(requests))
	var committing sync.WaitGroup
	s.mu.Lock()
	for i, r := range requests {
		committing.Go(func() {
			wait, err := c.Commit(*r.by, r.offsets)
			if err == nil && wait != nil {
				err = wait(t.Context())
			}
			errs[i] = err
		})
		for s.commits.count() <= i {
			runtime.Gosched()
		}
	}
	s.mu.Unlock()
	committing.Wait()
	return errs
}

func (w *waitingCommits) count() int {
	w.Lock()
	defer w.Unlock()
	return len(w.list)
}

func plainCommit(groupID string, offsets ...Offset) *commitRequest {
	return &commitRequest{by: &Committer{Group: groupID, Generation: -1}, offsets: offsets}
}

// batchesOf returns the number of records in each batch from an offset on.
func batchesOf(t *testing.T, l *logstore.Log, from int64) []int {
	t.Helper()
	records, err := l.Read(from, 1<<20, l.LogEndOffset(), true)
	if err != nil {
		t.Fatal(err)
	}
	data, err := records.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for walk := record.Split(data); walk.Next(); {
		counts = append(counts, int(walk.Batch().Count()))
	}
	return counts
}

// TestCommitsAtOnceShareABatch: commits that share a batch are checked one by one, an error in one does not affect the
// others, and of two for a partition the later one counts, also after loading.
func TestCommitsAtOnceShareABatch(t *testing.T) {
	h := newHosted(t)
	cfg := testConfig(t, h)
	c := start(t, cfg)
	from := h.log.LogEndOffset()
	long := strings.Repeat("x", cfg.MetadataMaxBytes+1)
	tooLong := offsetAt(50)[0]
	tooLong.Metadata = &long
	requests := []*commitRequest{
		plainCommit("g", offsetAt(1)...),
		plainCommit("other", offsetAt(20)...),
		{by: &Committer{Group: "none", Generation: 3, MemberID: "m"}, offsets: offsetAt(30)},
		plainCommit("long", tooLong),
		plainCommit("g", offsetAt(2)...),
	}
	for i, err := range commitAtOnce(t, c, requests) {
		want := []error{nil, nil, kerr.IllegalGeneration, nil, nil}[i]
		if !errors.Is(err, want) {
			t.Errorf("commit %d: %v, want %v", i, err, want)
		}
	}
	if err := requests[3].offsets[0].Err; err != kerr.OffsetMetadataTooLarge {
		t.Errorf("an offset with too much metadata: %v", err)
	}
	if got := fmt.Sprint(batchesOf(t, h.log, from)); got != "[3]" {
		t.Errorf("batches of %s records, want one of 3", got)
	}
	check := func(when string, c *Coordinator) {
		t.Helper()
		for groupID, want := range map[string]string{"g": `2 epoch 4 ""`, "other": `20 epoch 4 ""`, "none": `-1 epoch -1 ""`, "long": `-1 epoch -1 ""`} {
			if got := fetched(t, c, groupID, true); got != want {
				t.Errorf("%s: group %s has %s, want %s", when, groupID, got, want)
			}
		}
	}
	check("committed", c)
	c.Close()
	check("loaded again", start(t, cfg))
}

// TestSharedBatchIsRefused: if commits are too large together they are written one by one, and only one that is too
// large by itself fails.
func TestSharedBatchIsRefused(t *testing.T) {
	h := newHosted(t)
	changed := h.log.Config()
	changed.MaxMessageBytes = 300
	h.log.UpdateConfig(changed)
	c := start(t, testConfig(t, h))
	from := h.log.LogEndOffset()
	var many []Offset
	for n := range int32(10) {
		o := offsetAt(7)[0]
		o.Partition.Partition = 1 + n
		many = append(many, o)
	}
	requests := []*commitRequest{plainCommit("g", offsetAt(1)...), plainCommit("g", many...), plainCommit("g", offsetAt(2)...), plainCommit("g", offsetAt(3)...)}
	for i, err := range commitAtOnce(t, c, requests) {
		if (err != nil) != (i == 1) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	if got := fmt.Sprint(batchesOf(t, h.log, from)); got != "[1 1 1]" {
		t.Errorf("batches of %s records, want three of one", got)
	}
	if got := fetched(t, c, "g", true); got != `3 epoch 4 ""` {
		t.Errorf("offset %s", got)
	}
}

// TestManyCommitsAtOnce: the size of a shared batch is limited.
func TestManyCommitsAtOnce(t *testing.T) {
	h := newHosted(t)
	cfg := testConfig(t, h)
	cfg.MetadataMaxBytes = 4096
	c := start(t, cfg)
	from := h.log.LogEndOffset()
	metadata := strings.Repeat("m", 4000)
	var requests []*commitRequest
	for n := range 40 {
		o := offsetAt(int64(n))[0]
		o.Metadata = &metadata
		requests = append(requests, plainCommit(fmt.Sprint("g", n), o))
	}
	for i, err := range commitAtOnce(t, c, requests) {
		if err != nil {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	sum := 0
	batches := batchesOf(t, h.log, from)
	for _, n := range batches {
		sum += n
	}
	if sum != 40 || len(batches) < 2 || len(batches) > 4 {
		t.Errorf("batches of %v records", batches)
	}
	for n := range 40 {
		if got, want := fetched(t, c, fmt.Sprint("g", n), true), fmt.Sprintf("%d epoch 4 %q", n, metadata); got != want {
			t.Errorf("group %d has %.20s", n, got)
		}
	}
}

// TestCommitsAtOnceWithoutTheLeadership: all of them fail with NOT_COORDINATOR.
func TestCommitsAtOnceWithoutTheLeadership(t *testing.T) {
	h := newHosted(t)
	c := start(t, testConfig(t, h))
	h.set(func() { h.mu.epoch = -1 })
	for i, err := range commitAtOnce(t, c, []*commitRequest{plainCommit("g", offsetAt(1)...), plainCommit("h", offsetAt(2)...)}) {
		if !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
}

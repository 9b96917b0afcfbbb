package txn

import (
	"errors"
	"math"
	"testing"
	"time"

	"barnabas/logstore"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	testNow   = int64(1_790_000_000_000)
	testFresh = int64(900) // the next new producer id
)

var (
	p0 = logstore.TopicPartition{Topic: "t", Partition: 0}
	p1 = logstore.TopicPartition{Topic: "t", Partition: 1}
)

func fresh() (int64, error) { return testFresh, nil }

// known returns the state of an id whose producer id is 7.
func known(epoch int16, state State, tps ...logstore.TopicPartition) transaction {
	t := newTransaction(7)
	t.Epoch, t.state, t.timeout, t.updated = epoch, state, time.Minute, testNow-1000
	if state != Empty {
		t.started = testNow - 1000
	}
	if len(tps) > 0 {
		t.partitions = make(partitions)
	}
	for _, tp := range tps {
		t.partitions[tp] = topicID{}
	}
	return t
}

func identity(id int64, epoch int16) *Identity { return &Identity{id, epoch} }

func TestInitialise(t *testing.T) {
	before := func(t transaction, id int64, epoch int16) transaction {
		t.last = Identity{id, epoch}
		return t
	}
	aborted := func(t transaction, on *Identity) transaction {
		t, _ = t.initialise(testNow, time.Second, on, fresh)
		return t.complete(testNow)
	}
	const last = math.MaxInt16 - 1
	tests := []struct {
		name  string
		known transaction
		have  *Identity
		want  Identity
		last  Identity
		state State
		err   error
	}{
		{"never used", newTransaction(7), nil, Identity{7, 0}, Identity{7, -1}, Empty, nil},
		{"never used, by a producer with an id that is forgotten", newTransaction(7), identity(3, 5), Identity{7, 0}, Identity{7, -1}, Empty, nil},
		{"another incarnation", known(4, Empty), nil, Identity{7, 5}, Identity{7, -1}, Empty, nil},
		{"after a commit", known(4, CompleteCommit), nil, Identity{7, 5}, Identity{7, -1}, Empty, nil},
		{"after an abort", known(4, CompleteAbort), nil, Identity{7, 5}, Identity{7, -1}, Empty, nil},
		{"the same producer", known(4, CompleteAbort), identity(7, 4), Identity{7, 5}, Identity{7, 4}, Empty, nil},
		{"a retry whose answer was lost", before(known(5, Empty), 7, 4), identity(7, 4), Identity{7, 5}, Identity{7, 4}, Empty, nil},
		{"an epoch that was fenced", known(5, Empty), identity(7, 4), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"an epoch that nobody has", known(5, Empty), identity(7, 8), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"another producer", known(5, Empty), identity(8, 5), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"open transaction", known(5, Ongoing, p0), nil, Identity{7, 6}, Identity{7, -1}, PrepareAbort, nil},
		{"open transaction, the same producer", known(5, Ongoing, p0), identity(7, 5), Identity{7, 6}, Identity{7, 5}, PrepareAbort, nil},
		{"its transaction is aborted, the same producer", aborted(known(5, Ongoing, p0), identity(7, 5)), identity(7, 5), Identity{7, 7}, Identity{7, 5}, Empty, nil},
		{"its transaction is aborted, another incarnation", aborted(known(5, Ongoing, p0), identity(7, 5)), nil, Identity{7, 7}, Identity{7, -1}, Empty, nil},
		{"its transaction is aborted, the one before", aborted(known(5, Ongoing, p0), identity(7, 5)), identity(7, 4), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"another one has aborted its transaction", aborted(known(5, Ongoing, p0), nil), identity(7, 5), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"its transaction is aborted, epochs used up", aborted(known(last, Ongoing, p0), identity(7, last)), identity(7, last), Identity{testFresh, 0}, Identity{7, last}, Empty, nil},
		{"its transaction is aborted with the last epoch", aborted(known(last-1, Ongoing, p0), identity(7, last-1)), identity(7, last-1), Identity{testFresh, 0}, Identity{7, last - 1}, Empty, nil},
		{"and its answer was lost", before(known(0, Empty), 3, last-1), identity(3, last-1), Identity{7, 0}, Identity{7, last - 1}, Empty, nil},
		{"its successor with another id has a transaction", before(known(0, Ongoing, p0), 3, last), identity(3, last), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"open transaction, a zombie", known(5, Ongoing, p0), identity(7, 4), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"epochs used up", known(last, Empty), nil, Identity{testFresh, 0}, Identity{7, -1}, Empty, nil},
		{"epochs used up, the same producer", known(last, CompleteCommit), identity(7, last), Identity{testFresh, 0}, Identity{7, last}, Empty, nil},
		{"epochs used up, a retry", before(known(0, Empty), 3, last), identity(3, last), Identity{7, 0}, Identity{7, last}, Empty, nil},
		{"epochs used up, a zombie", known(last, Empty), identity(7, 3), Identity{}, Identity{}, 0, kerr.ProducerFenced},
		{"epochs used up, open transaction", known(last, Ongoing, p0), nil, Identity{7, math.MaxInt16}, Identity{7, -1}, PrepareAbort, nil},
		{"fenced with the last epoch", known(math.MaxInt16, CompleteAbort), nil, Identity{testFresh, 0}, Identity{7, -1}, Empty, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.known.initialise(testNow, 5*time.Second, test.have, fresh)
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			if got.Identity != test.want || got.last != test.last || got.state != test.state {
				t.Errorf("became %v, before %v, %v; want %v, %v, %v", got.Identity, got.last, got.state, test.want, test.last, test.state)
			}
			if got.state == Empty && (got.partitions != nil || got.started != noTime || got.timeout != 5*time.Second) {
				t.Errorf("an empty id with %v, started at %d, timeout %v", got.partitions, got.started, got.timeout)
			}
			if got.state == PrepareAbort && (len(got.partitions) != 1 || got.timeout != time.Minute) {
				t.Errorf("a fenced transaction with %v, timeout %v", got.partitions, got.timeout)
			}
		})
	}
}

func TestInitialiseWithoutNewProducerIDs(t *testing.T) {
	none := func() (int64, error) { return -1, kerr.CoordinatorLoadInProgress }
	if _, err := known(math.MaxInt16-1, Empty).initialise(testNow, time.Second, nil, none); !errors.Is(err, kerr.CoordinatorLoadInProgress) {
		t.Errorf("error %v", err)
	}
}

func TestAdd(t *testing.T) {
	right := Identity{7, 5}
	tests := []struct {
		name    string
		known   transaction
		by      Identity
		added   partitions
		want    []logstore.TopicPartition
		changed bool
		err     error
	}{
		{"begins", known(5, Empty), right, partitions{p0: {}}, []logstore.TopicPartition{p0}, true, nil},
		{"begins after another", known(5, CompleteCommit), right, partitions{p0: {}}, []logstore.TopicPartition{p0}, true, nil},
		{"begins with nothing", known(5, CompleteAbort), right, nil, nil, true, nil},
		{"one more", known(5, Ongoing, p0), right, partitions{p1: {}}, []logstore.TopicPartition{p0, p1}, true, nil},
		{"nothing new", known(5, Ongoing, p0, p1), right, partitions{p1: {}}, []logstore.TopicPartition{p0, p1}, false, nil},
		{"old epoch", known(5, Ongoing, p0), Identity{7, 4}, partitions{p1: {}}, nil, false, kerr.ProducerFenced},
		{"new epoch", known(5, Ongoing, p0), Identity{7, 6}, partitions{p1: {}}, nil, false, kerr.ProducerFenced},
		{"another producer", known(5, Ongoing, p0), Identity{8, 5}, partitions{p1: {}}, nil, false, kerr.InvalidProducerIDMapping},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			old := test.known.partitions.sorted()
			got, changed, err := test.known.add(testNow, test.by, test.added)
			if !errors.Is(err, test.err) || changed != test.changed {
				t.Fatalf("changed %t, error %v", changed, err)
			}
			if diff := cmp.Diff(old, test.known.partitions.sorted()); diff != "" {
				t.Errorf("the set was changed in place: %s", diff)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(test.want, got.partitions.sorted(), cmpopts.EquateEmpty()); diff != "" || got.state != Ongoing {
				t.Errorf("%v with other partitions: %s", got.state, diff)
			}
			if test.known.state != Ongoing && got.started != testNow || test.known.state == Ongoing && got.started != test.known.started {
				t.Errorf("started at %d", got.started)
			}
		})
	}
}

func TestTopicMadeAnew(t *testing.T) {
	old, anew := topicID{1}, topicID{2}
	open, _, err := known(5, CompleteCommit).add(testNow, Identity{7, 5}, partitions{p0: old})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		id      topicID
		missing bool
	}{"the same": {old, false}, "not known": {topicID{}, false}, "another": {anew, true}} {
		missing, err := open.verify(Identity{7, 5}, partitions{p0: test.id})
		if err != nil || (missing[p0] != nil) != test.missing {
			t.Errorf("%s topic: missing %v, error %v", name, missing, err)
		}
	}
	again, changed, err := open.add(testNow, Identity{7, 5}, partitions{p0: anew})
	if err != nil || !changed || again.partitions[p0] != anew {
		t.Errorf("added again: %v, changed %t, error %v", again.partitions, changed, err)
	}
}

func TestEnd(t *testing.T) {
	right := Identity{7, 5}
	tests := []struct {
		name    string
		known   transaction
		by      Identity
		commit  bool
		want    State
		changed bool
		err     error
	}{
		{"commit", known(5, Ongoing, p0), right, true, PrepareCommit, true, nil},
		{"abort", known(5, Ongoing, p0), right, false, PrepareAbort, true, nil},
		{"commit again", known(5, CompleteCommit), right, true, CompleteCommit, false, nil},
		{"abort again", known(5, CompleteAbort), right, false, CompleteAbort, false, nil},
		{"abort after a commit", known(5, CompleteCommit), right, false, 0, false, kerr.InvalidTxnState},
		{"commit after an abort", known(5, CompleteAbort), right, true, 0, false, kerr.InvalidTxnState},
		{"commit of nothing", known(5, Empty), right, true, 0, false, kerr.InvalidTxnState},
		{"abort of nothing", known(5, Empty), right, false, 0, false, kerr.InvalidTxnState},
		{"old epoch", known(5, Ongoing, p0), Identity{7, 4}, true, 0, false, kerr.ProducerFenced},
		{"another producer", known(5, Ongoing, p0), Identity{8, 5}, true, 0, false, kerr.InvalidProducerIDMapping},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, changed, err := test.known.end(testNow, test.by, test.commit)
			if !errors.Is(err, test.err) || changed != test.changed {
				t.Fatalf("changed %t, error %v", changed, err)
			}
			if err == nil && got.state != test.want {
				t.Errorf("became %v, want %v", got.state, test.want)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	for state, want := range map[State]State{PrepareCommit: CompleteCommit, PrepareAbort: CompleteAbort} {
		got := known(5, state, p0).complete(testNow)
		if got.state != want || len(got.partitions) != 0 || got.started != testNow-1000 || got.updated != testNow {
			t.Errorf("%v became %+v", state, got)
		}
	}
}

func TestTimes(t *testing.T) {
	open, ended := known(5, Ongoing, p0), known(5, CompleteCommit)
	for _, test := range []struct {
		name string
		got  bool
		want bool
	}{
		{"open, at its timeout", open.timedOut(open.started + 60_000), false},
		{"open, after it", open.timedOut(open.started + 60_001), true},
		{"ended, long after", ended.timedOut(ended.started + 1e9), false},
		{"ended, just before it expires", ended.idle(ended.updated+999, time.Second), false},
		{"ended, when it expires", ended.idle(ended.updated+1000, time.Second), true},
		{"open, long after", open.idle(open.updated+1e9, time.Second), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: %t", test.name, test.got)
		}
	}
}

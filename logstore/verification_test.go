package logstore

import (
	"errors"
	"testing"
	"time"

	"barnabas/logstore/record"

	"github.com/twmb/franz-go/pkg/kerr"
)

// inTransaction returns a batch of a transactional producer.
func inTransaction(pid int64, epoch int16, seq int32) []byte {
	w := sequenced(pid, epoch, seq, 1)
	w.Transactional = true
	return w.MustBuild()
}

func endMarker(pid int64, epoch int16, commit bool) []byte {
	w := record.NewBuilder()
	w.ProducerID, w.ProducerEpoch, w.Transactional, w.Control = pid, epoch, true, true
	kind := byte(0)
	if commit {
		kind = 1
	}
	w.Add(1_790_000_000_000, []byte{0, 0, 0, kind}, []byte{0, 0, 0, 0, 0, 1})
	return w.MustBuild()
}

// TestVerification: the first records of a transaction are appended only with the guard that its verification began
// with, and only if no marker has ended a transaction of the producer since (KIP-890).
func TestVerification(t *testing.T) {
	const pid = 42
	verified := func(l *Log, batch []byte, g Guard) error {
		_, err := l.AppendLeader(batch, LeaderAppend{LeaderEpoch: 1, ProduceVersion: 9, Verify: true, Guard: g})
		return err
	}
	mark := func(l *Log, commit bool) {
		if _, err := l.AppendLeader(endMarker(pid, 0, commit), LeaderAppend{LeaderEpoch: 1, Origin: Coordinator, Verify: true}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		run  func(l *Log) error
		want error
	}{
		{"with its guard", func(l *Log) error {
			g, _ := l.StartVerification(pid, 0, 0)
			return verified(l, inTransaction(pid, 0, 0), g)
		}, nil},
		{"without a guard", func(l *Log) error {
			return verified(l, inTransaction(pid, 0, 0), 0)
		}, kerr.InvalidTxnState},
		{"without the guard that it was given", func(l *Log) error {
			l.StartVerification(pid, 0, 0)
			return verified(l, inTransaction(pid, 0, 0), 0)
		}, kerr.InvalidTxnState},
		{"with a guard from before a marker", func(l *Log) error {
			g, _ := l.StartVerification(pid, 0, 0)
			mark(l, false)
			return verified(l, inTransaction(pid, 0, 0), g)
		}, kerr.InvalidTxnState},
		{"with a guard from before a marker while the next transaction is verified", func(l *Log) error {
			g, _ := l.StartVerification(pid, 0, 0)
			mark(l, false)
			l.StartVerification(pid, 0, 0)
			return verified(l, inTransaction(pid, 0, 0), g)
		}, kerr.InvalidTxnState},
		{"without a guard in an open transaction", func(l *Log) error {
			g, _ := l.StartVerification(pid, 0, 0)
			if err := verified(l, inTransaction(pid, 0, 0), g); err != nil {
				return err
			}
			if _, needed := l.StartVerification(pid, 0, 1); needed {
				t.Error("an open transaction would be verified")
			}
			return verified(l, inTransaction(pid, 0, 1), 0)
		}, nil},
		{"without a guard after the transaction has ended", func(l *Log) error {
			g, _ := l.StartVerification(pid, 0, 0)
			if err := verified(l, inTransaction(pid, 0, 0), g); err != nil {
				return err
			}
			mark(l, true)
			return verified(l, inTransaction(pid, 0, 1), 0)
		}, kerr.InvalidTxnState},
		{"two verifications at the same time share a guard", func(l *Log) error {
			g, _ := l.StartVerification(pid, 0, 0)
			again, _ := l.StartVerification(pid, 0, 1)
			if g != again {
				t.Errorf("guards %d and %d", g, again)
			}
			return verified(l, inTransaction(pid, 0, 0), again)
		}, nil},
		{"the later of two batches is first", func(l *Log) error {
			l.StartVerification(pid, 0, 0)
			g, _ := l.StartVerification(pid, 0, 1)
			return verified(l, inTransaction(pid, 0, 1), g)
		}, kerr.OutOfOrderSequenceNumber},
		{"a new epoch has a new verification", func(l *Log) error {
			l.StartVerification(pid, 0, 5)
			g, _ := l.StartVerification(pid, 1, 9)
			return verified(l, inTransaction(pid, 1, 9), g)
		}, nil},
		{"records of no transaction", func(l *Log) error {
			return verified(l, sequenced(pid, 0, 0, 1).MustBuild(), 0)
		}, nil},
		{"offsets of a group without a guard", func(l *Log) error {
			_, err := l.AppendLeader(inTransaction(pid, 0, 0), LeaderAppend{LeaderEpoch: 1, Origin: Coordinator, Verify: true})
			return err
		}, kerr.InvalidTxnState},
		{"without a guard where verification is off", func(l *Log) error {
			_, err := l.AppendLeader(inTransaction(pid, 0, 0), LeaderAppend{LeaderEpoch: 1, ProduceVersion: 9})
			return err
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l, _ := newTestLog(t, nil)
			if err := test.run(l); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestVerificationExpires(t *testing.T) {
	l, c := newTestLog(t, nil)
	g, _ := l.StartVerification(42, 0, 0)
	l.expireProducers(c.now.Add(23 * time.Hour))
	if again, _ := l.StartVerification(42, 0, 0); again != g {
		t.Error("forgotten too early")
	}
	l.expireProducers(c.now.Add(25 * time.Hour))
	if again, _ := l.StartVerification(42, 0, 0); again == g {
		t.Error("not forgotten")
	}
}

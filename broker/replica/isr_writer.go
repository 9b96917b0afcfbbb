package replica

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"barnabas/internal/await"
	"barnabas/logstore"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ISRStore is where leaders write ISRs themselves, with an inter.broker.protocol.version before 2.7.
type ISRStore interface {
	// WriteISR writes a partition's ISR, provided that its state still has w.PartitionEpoch, and returns the new
	// partition epoch. The error is INVALID_UPDATE_VERSION if the state has been changed.
	WriteISR(ctx context.Context, w ISRWrite) (partitionEpoch int32, err error)
	// NotifyISRChange notifies the controller of partitions whose ISR has changed.
	NotifyISRChange(ctx context.Context, changed []logstore.TopicPartition) error
}

// ISRWrite is a partition's state as its leader writes it.
type ISRWrite struct {
	TP              logstore.TopicPartition
	Leader          int32
	LeaderEpoch     int32
	ISR             []int32
	ControllerEpoch int32 // of the controller that made it the leader
	PartitionEpoch  int32 // that the write is conditional on
}

// isrWriter writes ISR changes to the store, and notifies the controller at intervals (ZkAlterPartitionManager, 3.9).
type isrWriter struct {
	isrQueue
	brokerID int32
	store    ISRStore
	now      func() time.Time
	log      *logrus.Entry
	reports  isrReports
}

func newISRWriter(brokerID int32, store ISRStore, now func() time.Time, log *logrus.Entry) *isrWriter {
	w := &isrWriter{brokerID: brokerID, store: store, now: now, log: log}
	w.init()
	w.reports = isrReports{changed: make(map[logstore.TopicPartition]struct{}), lastReport: now()}
	return w
}

func (w *isrWriter) run(ctx context.Context) {
	for {
		due, stop := w.untilReport()
		select {
		case <-ctx.Done():
			stop()
			return
		case <-w.wake:
			w.writeAll(ctx)
		case <-due:
			w.report(ctx)
		}
		stop()
	}
}

// untilReport returns a channel that delivers when the controller has to be notified; nil without changes.
func (w *isrWriter) untilReport() (due <-chan time.Time, stop func()) {
	at, ok := w.reports.due()
	if !ok {
		return nil, func() {}
	}
	timer := time.NewTimer(at.Sub(w.now()))
	return timer.C, func() { timer.Stop() }
}

func (w *isrWriter) writeAll(ctx context.Context) {
	for _, c := range w.take() {
		if w.settle(ctx, c) {
			continue
		}
		if await.Pause(ctx, isrRetryDelay) != nil {
			return
		}
		w.submitAgain([]*isrChange{c})
	}
}

// settle writes a change and completes it. It reports false if the change has to be written again.
func (w *isrWriter) settle(ctx context.Context, c *isrChange) bool {
	a, err := w.write(ctx, c)
	if err != nil {
		w.log.WithError(err).Debug("cannot write an ISR, trying again")
		return false
	}
	if a.err == nil {
		w.reports.note(c.partition.TP, w.now())
	}
	return !settle(ctx, w.log, c, a)
}

// write returns the answer that settles the change, or an error if there is none.
func (w *isrWriter) write(ctx context.Context, c *isrChange) (isrAnswer, error) {
	epoch, err := w.store.WriteISR(ctx, ISRWrite{TP: c.partition.TP, Leader: w.brokerID, LeaderEpoch: c.leaderEpoch, ISR: c.isr,
		ControllerEpoch: c.controllerEpoch, PartitionEpoch: c.partitionEpoch})
	var code *kerr.Error
	if errors.As(err, &code) {
		return isrAnswer{err: code}, nil
	}
	return isrAnswer{isr: c.isr, leaderEpoch: c.leaderEpoch, partitionEpoch: epoch}, err
}

func (w *isrWriter) report(ctx context.Context) {
	changed := w.reports.take(w.now())
	if err := w.store.NotifyISRChange(ctx, changed); err != nil && ctx.Err() == nil {
		w.log.WithError(err).Warn("cannot notify the controller of changed ISRs")
		for _, tp := range changed {
			w.reports.note(tp, w.now())
		}
	}
}

const (
	isrReportPause = 5 * time.Second  // since the last change
	isrReportAtMax = 60 * time.Second // since the last report, however often ISRs change
)

// isrReports are the changes that the controller has not been notified of.
type isrReports struct {
	changed    map[logstore.TopicPartition]struct{}
	lastChange time.Time
	lastReport time.Time
}

func (r *isrReports) note(tp logstore.TopicPartition, now time.Time) {
	r.changed[tp] = struct{}{}
	r.lastChange = now
}

// due returns when to report; ok is false if there is nothing to report.
func (r *isrReports) due() (at time.Time, ok bool) {
	at = r.lastChange.Add(isrReportPause)
	if latest := r.lastReport.Add(isrReportAtMax); latest.Before(at) {
		at = latest
	}
	return at, len(r.changed) > 0
}

func (r *isrReports) take(now time.Time) []logstore.TopicPartition {
	changed := slices.SortedFunc(maps.Keys(r.changed), logstore.TopicPartition.Compare)
	clear(r.changed)
	r.lastReport = now
	return changed
}

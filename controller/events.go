package controller

import (
	"context"
	"sync"
	"time"
)

// Work is what an event is for, numbered as in Apache Kafka's metric of the controller's state (ControllerState, 3.9).
type Work int

// Work done as Idle, allocating blocks of producer ids, is not measured.
const (
	Idle Work = iota
	ControllerChange
	BrokerChange
	TopicChange
	TopicDeletion
	AlterPartitionReassignment
	AutoLeaderBalance
	ManualLeaderBalance
	ControlledShutdown
	ISRChange
	LeaderAndISRResponseReceived
	LogDirChange
	ControllerShutdown
	UncleanLeaderElectionEnable
	TopicUncleanLeaderElectionEnable
	ListPartitionReassignment
	UpdateMetadataResponseReceived
	UpdateFeatures
	works
)

// workMetrics are the names of metrics by Work.
var workMetrics = [works]string{
	ControllerChange: "controllerchange", BrokerChange: "leaderelection", TopicChange: "topicchange", TopicDeletion: "topicdeletion",
	AlterPartitionReassignment: "partitionreassignment", AutoLeaderBalance: "autoleaderbalance", ManualLeaderBalance: "manualleaderbalance",
	ControlledShutdown: "controlledshutdown", ISRChange: "isrchange", LeaderAndISRResponseReceived: "leaderandisrresponsereceived",
	LogDirChange: "logdirchange", ControllerShutdown: "controllershutdown", UncleanLeaderElectionEnable: "uncleanleaderelectionenable",
	TopicUncleanLeaderElectionEnable: "topicuncleanleaderelectionenable", ListPartitionReassignment: "listpartitionreassignment",
	UpdateFeatures: "updatefeatures",
}

// WorkMetrics returns the name of each kind of work in metrics, by its number; empty if it is not measured.
func WorkMetrics() []string { return workMetrics[:] }

// event is something for the loop to do.
type event struct {
	name   string // for the log
	work   Work
	run    func(ctx context.Context) error
	posted time.Time
}

// eventQueue is the loop's queue: unbounded, first in, first out.
type eventQueue struct {
	wake chan struct{}
	mu   struct {
		sync.Mutex
		events []event
	}
}

func (q *eventQueue) put(e event) {
	q.mu.Lock()
	q.mu.events = append(q.mu.events, e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() (event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.events) == 0 {
		return event{}, false
	}
	e := q.mu.events[0]
	q.mu.events[0] = event{}
	q.mu.events = q.mu.events[1:]
	return e, true
}

func (q *eventQueue) next(ctx context.Context) (event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return event{}, context.Cause(ctx)
		}
		if e, ok := q.take(); ok {
			return e, nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

func (q *eventQueue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.events)
}

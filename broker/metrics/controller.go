package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// controllerWork is what a controller's events are measured as, by the event's name (ControllerState, 3.9). Events that Apache Kafka does not
// measure are not here.
var controllerWork = map[string]string{
	"start": "controllerchange", "elect": "controllerchange", "controller changed": "controllerchange", "new session": "controllerchange",
	"session expired": "controllerchange", "brokers changed": "leaderelection", "topics changed": "topicchange", "topic changed": "topicchange",
	"topic deletions changed": "topicdeletion", "reassignments asked": "partitionreassignment", "alter reassignments": "partitionreassignment",
	"list reassignments": "listpartitionreassignment", "rebalance leaders": "autoleaderbalance", "preferred elections asked": "manualleaderbalance",
	"elect leaders": "manualleaderbalance", "controlled shutdown": "controlledshutdown", "ISRs changed": "isrchange", "alter partition": "isrchange",
	"log directory failed": "logdirchange", "broker answered": "leaderandisrresponsereceived",
	"unclean election allowed": "topicuncleanleaderelectionenable", "update features": "updatefeatures",
}

// controllerTimes measures a controller's events.
type controllerTimes map[string]*summary

func newControllerTimes(r *prometheus.Registry) controllerTimes {
	times, of := make(controllerTimes), make(map[string]*summary)
	for event, work := range controllerWork {
		if of[work] == nil {
			of[work] = newTimes(r, "kafka_controller_controllerstats_"+work+"rateandtimems", "Time of the controller's work, in milliseconds.", nil)
		}
		times[event] = of[work]
	}
	return times
}

// Controlled measures an event that the controller has handled, by its name.
func (m *Metrics) Controlled(event string, took time.Duration) {
	if m == nil {
		return
	}
	if s := m.controller[event]; s != nil {
		s.observe(took, time.Now())
	}
}

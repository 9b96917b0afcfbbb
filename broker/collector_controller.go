package broker

import (
	"strconv"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/metrics"
	"barnabas/controller"

	"github.com/prometheus/client_golang/prometheus"
)

// controlled measures an event that the controller has handled.
func (s *Server) controlled(w controller.Work, waited, took time.Duration) {
	s.metrics.Controlled(int(w), waited, took)
}

// controller adds the metrics of the whole cluster that the active controller reports, and zeros on the other brokers.
func (m *collector) controller(add func(prometheus.Metric)) {
	gauge := func(name string, v int) {
		add(metrics.Gauge("kafka_controller_kafkacontroller_"+name, float64(v)))
	}
	active := m.s.controller.Active()
	gauge("activecontrollercount", one(active))
	n := m.s.controller.Deletions()
	gauge("topicstodeletecount", n.Topics)
	gauge("replicastodeletecount", n.Replicas)
	gauge("topicsineligibletodeletecount", n.HeldTopics)
	gauge("replicasineligibletodeletecount", n.FailedReplicas)
	gauge("controllerstate", int(m.s.controller.Work()))
	add(metrics.Gauge("kafka_server_metadataloader_currentcontrollerid", float64(m.s.controller.ControllerID())))
	add(metrics.Gauge("kafka_controller_controllereventmanager_eventqueuesize", float64(m.s.controller.Queued())))
	m.controllerRequests(add)
	add(metrics.Counter("kafka_controller_controllerstats_uncleanleaderelections_total", float64(m.s.controller.UncleanElections())))
	snapshot := &metadata.Snapshot{}
	if active {
		snapshot = m.s.metadata.Current()
	}
	partitions, leaderless, unpreferred := 0, 0, 0
	for _, t := range snapshot.Topics {
		for _, p := range t.Partitions {
			partitions++
			leaderless += one(p.Leaderless())
			unpreferred += one(len(p.Replicas) > 0 && p.Leader != p.Replicas[0])
		}
	}
	gauge("globaltopiccount", len(snapshot.Topics))
	gauge("globalpartitioncount", partitions)
	gauge("offlinepartitionscount", leaderless)
	gauge("preferredreplicaimbalancecount", unpreferred)
	gauge("activebrokercount", len(snapshot.Brokers))
	gauge("fencedbrokercount", 0)
}

// controllerRequests adds the requests that wait to be sent by this broker's controller.
func (m *collector) controllerRequests(add func(prometheus.Metric)) {
	total := 0
	for id, n := range m.s.controller.QueuedRequests() {
		total += n
		add(metrics.Gauge("kafka_controller_controllerchannelmanager_queuesize", float64(n), "broker_id", strconv.Itoa(int(id))))
	}
	add(metrics.Gauge("kafka_controller_controllerchannelmanager_totalqueuesize", float64(total)))
}

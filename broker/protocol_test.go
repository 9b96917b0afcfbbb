package broker

import (
	"testing"

	"barnabas/config"
	"barnabas/controller"

	"github.com/google/go-cmp/cmp"
)

func serverSince(v config.ProtocolVersion) *Server {
	return &Server{static: &config.Broker{InterBrokerProtocolVersion: v}}
}

func TestControllerProtocol(t *testing.T) {
	for _, test := range []struct {
		since config.ProtocolVersion
		want  controller.Protocol
	}{
		{config.IBP39IV0, controller.NewestProtocol()},
		{config.IBP28IV1, controller.Protocol{LeaderAndISR: 5, UpdateMetadata: 7, StopReplica: 3, TopicIDs: true, AlterPartition: true, Features: true, FeatureFormat: 1}},
		{config.IBP28IV0, controller.Protocol{LeaderAndISR: 4, UpdateMetadata: 6, StopReplica: 3, TopicIDs: true, AlterPartition: true, Features: true, FeatureFormat: 1}},
		{config.IBP27IV1, controller.Protocol{LeaderAndISR: 4, UpdateMetadata: 6, StopReplica: 3, Features: true, FeatureFormat: 1}},
		{config.IBP26IV0, controller.Protocol{LeaderAndISR: 4, UpdateMetadata: 6, StopReplica: 3, FeatureFormat: 1}},
		{config.IBP24IV0, controller.Protocol{LeaderAndISR: 3, UpdateMetadata: 5, StopReplica: 1, FeatureFormat: 1}},
		{config.IBP0110IV0, controller.Protocol{UpdateMetadata: 3, FeatureFormat: 1}},
	} {
		if diff := cmp.Diff(test.want, serverSince(test.since).controllerProtocol()); diff != "" {
			t.Errorf("%v: %s", test.since, diff)
		}
	}
}

// TestRequestVersions: in a cluster with brokers of an earlier release, no broker gets a request that it does not know.
func TestRequestVersions(t *testing.T) {
	type versions struct{ alterPartition, fetch, epochs, offsets, shutdown, markers, verify int16 }
	for _, test := range []struct {
		since config.ProtocolVersion
		want  versions
	}{
		{config.IBP39IV0, versions{3, 17, 4, 9, 3, 1, 5}},
		{config.IBP36IV0, versions{3, 15, 4, 8, 3, 1, 4}},
		{config.IBP35IV0, versions{2, 14, 4, 8, 3, 1, -1}},
		{config.IBP27IV2, versions{0, 12, 3, 5, 3, 0, -1}},
		{config.IBP24IV0, versions{0, 11, 3, 5, 2, 0, -1}},
		{config.IBP21IV1, versions{0, 8, 2, 4, 1, 0, -1}},
		{config.IBP0110IV0, versions{0, 5, 0, 2, 1, 0, -1}},
	} {
		s := serverSince(test.since)
		got := versions{s.alterPartitionVersion(), s.fetchVersion(), s.offsetForLeaderEpochVersion(), s.listOffsetsVersion(),
			s.controlledShutdownVersion(), s.writeTxnMarkersVersion(), s.verifyVersion()}
		if got != test.want {
			t.Errorf("%v: got %v, want %v", test.since, got, test.want)
		}
	}
}

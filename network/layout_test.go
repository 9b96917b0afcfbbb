package network

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStopReplicaIsLaidOutAsInApacheKafka uses bytes that Apache Kafka 3.9 has written.
func TestStopReplicaIsLaidOutAsInApacheKafka(t *testing.T) {
	topic := kmsg.StopReplicaRequestTopic{Topic: "t", PartitionStates: []kmsg.StopReplicaRequestTopicPartitionState{{Partition: 7, LeaderEpoch: 8, Delete: true}}}
	for _, c := range []struct {
		version int16
		isKRaft bool
		theirs  string
	}{
		{3, false, "0000000100000002" + "0000000000000003" + "02027402000000070000000801000000"},
		{4, false, "000000010000000002" + "0000000000000003" + "02027402000000070000000801000000"},
		{4, true, "000000010100000002" + "0000000000000003" + "02027402000000070000000801000000"},
	} {
		theirs, err := hex.DecodeString(c.theirs)
		if err != nil {
			t.Fatal(err)
		}
		ours := &kmsg.StopReplicaRequest{Version: c.version, ControllerID: 1, IsKRaftController: c.isKRaft, ControllerEpoch: 2, BrokerEpoch: 3,
			Topics: []kmsg.StopReplicaRequestTopic{topic}}
		if got := LaidOut(ours).AppendTo([]byte("before")); !bytes.Equal(got, append([]byte("before"), theirs...)) {
			t.Errorf("version %d is encoded as %x, want %x", c.version, got, theirs)
		}
		read := &kmsg.StopReplicaRequest{Version: c.version}
		if err := LaidOut(read).ReadFrom(theirs); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ours, read, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(kmsg.Tags{})); diff != "" {
			t.Errorf("version %d, encoded (-) and decoded (+):\n%s", c.version, diff)
		}
		if err := LaidOut(read).ReadFrom(theirs[:6]); err == nil {
			t.Errorf("version %d is decoded although it is truncated", c.version)
		}
	}
}

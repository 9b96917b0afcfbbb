package replica

import (
	"fmt"

	"barnabas/logstore"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DropStray deletes a replica that no longer belongs to its partition, unless the controller has assigned it again
// since its leader epoch was seen (which may be NotHosted).
//
// The controller may have taken the replica off the partition without this broker having heard of it yet. Requests with
// earlier leader epochs are then still on their way: with an empty log this broker must not become a leader, to whose
// log others would truncate theirs. So LeaderAndIsr of the topic are refused up to the leader epoch until.
func (m *Manager) DropStray(tp logstore.TopicPartition, seen int32, topic [16]byte, until int32) (dropped bool, err error) {
	m.control.Lock()
	defer m.control.Unlock()
	if m.HostedEpoch(tp) != seen {
		return false, nil
	}
	m.control.dropped[tp] = droppedReplica{topic, until}
	return true, m.stopLocked(Stop{TP: tp, LeaderEpoch: NotHosted, Delete: true})
}

// droppedReplica is a replica that was deleted as a stray.
type droppedReplica struct {
	topic [16]byte
	until int32
}

// checkDropped refuses to create a replica again that was deleted as a stray, until the controller assigns it anew.
func (m *Manager) checkDropped(a Assignment) error {
	d, ok := m.control.dropped[a.TP]
	if _, hosted := m.Partition(a.TP); !ok || hosted || a.State.IsNew || a.Topic != d.topic || a.State.LeaderEpoch > d.until {
		return nil
	}
	return fmt.Errorf("%v: leader epoch %d, taken off this broker in %d at the latest: %w", a.TP, a.State.LeaderEpoch, d.until, kerr.StaleControllerEpoch)
}

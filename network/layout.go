package network

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// LaidOut returns the same request with its fields in Apache Kafka's order, for encoding and decoding, where the wire
// library has another order.
func LaidOut(req kmsg.Request) kmsg.Request {
	if stop, is := req.(*kmsg.StopReplicaRequest); is {
		return stopReplica{stop}
	}
	return req
}

// stopReplica is a StopReplica request. Version 4 has the flag for KRaft controllers (KIP-866) before the controller's
// epoch (StopReplicaRequest.json, 3.9), but the wire library has it after. Each side would then read an epoch 1 of the
// other as 256 or 0, and refuse everything that the controllers send next.
type stopReplica struct{ *kmsg.StopReplicaRequest }

// Positions of the two fields in version 4, in bytes; the flag takes one byte.
const (
	stopReplicaEpoch = 4
	stopReplicaEnd   = stopReplicaEpoch + 4 + 1
)

func (r stopReplica) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = r.StopReplicaRequest.AppendTo(dst)
	if r.Version >= 4 {
		swapped := dst[start+stopReplicaEpoch : start+stopReplicaEnd]
		isKRaft := swapped[4]
		copy(swapped[1:], swapped[:4])
		swapped[0] = isKRaft
	}
	return dst
}

func (r stopReplica) ReadFrom(src []byte) error {
	if err := r.StopReplicaRequest.ReadFrom(src); err != nil || r.Version < 4 {
		return err
	}
	r.IsKRaftController = src[stopReplicaEpoch] != 0
	r.ControllerEpoch = int32(binary.BigEndian.Uint32(src[stopReplicaEpoch+1:]))
	return nil
}

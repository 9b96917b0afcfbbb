package api

import (
	"errors"

	"barnabas/logstore"
	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
)

// fetchResponse is a Fetch response, whose records go from the file to the socket. Written by hand, since
// the wire library wants records in memory. Layout by version:
//
//	v1+ throttle int32; v7+ error int16, session int32; topics; v16+ tag 0: node endpoints
//	topic:     v0-12 name, v13+ id uuid; partitions
//	partition: index int32, error int16, high watermark int64, v4+ last stable int64, v5+ log start int64,
//	           v4+ aborted transactions (null unless read committed), v11+ preferred replica int32, records,
//	           v12+ tag 0: diverging epoch, tag 1: current leader
type fetchResponse struct {
	version   int16
	code      int16
	throttle  int32 // milliseconds
	session   int32
	committed bool // the reader requested aborted transactions
	parts     []fetchPartition
	hints     map[int]leaderHint // by index in parts
	// nullRecords: if the whole request fails, records are null rather than empty.
	nullRecords bool
}

func (r *fetchResponse) flexible() bool { return r.version >= 12 }

// SetThrottle implements kmsg.SetThrottleResponse: how long a client must wait, in milliseconds.
func (r *fetchResponse) SetThrottle(millis int32) { r.throttle = max(r.throttle, millis) }

// AppendTo implements network.Response; a fetchResponse is always sent in parts.
func (r *fetchResponse) AppendTo(dst []byte) []byte {
	out := network.Out{Buf: dst}
	r.AppendParts(&out)
	return out.Buf
}

// AppendParts adds the response to out, which then owns the file ranges.
func (r *fetchResponse) AppendParts(out *network.Out) {
	if r.version >= 1 {
		out.Buf = kbin.AppendInt32(out.Buf, r.throttle)
	}
	if r.version >= 7 {
		out.Buf = kbin.AppendInt16(out.Buf, r.code)
		out.Buf = kbin.AppendInt32(out.Buf, r.session)
	}
	r.appendCount(out, r.topics())
	for i := 0; i < len(r.parts); {
		n := r.sameTopic(i)
		r.appendTopic(out, i, n)
		i += n
	}
	if r.flexible() {
		r.appendEndpoints(out)
	}
}

// sameTopic counts the parts from i on that belong to the same topic.
func (r *fetchResponse) sameTopic(i int) int {
	n := 1
	for i+n < len(r.parts) && r.parts[i+n].topic == r.parts[i].topic && r.parts[i+n].id == r.parts[i].id {
		n++
	}
	return n
}

func (r *fetchResponse) topics() int {
	count := 0
	for i := 0; i < len(r.parts); i += r.sameTopic(i) {
		count++
	}
	return count
}

func (r *fetchResponse) appendCount(out *network.Out, n int) {
	if r.flexible() {
		out.Buf = kbin.AppendCompactArrayLen(out.Buf, n)
	} else {
		out.Buf = kbin.AppendArrayLen(out.Buf, n)
	}
}

func (r *fetchResponse) appendTopic(out *network.Out, first, n int) {
	switch {
	case r.version >= fetchTopicIDVersion:
		out.Buf = kbin.AppendUuid(out.Buf, r.parts[first].id)
	case r.flexible():
		out.Buf = kbin.AppendCompactString(out.Buf, r.parts[first].topic)
	default:
		out.Buf = kbin.AppendString(out.Buf, r.parts[first].topic)
	}
	r.appendCount(out, n)
	for i := first; i < first+n; i++ {
		r.appendPartition(out, i)
	}
	if r.flexible() {
		out.Buf = append(out.Buf, 0)
	}
}

func (r *fetchResponse) appendPartition(out *network.Out, i int) {
	a := &r.parts[i]
	b := kbin.AppendInt32(out.Buf, a.number)
	failure := fetchCode(a)
	b = kbin.AppendInt16(b, failure)
	mark, stable, start := a.view.HighWatermark, a.view.LastStable, a.view.LogStart
	if failure != 0 {
		mark, stable, start = -1, -1, -1
	}
	b = kbin.AppendInt64(b, mark)
	if r.version >= 4 {
		b = kbin.AppendInt64(b, stable)
	}
	if r.version >= 5 {
		b = kbin.AppendInt64(b, start)
	}
	if r.version >= 4 {
		b = r.appendAborted(b, a)
	}
	if r.version >= preferredReplicaVersion {
		b = kbin.AppendInt32(b, a.preferred)
	}
	out.Buf = b
	r.appendRecords(out, a)
	if r.flexible() {
		out.Buf = r.appendPartitionTags(out.Buf, i)
	}
}

func (r *fetchResponse) appendAborted(b []byte, a *fetchPartition) []byte {
	if !r.listsAborted(a) {
		if r.flexible() {
			return append(b, 0)
		}
		return kbin.AppendInt32(b, -1)
	}
	if r.flexible() {
		b = kbin.AppendCompactArrayLen(b, len(a.aborted))
	} else {
		b = kbin.AppendArrayLen(b, len(a.aborted))
	}
	for _, t := range a.aborted {
		b = kbin.AppendInt64(b, t.ProducerID)
		b = kbin.AppendInt64(b, t.FirstOffset)
		if r.flexible() {
			b = append(b, 0)
		}
	}
	return b
}

// listsAborted distinguishes, as Apache Kafka does, between no list of aborted transactions and an empty one, which a
// partition has that does not exist or whose records the client cannot have.
func (r *fetchResponse) listsAborted(a *fetchPartition) bool {
	if a.missing != nil || a.refused {
		return true
	}
	return r.committed && a.failed == nil && a.preferred < 0 && a.view.Diverging == nil
}

func (r *fetchResponse) appendRecords(out *network.Out, a *fetchPartition) {
	size := a.view.Records.Size
	if a.bytes != nil {
		size = int64(len(a.bytes))
	}
	if r.nullRecords || a.refused {
		size = -1
	}
	if r.flexible() {
		out.Buf = kbin.AppendUvarint(out.Buf, uint32(size+1))
	} else {
		out.Buf = kbin.AppendInt32(out.Buf, int32(size))
	}
	switch {
	case a.bytes != nil:
		out.Buf = append(out.Buf, a.bytes...)
	case size > 0:
		out.File(&recordsRange{&a.view.Records})
	}
}

// recordsRange is a range of a segment's file, for the network.
type recordsRange struct{ *logstore.Records }

// Fd returns the segment file's descriptor.
func (r *recordsRange) Fd() uintptr { return r.OS().Fd() }

// Range returns where the records are in the file.
func (r *recordsRange) Range() (position, size int64) { return r.Position, r.Size }

func (r *fetchResponse) appendPartitionTags(b []byte, i int) []byte {
	a := &r.parts[i]
	hint, hinted := r.hints[i]
	count := 0
	if a.view.Diverging != nil {
		count++
	}
	if hinted {
		count++
	}
	b = append(b, byte(count))
	if d := a.view.Diverging; d != nil {
		b = append(b, 0, 13) // tag, size: int32, int64, no tags
		b = kbin.AppendInt32(b, d.Epoch)
		b = kbin.AppendInt64(b, d.Offset)
		b = append(b, 0)
	}
	if hinted {
		b = append(b, 1, 9) // tag, size: int32, int32, no tags
		b = kbin.AppendInt32(b, hint.leader)
		b = kbin.AppendInt32(b, hint.epoch)
		b = append(b, 0)
	}
	return b
}

// addHints adds the current leaders of the partitions that were requested from the wrong broker or with the wrong
// epoch.
func (r *fetchResponse) addHints(f *fetching) {
	for i := range r.parts {
		a := &r.parts[i]
		if !errors.Is(a.failed, kerr.NotLeaderForPartition) && !errors.Is(a.failed, kerr.FencedLeaderEpoch) {
			continue
		}
		if hint, ok := f.h.leaderHint(f.c.Conn.Listener, a.topic, a.number); ok {
			if r.hints == nil {
				r.hints = make(map[int]leaderHint)
			}
			r.hints[i] = hint
		}
	}
}

func (r *fetchResponse) appendEndpoints(out *network.Out) {
	nodes := make(map[int32]leaderHint)
	for _, hint := range r.hints {
		if hint.node != nil {
			nodes[hint.leader] = hint
		}
	}
	if len(nodes) == 0 {
		out.Buf = append(out.Buf, 0)
		return
	}
	body := kbin.AppendCompactArrayLen(nil, len(nodes))
	for id, hint := range nodes {
		body = kbin.AppendInt32(body, id)
		body = kbin.AppendCompactString(body, hint.node.Host)
		body = kbin.AppendInt32(body, hint.node.Port)
		body = kbin.AppendCompactNullableString(body, hint.rack)
		body = append(body, 0)
	}
	out.Buf = append(out.Buf, 1, 0)
	out.Buf = kbin.AppendUvarint(out.Buf, uint32(len(body)))
	out.Buf = append(out.Buf, body...)
}

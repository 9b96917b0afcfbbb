package api

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"barnabas/network"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refused returns the response to a request that arrives during a login, decoded from its bytes.
func refused(t *testing.T, h *Handlers, req kmsg.Request) (kmsg.Response, error) {
	t.Helper()
	r := &network.Request{Key: req.Key(), Version: req.GetVersion(), Body: req.AppendTo(nil)}
	answer, err := h.Refuse(r, fmt.Errorf("amid a login: %w", kerr.IllegalSaslState))
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(answer.Wait(t.Context()).AppendTo(nil)); err != nil {
		t.Errorf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// TestRefusedInEveryVersion: every request that can be decoded gets a response that can be decoded.
func TestRefusedInEveryVersion(t *testing.T) {
	h := newHandlers(t)
	for key, r := range h.rows {
		for version := r.min; version <= r.max; version++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			if d, is := req.(interface{ Default() }); is {
				d.Default()
			}
			if produce, is := req.(*kmsg.ProduceRequest); is {
				produce.Acks = -1
			}
			if _, err := refused(t, h, req); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(key), version, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	h := newHandlers(t)
	illegal := kerr.IllegalSaslState.Code

	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks = 9, 1
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 3, Records: []byte{}}}}}
	resp, err := refused(t, h, produce)
	if err != nil {
		t.Fatal(err)
	}
	if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.Partition != 3 || p.ErrorCode != illegal || p.BaseOffset != -1 {
		t.Errorf("Produce: %+v", p)
	}
	produce.Acks = 0
	if _, err := refused(t, h, produce); !errors.Is(err, kerr.IllegalSaslState) {
		t.Errorf("Produce that wants no answer: %v", err)
	}

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"a", "b"}
	if resp, err = refused(t, h, find); err != nil {
		t.Fatal(err)
	}
	if all := resp.(*kmsg.FindCoordinatorResponse).Coordinators; len(all) != 2 || all[1].Key != "b" || all[1].ErrorCode != illegal {
		t.Errorf("FindCoordinator: %+v", all)
	}

	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 1
	for i := range 300 {
		metadata.Topics = append(metadata.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(fmt.Sprint(i))})
	}
	if _, err := refused(t, h, metadata); !errors.Is(err, kerr.IllegalSaslState) {
		t.Errorf("a large request: %v", err)
	}
}

// FuzzRefuse: any bytes that arrive during a login get a response of the request's version, or an error.
func FuzzRefuse(f *testing.F) {
	f.Add(binary.BigEndian.AppendUint16(nil, uint16(kmsg.Metadata)), []byte{0, 0, 0, 1, 0, 1, 't'})
	f.Add([]byte{0, 18, 0, 99}, []byte{})
	f.Fuzz(func(t *testing.T, head, body []byte) {
		h := newHandlers(t)
		head = append(head, 0, 0, 0, 0)
		r := &network.Request{Key: int16(binary.BigEndian.Uint16(head)), Version: int16(binary.BigEndian.Uint16(head[2:])), Body: body}
		if _, err := h.Route(nil, r.Key, r.Version); err != nil {
			return
		}
		if answer, err := h.Refuse(r, kerr.IllegalSaslState); err == nil {
			answer.Wait(t.Context()).AppendTo(nil)
		}
	})
}

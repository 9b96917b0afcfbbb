package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestInstanceWithADynamicMembersID: an id that was given to a dynamic member is refused to a static one, and not
// repeated in the response, since Apache Kafka fails unexpectedly.
func TestInstanceWithADynamicMembersID(t *testing.T) {
	g := newGroup("g", testLimits(), epoch)
	join := func(member string, instance *string) *kmsg.JoinGroupResponse {
		req := &kmsg.JoinGroupRequest{Version: 9, Group: "g", MemberID: member, InstanceID: instance, SessionTimeoutMillis: 10_000,
			ProtocolType: "consumer", Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range"}}}
		r := newJoinRequest(req, Client{ID: "c"})
		g.join(&step{now: epoch}, r)
		return <-r.reply
	}
	given := join("", nil)
	if given.ErrorCode != kerr.MemberIDRequired.Code || given.MemberID == "" {
		t.Fatalf("%+v", given)
	}
	instance := "i"
	if got := join(given.MemberID, &instance); got.ErrorCode != kerr.UnknownServerError.Code || got.MemberID != "" {
		t.Errorf("error code %d, member id %q", got.ErrorCode, got.MemberID)
	}
}

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const aclAuthorizer = "authorizer.class.name=" + ACLAuthorizer

func TestAuthorizerSettings(t *testing.T) {
	b := mustParse(t, aclAuthorizer, "super.users= User:CN=a b, O=x ; User:bob;;", "allow.everyone.if.no.acl.found= True ")
	if diff := cmp.Diff([]string{"User:CN=a b, O=x", "User:bob"}, b.SuperUsers); diff != "" || !b.AllowEveryoneIfNoACL || b.AuthorizerZookeeper != nil {
		t.Error(diff, b.AllowEveryoneIfNoACL, b.AuthorizerZookeeper)
	}
	b = mustParse(t, aclAuthorizer, "authorizer.zookeeper.url=other:1/acls", "authorizer.zookeeper.session.timeout.ms=7000", "zookeeper.max.in.flight.requests=3")
	want := &AuthorizerZookeeper{Connect: "other:1/acls", SessionTimeout: 7 * time.Second, ConnectionTimeout: b.ZookeeperConnectionTimeout, MaxInFlight: 3}
	if diff := cmp.Diff(want, b.AuthorizerZookeeper); diff != "" {
		t.Error(diff)
	}
}

// TestUnknownAuthorizers: if the broker would be open or closed to everybody, the start fails with an error
// that names the key and its value.
func TestUnknownAuthorizers(t *testing.T) {
	for _, test := range []struct {
		settings []string
		want     []string
	}{
		{[]string{"authorizer.class.name=com.example.Mine"}, []string{"authorizer.class.name=com.example.Mine", ACLAuthorizer}},
		{[]string{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, []string{"StandardAuthorizer", "KRaft", ACLAuthorizer}},
		{[]string{aclAuthorizer, "super.users=alice"}, []string{"super.users=alice", "User:alice"}},
		{[]string{aclAuthorizer, "allow.everyone.if.no.acl.found=yes"}, []string{"allow.everyone.if.no.acl.found=yes"}},
		{[]string{aclAuthorizer, "authorizer.zookeeper.session.timeout.ms=soon"}, []string{"authorizer.zookeeper.session.timeout.ms=soon"}},
		{[]string{aclAuthorizer, "authorizer.zookeeper.ssl.truststore.type=PEM"}, []string{"authorizer.zookeeper.ssl.truststore.type=PEM", "zookeeper.ssl.*"}},
		{[]string{aclAuthorizer, "authorizer.zookeeper.max.in.flight.requests=0"}, []string{"authorizer.zookeeper.max.in.flight.requests=0"}},
	} {
		_, err := Parse(over(test.settings...))
		for _, word := range test.want {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%v: %v, want %s", test.settings, err, word)
			}
		}
	}
}

package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oddSuperUsers are written in every way that is accepted.
const oddSuperUsers = "super.users= User:ANONYMOUS ;User:bob;  User:a b\t; user:carol;User: dave;User:erin ;Other:frank;User:G;User:h\\;User:i:j;:k;User:;User:l;;"

// TestOddSuperUsers: however they are written, the same users are super users as with Apache Kafka.
func TestOddSuperUsers(t *testing.T) {
	users := []string{"bob", "a b", "carol", "dave", " dave", "erin", "erin ", "frank", "g", "G", "h", "i", "i:j", "k", "l", "m"}
	logins := "listener.name.secure.plain.sasl.jaas.config=" + plainModule + " required"
	for _, u := range users {
		logins += fmt.Sprintf(` "user_%s"="pw"`, u)
	}
	settings := []string{oddSuperUsers, logins + ";"}
	who := func(g guarded) map[string]bool {
		super := make(map[string]bool)
		for _, u := range users {
			resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(t.Context(), g.asUser(t, u))
			if err != nil {
				t.Errorf("%q: %v", u, err)
				continue
			}
			super[u] = resp.ErrorCode == 0
		}
		return super
	}
	theirs := who(startGuardedPeer(t, 0, zookeeper(t), settings...))
	if diff := cmp.Diff(theirs, who(startGuarded(t, zookeeper(t), settings...))); diff != "" {
		t.Errorf("Apache Kafka's (-) and ours (+)\n%s", diff)
	}
	if !theirs["bob"] || theirs["m"] {
		t.Error(theirs)
	}
}

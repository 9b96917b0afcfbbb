package api

import (
	"errors"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSCRAMChangesOfOneUser(t *testing.T) {
	up := func(user string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: user, Mechanism: mechanism, Iterations: iterations}
	}
	down := func(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
		return kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: user, Mechanism: mechanism}
	}
	for _, tc := range []struct {
		name string
		ups  []kmsg.AlterUserSCRAMCredentialsRequestUpsertion
		down []kmsg.AlterUserSCRAMCredentialsRequestDeletion
		want *kerr.Error
	}{
		{"both mechanisms", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096), up("u", 2, 16384)}, nil, nil},
		{"written and deleted", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096)},
			[]kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 1)}, kerr.DuplicateResource},
		{"one written, the other deleted", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096)},
			[]kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 2)}, nil},
		{"twice, then too few", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096), up("u", 1, 4096), up("u", 2, 1)}, nil, kerr.UnacceptableCredential},
		{"the last fault is told", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 1), up("u", 3, 4096)}, nil, kerr.UnsupportedSaslMechanism},
		{"those of deletions are the first", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 1)},
			[]kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 3)}, kerr.UnacceptableCredential},
		{"a mechanism that is not there", nil, []kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 3)}, kerr.UnsupportedSaslMechanism},
	} {
		changes := scramChanges(&kmsg.AlterUserSCRAMCredentialsRequest{Upsertions: tc.ups, Deletions: tc.down})
		if err := changes["u"].err; len(changes) != 1 || (tc.want == nil) != (err == nil) || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestDeletionOfACredentialWithoutResponse: a credential that the first attempt has deleted, whose response was lost, is
// not missed by the second one.
func TestDeletionOfACredentialWithoutResponse(t *testing.T) {
	c := &scramChange{mechanisms: map[string]string{"SCRAM-SHA-256": ""}}
	if _, err := c.apply("alice", map[string]string{}); !errors.Is(err, kerr.ResourceNotFound) {
		t.Errorf("a credential that does not exist: %v", err)
	}
	for _, stored := range []map[string]string{{"SCRAM-SHA-256": "x", "quota": "1"}, {"quota": "2"}} {
		want := map[string]string{"quota": stored["quota"]}
		if next, err := c.apply("alice", stored); err != nil || !maps.Equal(next, want) {
			t.Errorf("%v, %v", next, err)
		}
	}
}

package zksim

import (
	"context"
	"testing"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRemovedACLsOfOthersStay: if the response to the removal of a node is lost, ACLs that others have written there
// meanwhile are not removed with the next attempt, although their node has the same version.
func TestRemovedACLsOfOthersStay(t *testing.T) {
	ctx := context.Background()
	e := New()
	client, c := connect(t, e)
	other, _ := connect(t, e)
	if err := client.EnsureACLNodes(ctx); err != nil {
		t.Fatal(err)
	}
	topic := zkcoord.ACLResource{Type: kmsg.ACLResourceTypeTopic, Pattern: kmsg.ACLResourcePatternTypeLiteral, Name: "t"}
	entry := func(user string) zkcoord.ACLEntry {
		return zkcoord.ACLEntry{Principal: "User:" + user, Host: "*", Operation: kmsg.ACLOperationRead, Permission: kmsg.ACLPermissionTypeDeny}
	}
	add := func(c *zkcoord.Client, user string) {
		t.Helper()
		err := c.UpdateACLs(ctx, topic, func(old []zkcoord.ACLEntry) []zkcoord.ACLEntry { return append(old, entry(user)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	add(client, "alice")
	script(c, Answered, AnswerLost) // the read, and the removal
	c.Wait = func() {
		if !c.Up() {
			add(other, "bob")
			c.Restore()
		}
	}
	var removed []zkcoord.ACLEntry
	err := client.UpdateACLs(ctx, topic, func(old []zkcoord.ACLEntry) []zkcoord.ACLEntry {
		removed = old
		return nil
	})
	if err != nil || len(removed) != 1 || removed[0] != entry("alice") {
		t.Errorf("removed %v, %v", removed, err)
	}
	left, err := client.ACLs(ctx, topic)
	if err != nil || len(left) != 1 || left[0] != entry("bob") {
		t.Errorf("left %v, %v", left, err)
	}
}

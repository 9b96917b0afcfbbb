package acl

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDecisionsOfApacheKafka compares decisions with those that Apache Kafka's broker has made with the same ACLs,
// recorded from its responses: which operations are authorized, and whether an idempotent producer gets an id.
func TestDecisionsOfApacheKafka(t *testing.T) {
	data, err := os.ReadFile("testdata/decisions.txt")
	if err != nil {
		t.Fatal(err)
	}
	scenarios := 0
	for part := range strings.SplitSeq(string(data), "\n\n") {
		var acls []string
		for line := range strings.SplitSeq(part, "\n") {
			switch {
			case strings.HasPrefix(line, "  "):
				acls = append(acls, strings.TrimSpace(line))
			case strings.HasPrefix(line, "> "):
				user, want, _ := strings.Cut(line[2:], ": ")
				scenarios++
				if got := answers(newSnapshot(aclsOf(t, acls...)), Subject{"User:" + user, "127.0.0.1"}, want); got != want {
					t.Errorf("%s with %s:\n got %s\nwant %s", user, strings.Join(acls, "; "), got, want)
				}
			}
		}
	}
	if scenarios < 300 {
		t.Errorf("only %d scenarios were found", scenarios)
	}
}

// answers evaluates a snapshot in the form of the recorded decisions.
func answers(p *snapshot, who Subject, asked string) string {
	var out []string
	for question := range strings.FieldsSeq(asked) {
		what, _, _ := strings.Cut(question, "=")
		kind, name, _ := strings.Cut(what, ":")
		switch kind {
		case "Topic":
			out = append(out, what+"="+operations(p, who, Topic, name, "-"))
		case "Group":
			out = append(out, what+"="+operations(p, who, Group, name, "-"))
		case "Cluster":
			out = append(out, what+"="+operations(p, who, Cluster, ClusterName, "0"))
		case "write-somewhere":
			answer := "no"
			if p.decide(who, IdempotentWrite, Cluster, ClusterName) == allowed || p.decideSomewhere(who, Write, Topic) == allowed {
				answer = "yes"
			}
			out = append(out, what+"="+answer)
		}
	}
	return strings.Join(out, " ")
}

func operations(p *snapshot, who Subject, t ResourceType, name, hidden string) string {
	if p.decide(who, Describe, t, name) != allowed {
		return hidden
	}
	bits := 0
	for _, op := range Operations(t) {
		if p.decide(who, op, t, name) == allowed {
			bits |= 1 << op
		}
	}
	return fmt.Sprint(bits)
}

package zkcoord

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	literal  = kmsg.ACLResourcePatternTypeLiteral
	prefixed = kmsg.ACLResourcePatternTypePrefixed
)

func allow(principal, host string, op kmsg.ACLOperation) ACLEntry {
	return ACLEntry{principal, host, op, kmsg.ACLPermissionTypeAllow}
}

func deny(principal, host string, op kmsg.ACLOperation) ACLEntry {
	return ACLEntry{principal, host, op, kmsg.ACLPermissionTypeDeny}
}

// TestGoldenACLNodes: paths, entries and notifications are those that Apache Kafka 3.9.2 has written.
func TestGoldenACLNodes(t *testing.T) {
	for _, test := range []struct {
		resource ACLResource
		path     string
		note     string
	}{
		{ACLResource{kmsg.ACLResourceTypeTopic, literal, "t"}, "/kafka-acl/Topic/t", "TOPIC:t"},
		{ACLResource{kmsg.ACLResourceTypeTopic, literal, "*"}, "/kafka-acl/Topic/*", "TOPIC:*"},
		{ACLResource{kmsg.ACLResourceTypeGroup, literal, "g1"}, "/kafka-acl/Group/g1", "GROUP:g1"},
		{ACLResource{kmsg.ACLResourceTypeCluster, literal, "kafka-cluster"}, "/kafka-acl/Cluster/kafka-cluster", "CLUSTER:kafka-cluster"},
		{ACLResource{kmsg.ACLResourceTypeDelegationToken, literal, "tok"}, "/kafka-acl/DelegationToken/tok", "DELEGATION_TOKEN:tok"},
		{ACLResource{kmsg.ACLResourceTypeUser, literal, "User:bob"}, "/kafka-acl/User/User:bob", "USER:User:bob"},
		{ACLResource{kmsg.ACLResourceTypeTransactionalId, literal, "x"}, "/kafka-acl/TransactionalId/x", "TRANSACTIONAL_ID:x"},
		{ACLResource{kmsg.ACLResourceTypeTopic, prefixed, "pre-"}, "/kafka-acl-extended/prefixed/Topic/pre-",
			`{"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"PREFIXED"}`},
	} {
		if got := test.resource.Path(); got != test.path {
			t.Errorf("path %s, want %s", got, test.path)
		}
		if got := string(encodeACLChange(test.resource)); got != test.note {
			t.Errorf("note %s, want %s", got, test.note)
		}
		decode := DecodeACLChange
		if test.resource.Pattern == prefixed {
			decode = DecodeExtendedACLChange
		}
		if got, err := decode([]byte(test.note)); err != nil || got != test.resource {
			t.Errorf("%s is decoded to %+v, %v", test.note, got, err)
		}
	}
	const node = `{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"},` +
		`{"principal":"User:bob","permissionType":"Deny","host":"10.0.0.1","operation":"DescribeConfigs"}],"version":1}`
	entries := []ACLEntry{allow("User:alice", "*", kmsg.ACLOperationRead), deny("User:bob", "10.0.0.1", kmsg.ACLOperationDescribeConfigs)}
	got, err := DecodeACLs([]byte(node))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(node, string(encodeACLs(entries))); diff != "" {
		t.Error(diff)
	}
}

// TestACLWordsAreThoseOfApacheKafka: operations and types have the names that Apache Kafka uses in its nodes.
func TestACLWordsAreThoseOfApacheKafka(t *testing.T) {
	var words []string
	for _, op := range aclOperations {
		words = append(words, pascalCase(op.String()))
	}
	const want = "All Read Write Create Delete Alter Describe ClusterAction DescribeConfigs AlterConfigs IdempotentWrite CreateTokens DescribeTokens"
	if diff := cmp.Diff(want, strings.Join(words, " ")); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"describeconfigs", "DESCRIBECONFIGS", "DescribeConfigs"} {
		if op, ok := named(aclOperations, text); !ok || op != kmsg.ACLOperationDescribeConfigs {
			t.Errorf("%s is decoded to %v", text, op)
		}
	}
}

// TestRefuseBrokenACLs: what cannot be parsed is an error, never an empty list of ACLs.
func TestRefuseBrokenACLs(t *testing.T) {
	for _, node := range []string{
		`{`, `[]`, `"x"`, `{}`, `{"version":2,"acls":[]}`,
		`{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","host":"*","operation":"Fly"}]}`,
		`{"version":1,"acls":[{"principal":"User:a","permissionType":"Maybe","host":"*","operation":"Read"}]}`,
		`{"version":1,"acls":[{"principal":"alice","permissionType":"Deny","host":"*","operation":"Read"}]}`,
		`{"version":1,"acls":[{"principal":"User:a","permissionType":"Any","host":"*","operation":"Any"}]}`,
	} {
		if got, err := DecodeACLs([]byte(node)); err == nil {
			t.Errorf("%s is decoded to %v", node, got)
		}
	}
	for _, note := range []string{"", "TOPIC", "FISH:x", "TOPIC:", "TOPIC:a/b"} {
		if got, err := DecodeACLChange([]byte(note)); err == nil {
			t.Errorf("%q is decoded to %v", note, got)
		}
	}
	for _, note := range []string{"", "{}", `{"version":2,"resourceType":"TOPIC","name":"p","patternType":"PREFIXED"}`,
		`{"version":1,"resourceType":"TOPIC","name":"p","patternType":"LITERAL"}`, `{"version":1,"resourceType":"TOPIC","patternType":"PREFIXED"}`} {
		if got, err := DecodeExtendedACLChange([]byte(note)); err == nil {
			t.Errorf("%q is decoded to %v", note, got)
		}
	}
}

func TestACLChecks(t *testing.T) {
	topic := kmsg.ACLResourceTypeTopic
	for _, r := range []ACLResource{
		{topic, literal, ""}, {topic, literal, "a/b"}, {topic, literal, ".."}, {topic, literal, "."}, {topic, literal, "a\x00"}, {topic, literal, "\uf000"},
		{kmsg.ACLResourceTypeAny, literal, "t"}, {kmsg.ACLResourceTypeUnknown, literal, "t"}, {topic, kmsg.ACLResourcePatternTypeAny, "t"},
		{topic, kmsg.ACLResourcePatternTypeMatch, "t"}, {77, literal, "t"},
	} {
		if err := r.Check(); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, e := range []ACLEntry{
		allow("alice", "*", kmsg.ACLOperationRead), allow(":alice", "*", kmsg.ACLOperationRead), allow("User:a", "*", kmsg.ACLOperationAny),
		allow("User:a", "*", 77), {"User:a", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAny},
	} {
		if err := e.Check(); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if err := (ACLResource{topic, prefixed, "*"}).Check(); err != nil {
		t.Error(err)
	}
	if err := allow("User:", "", kmsg.ACLOperationAll).Check(); err != nil {
		t.Error(err)
	}
}

func FuzzACLNodes(f *testing.F) {
	for _, seed := range []string{
		`{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}`,
		"TOPIC:t", "USER:User:bob", `{"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"PREFIXED"}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data, DecodeACLs, encodeACLs)
		again(t, data, DecodeACLChange, encodeACLChange)
		again(t, data, DecodeExtendedACLChange, encodeACLChange)
	})
}

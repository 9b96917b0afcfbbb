package integration

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// administered returns settings that guardedBy lacks: root, who logs in and may do everything, and delegation tokens.
func administered() []string {
	return []string{
		"super.users=User:ANONYMOUS;User:root", "delegation.token.secret.key=abc", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
		"listener.name.secure.plain.sasl.jaas.config=" + plainModule + ` required user_root="pw" user_alice="pw" user_bob="pw";`,
		"listener.name.secure.scram-sha-256.sasl.jaas.config=" + scramModule + " required;",
	}
}

// TestAdminClientsWithAnAuthorizer is TestAdminClients for brokers with ACLs, logins and delegation tokens: the calls
// that concern these are made by users with and without rights, and compared with Apache Kafka.
func TestAdminClientsWithAnAuthorizer(t *testing.T) {
	theirs := startGuardedPeer(t, 0, zookeeper(t), administered()...)
	ours := startGuarded(t, zookeeper(t), administered()...)
	for _, client := range []struct {
		name string
		run  func(t *testing.T, r *transcript, g guarded)
	}{{"kadm ACLs", kadmACLs}, {"kadm tokens", kadmTokens}, {"Sarama", saramaSecured}, {"kafka-python", pythonSecured}} {
		t.Run(client.name, func(t *testing.T) {
			var lines [2][]string
			for i, g := range []guarded{theirs, ours} {
				r := &transcript{t: t, addr: g.addr, called: make(map[string]bool)}
				client.run(t, r, g)
				lines[i] = r.lines
			}
			if d := gocmp.Diff(lines[0], lines[1]); d != "" {
				t.Errorf("-Apache Kafka +ours\n%s", d)
			}
		})
	}
}

// sortedLines formats a list as sorted lines: Apache Kafka keeps ACLs and tokens in sets.
func sortedLines[T any](list []T, line func(T) string) []string {
	lines := make([]string, len(list))
	for i, v := range list {
		lines[i] = line(v)
	}
	slices.Sort(lines)
	return lines
}

// aclChanges are made in order. Invalid principals and operations are not among them: Apache Kafka answers
// UNKNOWN_SERVER_ERROR (docs/compat.md).
func aclChanges() []*kadm.ACLBuilder {
	literal, prefixed := kadm.ACLPatternLiteral, kadm.ACLPatternPrefixed
	acl := kadm.NewACLs
	return []*kadm.ACLBuilder{
		acl().Topics("kt", "ku").Allow("User:a", "User:b").AllowHosts("*", "10.0.0.1").Operations(kadm.OpRead, kadm.OpWrite).ResourcePatternType(literal),
		acl().Topics("kt").Allow("User:a").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(literal), // again
		acl().Topics("k").Deny("User:c").DenyHosts("*").Operations(kadm.OpAll).ResourcePatternType(prefixed),
		acl().Topics("*").Allow("User:*").AllowHosts("*").Operations(kadm.OpDescribe).ResourcePatternType(literal),
		acl().Groups("g").Allow("User:a").AllowHosts("*").Operations(kadm.OpRead, kadm.OpDelete).ResourcePatternType(prefixed),
		acl().TransactionalIDs("x").Allow("User:a").AllowHosts("*").Operations(kadm.OpWrite).ResourcePatternType(literal),
		acl().Clusters().Allow("User:a").AllowHosts("*").Operations(kadm.OpCreate, kadm.OpIdempotentWrite).ResourcePatternType(literal),
		acl().DelegationTokens("tok").Allow("User:a").AllowHosts("*").Operations(kadm.OpDescribe).ResourcePatternType(literal),
		acl().Topics("a/b").Allow("User:a").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(literal),
		acl().Topics("").Allow("User:a").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(literal),
		acl().Groups("g").Allow("User:a").AllowHosts("*").Operations(kadm.OpAlterConfigs).ResourcePatternType(literal), // not an operation on groups
	}
}

// aclFilters are used to describe ACLs, and then to delete them.
func aclFilters() []*kadm.ACLBuilder {
	acl := kadm.NewACLs
	return []*kadm.ACLBuilder{
		acl().Topics("kt").Allow("User:a").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral),
		acl().Topics("kt").Allow("User:a").AllowHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternMatch),
		acl().Topics("none").Allow().AllowHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternMatch),
		acl().Topics().Deny().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny),
		acl().Groups().Allow().AllowHosts().Operations(kadm.OpDelete).ResourcePatternType(kadm.ACLPatternPrefixed),
		acl().Clusters().Allow().AllowHosts().Operations().ResourcePatternType(kadm.ACLPatternAny),
		acl().AnyResource().Allow("User:b").AllowHosts("10.0.0.1").Operations().ResourcePatternType(kadm.ACLPatternAny),
		acl().AnyResource().Allow().Deny().AllowHosts().DenyHosts().Operations().ResourcePatternType(kadm.ACLPatternAny),
	}
}

func kadmACLs(t *testing.T, r *transcript, g guarded) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, user := range []string{"root", "alice"} {
		adm := kadm.NewClient(g.asUser(t, user))
		for i, acl := range aclChanges() {
			made, err := adm.CreateACLs(ctx, acl)
			r.add(fmt.Sprintf("CreateACLs %s %d", user, i), sortedLines(made, func(a kadm.CreateACLsResult) string {
				return fmt.Sprint(a.Principal, " ", a.Host, " ", a.Type, " ", a.Name, " ", a.Pattern, " ", a.Operation, " ", a.Permission, " ", a.Err)
			}), err)
		}
		kadmFilters(ctx, r, adm, user)
	}
}

// kadmFilters describes with each filter and deletes with all but the last, which shows what is left, and then with
// that one.
func kadmFilters(ctx context.Context, r *transcript, adm *kadm.Client, user string) {
	filters := aclFilters()
	for i, f := range filters {
		found, err := adm.DescribeACLs(ctx, f)
		for _, one := range found {
			r.add(fmt.Sprintf("DescribeACLs %s %d", user, i), sortedLines(one.Described, func(a kadm.DescribedACL) string {
				return fmt.Sprint(a.Principal, " ", a.Host, " ", a.Type, " ", a.Name, " ", a.Pattern, " ", a.Operation, " ", a.Permission)
			}), cmp.Or(err, one.Err))
		}
	}
	for i, f := range filters {
		gone, err := adm.DeleteACLs(ctx, f)
		for _, one := range gone {
			r.add(fmt.Sprintf("DeleteACLs %s %d", user, i), sortedLines(one.Deleted, func(a kadm.DeletedACL) string {
				return fmt.Sprint(a.Principal, " ", a.Host, " ", a.Type, " ", a.Name, " ", a.Pattern, " ", a.Operation, " ", a.Permission, " ", a.Err)
			}), cmp.Or(err, one.Err))
		}
	}
}

// tokenLine describes a token without what differs between tokens; times are relative to its creation.
func tokenLine(d kadm.DelegationToken) string {
	return fmt.Sprint("of ", d.Owner, " by ", d.TokenRequesterPrincipal, " renewed by ", d.Renewers, " for ", d.ExpiryTimestamp.Sub(d.IssueTimestamp),
		" of ", d.MaxTimestamp.Sub(d.IssueTimestamp))
}

// kadmTokens tests the life of a token, and users that have no rights to it.
func kadmTokens(t *testing.T, r *transcript, g guarded) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k := &tokenCalls{transcript: r, ctx: ctx, users: make(map[string]*kadm.Client)}
	for _, user := range []string{"root", "alice", "bob"} {
		k.users[user] = kadm.NewClient(g.asUser(t, user))
	}
	k.users["anonymous"] = adminAt(t, g.addr)
	k.allowTokens(t, g)
	token := k.creations()
	with := newClient(t, kgo.SeedBrokers(g.secure), kgo.SASL(scram.Auth{User: token.TokenID, Pass: base64.StdEncoding.EncodeToString(token.HMAC),
		IsToken: true}.AsSha256Mechanism()))
	defer with.Close()
	k.users["token"] = kadm.NewClient(with)
	k.descriptions()
	k.changes(token)
	k.descriptions()
}

// tokenCalls makes the calls of kadm that concern delegation tokens, as several users.
type tokenCalls struct {
	*transcript
	ctx   context.Context
	users map[string]*kadm.Client
}

// allowTokens allows bob to create tokens for alice (KIP-373), for which kadm has no method.
func (k *tokenCalls) allowTokens(t *testing.T, g guarded) {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, op := range []kmsg.ACLOperation{kmsg.ACLOperationCreateTokens, kmsg.ACLOperationDescribeTokens} {
		req.Creations = append(req.Creations, kmsg.CreateACLsRequestCreation{ResourceType: kmsg.ACLResourceTypeUser, ResourceName: "User:alice",
			ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral, Principal: "User:bob", Host: "*", Operation: op, PermissionType: kmsg.ACLPermissionTypeAllow})
	}
	resp, err := req.RequestWith(k.ctx, g.asUser(t, "root"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Results {
		k.add("CreateACLs of tokens", r.ErrorCode, nil)
	}
}

// creations creates tokens and returns one of alice's that bob may renew.
func (k *tokenCalls) creations() (token kadm.DelegationToken) {
	for _, c := range []struct {
		user string
		ask  kadm.CreateDelegationToken
	}{
		{"alice", kadm.CreateDelegationToken{}},
		{"alice", kadm.CreateDelegationToken{Owner: &kadm.Principal{Name: "bob"}}},
		{"alice", kadm.CreateDelegationToken{Renewers: []kadm.Principal{{Type: "Group", Name: "g"}}}},
		{"bob", kadm.CreateDelegationToken{Owner: &kadm.Principal{Name: "alice"}, MaxLifetime: time.Hour}},
		{"root", kadm.CreateDelegationToken{Owner: &kadm.Principal{Name: "carl"}, MaxLifetime: 30 * 24 * time.Hour}},
		{"anonymous", kadm.CreateDelegationToken{}},
		{"alice", kadm.CreateDelegationToken{Renewers: []kadm.Principal{{Name: "bob"}}, MaxLifetime: 3 * 24 * time.Hour}},
	} {
		var err error
		token, err = k.users[c.user].CreateDelegationToken(k.ctx, c.ask)
		k.add("CreateDelegationToken "+c.user, tokenLine(token), err)
	}
	return token
}

func (k *tokenCalls) descriptions() {
	for _, user := range []string{"root", "alice", "bob", "token", "anonymous"} {
		for _, owners := range [][]kadm.Principal{nil, {{Name: "alice"}}, {{Name: "carl"}, {Name: "bob"}}, {{Name: "nobody"}}} {
			found, err := k.users[user].DescribeDelegationTokens(k.ctx, owners...)
			k.add(fmt.Sprint("DescribeDelegationTokens ", user, owners), sortedLines(found, tokenLine), err)
		}
	}
	_, err := k.users["token"].CreateDelegationToken(k.ctx, kadm.CreateDelegationToken{})
	k.add("CreateDelegationToken with a token", nil, err)
}

// changes renews a token and expires it. A renewed token lives as long as requested, but not beyond the maximum
// lifetime set at its creation: rounded to hours, this is the same on each cluster.
func (k *tokenCalls) changes(token kadm.DelegationToken) {
	left := func(end time.Time, err error) string {
		if err != nil {
			return ""
		}
		return end.Sub(token.IssueTimestamp).Round(time.Hour).String()
	}
	for _, c := range []struct {
		user string
		hmac []byte
		time time.Duration
	}{{"root", token.HMAC, time.Hour}, {"bob", token.HMAC, 2 * time.Hour}, {"alice", token.HMAC, 300 * time.Hour}, {"alice", token.HMAC, -time.Millisecond},
		{"alice", []byte("none"), time.Hour}, {"token", token.HMAC, time.Hour}, {"anonymous", token.HMAC, time.Hour}} {
		end, err := k.users[c.user].RenewDelegationToken(k.ctx, c.hmac, c.time)
		k.add("RenewDelegationToken "+c.user, left(end, err), err)
		end, err = k.users[c.user].ExpireDelegationToken(k.ctx, c.hmac, max(c.time, 0)+3*time.Hour)
		k.add("ExpireDelegationToken "+c.user, left(end, err), err)
	}
	_, err := k.users["bob"].ExpireDelegationToken(k.ctx, token.HMAC, -time.Millisecond)
	k.add("ExpireDelegationToken at once", nil, err)
	_, err = k.users["alice"].RenewDelegationToken(k.ctx, token.HMAC, time.Hour)
	k.add("RenewDelegationToken gone", nil, err)
}

// saramaSecured makes the calls of Sarama's ClusterAdmin that concern ACLs, as root and as alice.
func saramaSecured(_ *testing.T, r *transcript, g guarded) {
	for _, user := range []string{"root", "alice"} {
		cfg := sarama.NewConfig()
		cfg.Version = sarama.V3_0_0_0
		cfg.Net.SASL.Enable, cfg.Net.SASL.Mechanism, cfg.Net.SASL.User, cfg.Net.SASL.Password = true, sarama.SASLTypePlaintext, user, "pw"
		adm, err := sarama.NewClusterAdmin([]string{g.secure}, cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		s := &saramaCalls{r, adm}
		s.acls(user)
		_ = adm.Close()
	}
}

func (s *saramaCalls) acls(user string) {
	read := sarama.Acl{Principal: "User:a", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	deny := sarama.Acl{Principal: "User:b", Host: "10.0.0.1", Operation: sarama.AclOperationAll, PermissionType: sarama.AclPermissionDeny}
	topic := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "st", ResourcePatternType: sarama.AclPatternLiteral}
	groups := sarama.Resource{ResourceType: sarama.AclResourceGroup, ResourceName: "s", ResourcePatternType: sarama.AclPatternPrefixed}
	s.add("CreateACL "+user, nil, s.adm.CreateACL(topic, read))
	s.add("CreateACLs "+user, nil, s.adm.CreateACLs([]*sarama.ResourceAcls{{Resource: topic, Acls: []*sarama.Acl{&deny}}, {Resource: groups, Acls: []*sarama.Acl{&read, &deny}}}))
	name := "st"
	for i, filter := range []sarama.AclFilter{
		{ResourceType: sarama.AclResourceTopic, ResourceName: &name, ResourcePatternTypeFilter: sarama.AclPatternMatch, PermissionType: sarama.AclPermissionDeny},
		{ResourceType: sarama.AclResourceGroup, ResourceName: &name, ResourcePatternTypeFilter: sarama.AclPatternMatch, PermissionType: sarama.AclPermissionAllow},
		{ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny, PermissionType: sarama.AclPermissionAny},
	} {
		filter.Version, filter.Operation = 1, sarama.AclOperationAny
		listed, err := s.adm.ListAcls(filter)
		s.add(fmt.Sprint("ListAcls ", user, i), saramaLines(listed), err)
		matched, err := s.adm.DeleteACL(filter, false)
		s.add(fmt.Sprint("DeleteACL ", user, i), sortedLines(matched, func(m sarama.MatchingAcl) string {
			return fmt.Sprintf("%+v %+v %v", m.Resource, m.Acl, m.Err)
		}), err)
	}
}

func saramaLines(listed []sarama.ResourceAcls) []string {
	var lines []string
	for _, r := range listed {
		for _, a := range r.Acls {
			lines = append(lines, fmt.Sprintf("%+v %+v", r.Resource, *a))
		}
	}
	slices.Sort(lines)
	return lines
}

// aclCallsScript makes the calls of kafka-python 2 that concern ACLs, as root and as alice.
const aclCallsScript = `
import sys
from kafka.admin import *
def line(a):
    p = a.resource_pattern
    return ' '.join(map(str, [a.principal, a.host, a.operation.name, a.permission_type.name, p.resource_type.name, p.resource_name, p.pattern_type.name]))
def call(name, f):
    try:
        print(name, f())
    except Exception as e:
        print(name, 'failed:', type(e).__name__)
for user in 'root', 'alice':
    adm = KafkaAdminClient(bootstrap_servers=sys.argv[1], security_protocol='SASL_PLAINTEXT', sasl_mechanism='PLAIN',
                           sasl_plain_username=user, sasl_plain_password='pw')
    def acl(kind, name, pattern, operation=ACLOperation.READ, permission=ACLPermissionType.ALLOW):
        return ACL(principal='User:a', host='*', operation=operation, permission_type=permission, resource_pattern=ResourcePattern(kind, name, pattern))
    made = [acl(ResourceType.TOPIC, 'pt', ACLResourcePatternType.LITERAL), acl(ResourceType.TOPIC, 'p', ACLResourcePatternType.PREFIXED),
            acl(ResourceType.GROUP, '*', ACLResourcePatternType.LITERAL), acl(ResourceType.TRANSACTIONAL_ID, 'x', ACLResourcePatternType.LITERAL),
            acl(ResourceType.CLUSTER, 'kafka-cluster', ACLResourcePatternType.LITERAL, ACLOperation.ALTER, ACLPermissionType.DENY),
            acl(ResourceType.TOPIC, 'a/b', ACLResourcePatternType.LITERAL)]
    def created():
        r = adm.create_acls(made)
        return sorted(map(line, r['succeeded'])), sorted((line(a), type(e).__name__) for a, e in r['failed'])
    call('create_acls', created)
    filters = [ACLFilter(principal=None, host=None, operation=ACLOperation.ANY, permission_type=ACLPermissionType.ANY,
                         resource_pattern=ResourcePatternFilter(*p)) for p in
               [(ResourceType.TOPIC, 'pt', ACLResourcePatternType.MATCH), (ResourceType.GROUP, None, ACLResourcePatternType.ANY),
                (ResourceType.TOPIC, 'none', ACLResourcePatternType.LITERAL), (ResourceType.ANY, None, ACLResourcePatternType.ANY)]]
    for f in filters:
        call('describe_acls', lambda: (sorted(map(line, adm.describe_acls(f)[0])), adm.describe_acls(f)[1].__name__))
    call('delete_acls', lambda: [(sorted((line(a), e.__name__) for a, e in m), e.__name__) for _, m, e in adm.delete_acls(filters)])
`

func pythonSecured(t *testing.T, r *transcript, g guarded) {
	need(t, "python3-kafka", exec.Command("/usr/bin/python3", "-c", "import kafka").Run() == nil)
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", aclCallsScript, g.secure).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.lines = strings.Split(strings.TrimSpace(string(out)), "\n")
}

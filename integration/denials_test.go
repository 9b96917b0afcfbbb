package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// deniedFile contains what Apache Kafka 3.9.2 answers to alice, who has few rights. DENIED=record records it again;
// this needs PEER.
const deniedFile = "testdata/denied.txt"

// TestDeniedRequests compares the responses to requests that are partly or completely denied with those of
// Apache Kafka: error codes, what else is in them, and what is left out.
func TestDeniedRequests(t *testing.T) {
	if os.Getenv("DENIED") == "record" {
		got := denials(t, startGuardedPeer(t, 0, zookeeper(t)))
		if err := os.WriteFile(deniedFile, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(deniedFile)
	if err != nil {
		t.Fatal(err)
	}
	got := denials(t, startGuarded(t, zookeeper(t)))
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// deniedCase is a set of alice's rights, and the requests that she sends.
type deniedCase struct {
	acls     string // OPERATION TYPE NAME, separated by semicolons; a minus before the operation denies it
	requests []kmsg.Request
}

func deniedCases() []deniedCase {
	return []deniedCase{
		{"", slices.Concat(topicRequests(), groupRequests(), txnRequests(), clusterRequests())},
		{"DESCRIBE TOPIC *; -DESCRIBE TOPIC priv", topicRequests()},
		{"READ TOPIC pub; WRITE TOPIC pub; READ GROUP g", slices.Concat(topicRequests(), groupRequests(), txnRequests())},
		{"CREATE TOPIC mine; DELETE TOPIC pub; ALTER TOPIC pub; DESCRIBECONFIGS TOPIC pub", topicRequests()},
		{"CREATE CLUSTER kafka-cluster; DESCRIBE CLUSTER kafka-cluster", slices.Concat(topicRequests(), groupRequests(), clusterRequests())},
		{"DELETE GROUP g; DESCRIBE GROUP h; WRITE TRANSACTIONALID x", slices.Concat(groupRequests(), txnRequests())},
		{"CLUSTERACTION CLUSTER kafka-cluster; ALTERCONFIGS TOPIC pub", slices.Concat(topicRequests()[:8], txnRequests())},
		{"ALL CLUSTER kafka-cluster; ALL TOPIC *; ALL GROUP *; ALL TRANSACTIONALID *", slices.Concat(clusterRequests()[:12], doneRequests(), groupRequests(), txnRequests(), topicRequests()[:12])},
	}
}

// topicRequests concern a topic that alice may describe in some cases, one that she may not, and one that does not
// exist.
func topicRequests() []kmsg.Request {
	metadata, all := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest()
	metadata.IncludeTopicAuthorizedOperations, metadata.IncludeClusterAuthorizedOperations = true, true
	produce, fetch, offsets := kmsg.NewPtrProduceRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrListOffsetsRequest()
	produce.Acks, fetch.MaxWaitMillis, fetch.MaxBytes = 1, 1, 1000
	epochs, records, producers := kmsg.NewPtrOffsetForLeaderEpochRequest(), kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewPtrDescribeProducersRequest()
	more, configs, change := kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsRequest()
	more.ValidateOnly, change.ValidateOnly = true, true
	for _, name := range []string{"pub", "priv", "nosuch"} {
		metadata.Topics = append(metadata.Topics, kmsg.MetadataRequestTopic{Topic: new(name)})
		produce.Topics = append(produce.Topics, kmsg.ProduceRequestTopic{Topic: name, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte{}}}})
		fetch.Topics = append(fetch.Topics, kmsg.FetchRequestTopic{Topic: name, Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 100, CurrentLeaderEpoch: -1}}})
		at := kmsg.NewListOffsetsRequestTopicPartition()
		at.Timestamp, at.MaxNumOffsets = -1, 1
		offsets.Topics = append(offsets.Topics, kmsg.ListOffsetsRequestTopic{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{at}})
		epoch := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		epochs.Topics = append(epochs.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{epoch}})
		records.Topics = append(records.Topics, kmsg.DeleteRecordsRequestTopic{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 0}}})
		producers.Topics = append(producers.Topics, kmsg.DescribeProducersRequestTopic{Topic: name, Partitions: []int32{0}})
		more.Topics = append(more.Topics, kmsg.CreatePartitionsRequestTopic{Topic: name, Count: 5})
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name, ConfigNames: []string{"retention.ms"}})
		change.Resources = append(change.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: new("99")}}})
	}
	configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ConfigNames: []string{"log.cleaner.threads"}})
	change.Resources = append(change.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.cleaner.threads", Value: new("2")}}})
	create, remove := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewPtrDeleteTopicsRequest()
	create.ValidateOnly = true
	for _, name := range []string{"mine", "other", "a b", "twice", "twice"} {
		create.Topics = append(create.Topics, kmsg.CreateTopicsRequestTopic{Topic: name, NumPartitions: 1, ReplicationFactor: 1})
	}
	for _, name := range []string{"priv", "nosuch"} {
		remove.TopicNames = append(remove.TopicNames, name)
		remove.Topics = append(remove.Topics, kmsg.DeleteTopicsRequestTopic{Topic: new(name)})
	}
	return []kmsg.Request{epochs, metadata, all, produce, fetch, offsets, records, producers, more, configs, change, create, remove}
}

// groupRequests concern the groups g and h.
func groupRequests() []kmsg.Request {
	commit, fetch, drop := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetDeleteRequest()
	everything := kmsg.NewPtrOffsetFetchRequest()
	commit.Group, commit.Generation, fetch.Group, everything.Group, drop.Group = "g", -1, "g", "g", "g"
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = "g"
	for _, name := range []string{"pub", "priv", "nosuch"} {
		at := kmsg.NewOffsetCommitRequestTopicPartition()
		at.Offset = 3
		commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: name, Partitions: []kmsg.OffsetCommitRequestTopicPartition{at}})
		fetch.Topics = append(fetch.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: []int32{0}})
		asked.Topics = append(asked.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: name, Partitions: []int32{0}})
		drop.Topics = append(drop.Topics, kmsg.OffsetDeleteRequestTopic{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	fetch.Groups = append(fetch.Groups, asked)
	whole := kmsg.NewOffsetFetchRequestGroup()
	whole.Group = "g"
	everything.Groups = append(everything.Groups, whole)
	join, heartbeat, leave, sync := kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrLeaveGroupRequest(), kmsg.NewPtrSyncGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.MemberID = "h", "consumer", 10000, "m"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "r"}}
	heartbeat.Group, heartbeat.MemberID, leave.Group, leave.MemberID = "h", "m", "h", "m"
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}
	sync.Group, sync.MemberID, sync.ProtocolType, sync.Protocol = "h", "m", new("consumer"), new("r")
	describe, list, remove, find := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrDeleteGroupsRequest(), kmsg.NewPtrFindCoordinatorRequest()
	describe.Groups, describe.IncludeAuthorizedOperations, remove.Groups = []string{"g", "h"}, true, []string{"h", "i", "h"}
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g", "h"}
	return []kmsg.Request{commit, fetch, everything, drop, join, heartbeat, leave, sync, describe, list, remove, find}
}

// txnRequests concern the transactional id x.
func txnRequests() []kmsg.Request {
	with, without, end := kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrEndTxnRequest()
	with.TransactionalID, with.ProducerID, with.ProducerEpoch = new("x"), 5, -1 // refused in any case
	without.ProducerID, without.ProducerEpoch = 5, -1
	add, offsets, commit := kmsg.NewPtrAddPartitionsToTxnRequest(), kmsg.NewPtrAddOffsetsToTxnRequest(), kmsg.NewPtrTxnOffsetCommitRequest()
	add.TransactionalID, offsets.TransactionalID, commit.TransactionalID, end.TransactionalID = "x", "x", "x", "x"
	offsets.Group, commit.Group = "g", "g"
	inTxn := kmsg.NewAddPartitionsToTxnRequestTransaction()
	inTxn.TransactionalID, inTxn.VerifyOnly = "x", true
	for _, name := range []string{"pub", "priv", "nosuch", "__consumer_offsets"} {
		add.Topics = append(add.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: []int32{0}})
		inTxn.Topics = append(inTxn.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: name, Partitions: []int32{0}})
		commit.Topics = append(commit.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: name, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 1}}})
	}
	add.Transactions = append(add.Transactions, inTxn)
	describe, list, find, markers := kmsg.NewPtrDescribeTransactionsRequest(), kmsg.NewPtrListTransactionsRequest(), kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrWriteTxnMarkersRequest()
	describe.TransactionalIDs, find.CoordinatorType, find.CoordinatorKey, find.CoordinatorKeys = []string{"x", "y"}, 1, "x", []string{"x"}
	markers.Markers = []kmsg.WriteTxnMarkersRequestMarker{{Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "nosuch", Partitions: []int32{0}}}}}
	return []kmsg.Request{with, without, add, offsets, commit, end, describe, list, find, markers}
}

// clusterRequests are meant for administrators and other brokers.
func clusterRequests() []kmsg.Request {
	reassign, list, elect := kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewPtrListPartitionReassignmentsRequest(), kmsg.NewPtrElectLeadersRequest()
	reassign.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "nosuch", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{0}}}}}
	list.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "pub", Partitions: []int32{0}}}
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "nosuch", Partitions: []int32{0, 1}}}
	move, dirs, quotas := kmsg.NewPtrAlterReplicaLogDirsRequest(), kmsg.NewPtrDescribeLogDirsRequest(), kmsg.NewPtrAlterClientQuotasRequest()
	move.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/x", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "nosuch", Partitions: []int32{0}}}}}
	dirs.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "nosuch", Partitions: []int32{0}}}
	quotas.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: new("u")}}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "nonsense"}}}}
	credentials, features := kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), kmsg.NewPtrUpdateFeaturesRequest()
	users := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest() // not for all users: Apache Kafka does not answer that
	users.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "nobody"}}
	credentials.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "nobody", Mechanism: 1}}
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.IncludeClusterAuthorizedOperations = true
	described, created, deleted := kmsg.NewPtrDescribeACLsRequest(), kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	described.ResourceType, described.ResourcePatternType, described.Operation, described.PermissionType = kmsg.ACLResourceTypeGroup, kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	created.Creations = []kmsg.CreateACLsRequestCreation{{}, {}}
	for i := range created.Creations {
		created.Creations[i] = kmsg.CreateACLsRequestCreation{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: "", ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
			Principal: "User:x", Host: "*", Operation: kmsg.ACLOperationRead, PermissionType: kmsg.ACLPermissionTypeAllow}
	}
	deleted.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: new("nosuch"), ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
		Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny}}
	lead, stop, picture := kmsg.NewPtrLeaderAndISRRequest(), kmsg.NewPtrStopReplicaRequest(), kmsg.NewPtrUpdateMetadataRequest()
	return []kmsg.Request{reassign, list, elect, move, dirs, quotas, credentials, users, features, cluster, described, created, deleted, lead, stop, picture}
}

// doneRequests change something unless they are denied.
func doneRequests() []kmsg.Request {
	quotas, credentials, leader := kmsg.NewPtrAlterClientQuotasRequest(), kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), kmsg.NewPtrElectLeadersRequest()
	quotas.Entries = []kmsg.AlterClientQuotasRequestEntry{{Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: new("u")}},
		Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1000000}}}}
	credentials.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{Name: "u", Mechanism: 1, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: make([]byte, 32)}}
	leader.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "pub", Partitions: []int32{0}}}
	described, users := kmsg.NewPtrDescribeClientQuotasRequest(), kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	created, deleted := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	created.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: "made", ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
		Principal: "User:x", Host: "*", Operation: kmsg.ACLOperationRead, PermissionType: kmsg.ACLPermissionTypeAllow}}
	deleted.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: new("made"), ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
		Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny}}
	configs, move := kmsg.NewPtrAlterConfigsRequest(), kmsg.NewPtrAlterPartitionAssignmentsRequest()
	configs.ValidateOnly = true
	configs.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "pub",
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: new("99")}}}}
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "pub", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{0}}}}}
	return []kmsg.Request{quotas, described, credentials, users, created, deleted, configs, move, leader}
}

// denials sends all requests, in the newest versions and in old ones, and records the responses.
func denials(t *testing.T, g guarded) string {
	t.Helper()
	root := adminAt(t, g.addr)
	if _, err := root.CreateTopics(t.Context(), 1, 1, nil, "pub", "priv"); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"pub", "priv"} { // this creates the internal topics
		var offsets kadm.Offsets
		offsets.AddOffset(topic, 0, 3, -1)
		if err := root.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
			t.Fatal(err)
		}
	}
	awaitTransactions(t, g, root, "x")
	var b strings.Builder
	b.WriteString("# What Apache Kafka 3.9.2 answers alice: her ACLs, then requests with their versions. TestDeniedRequests records it.\n")
	for _, c := range deniedCases() {
		setACLs(t, root, c.acls)
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace("ACLs: "+c.acls))
		for name, versions := range []*kversion.Versions{kversion.Stable(), kversion.V1_1_0()} {
			for _, req := range c.requests {
				if name == 1 && !versions.HasKey(req.Key()) {
					continue
				}
				fmt.Fprintln(&b, answerTo(t, g, versions, req))
			}
		}
	}
	return b.String()
}

// awaitTransactions waits until a transactional id has a coordinator, and producer ids are available.
func awaitTransactions(t *testing.T, g guarded, root *kadm.Client, id string) {
	t.Helper()
	await(t, "the coordinator of "+id, func(ctx context.Context) (string, bool) {
		found := root.FindTxnCoordinators(ctx, id)
		return fmt.Sprint(found), found[id].Err == nil
	})
	cl := newClient(t, kgo.SeedBrokers(g.addr))
	defer cl.Close()
	await(t, "ids for producers", func(ctx context.Context) (string, bool) {
		resp, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, cl)
		return fmt.Sprint(err), err == nil && resp.ErrorCode == 0
	})
}

// answerTo sends one request as alice and returns the response.
func answerTo(t *testing.T, g guarded, versions *kversion.Versions, req kmsg.Request) string {
	t.Helper()
	cl := newClient(t, kgo.SeedBrokers(g.secure), kgo.SASL(plain.Auth{User: "alice", Pass: "pw"}.AsMechanism()), kgo.MaxVersions(versions))
	defer cl.Close()
	resp, err := cl.SeedBrokers()[0].Request(t.Context(), req)
	if err != nil {
		return fmt.Sprintf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return fmt.Sprintf("%s v%d: %s", kmsg.NameForKey(req.Key()), resp.GetVersion(), shown(reflect.ValueOf(resp), ""))
}

// unshown are fields that differ between runs, or are of no interest.
var unshown = []string{"Version", "UnknownTags", "Brokers", "ThrottleMillis", "ProducerID", "Dir", "TotalBytes", "UsableBytes"}

// shown formats a value without zero fields and those that differ between runs; lists are sorted.
func shown(v reflect.Value, field string) string {
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
			return ""
		case v.Elem().Kind() == reflect.String && v.Elem().Len() == 0:
			return `""` // which differs from null
		}
		return shown(v.Elem(), field)
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if slices.Contains(unshown, name) {
				continue
			}
			if text := shown(v.Field(i), name); text != "" {
				fields = append(fields, name+" "+text)
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || v.Len() == 0 {
			return ""
		}
		var list []string
		for i := range v.Len() {
			list = append(list, shown(v.Index(i), ""))
		}
		slices.Sort(list)
		return "[" + strings.Join(list, " ") + "]"
	}
	if v.IsZero() {
		return ""
	}
	switch {
	case strings.HasSuffix(field, "ErrorCode"):
		return strings.SplitN(kerr.ErrorForCode(int16(v.Int())).Error(), ":", 2)[0]
	case strings.HasSuffix(field, "Message"), field == "ClusterID", field == "TopicID", field == "Host", field == "Port", field == "NodeID", field == "ControllerID",
		field == "LogDir", v.Kind() == reflect.Array:
		return "set"
	}
	return fmt.Sprint(v.Interface())
}

// setACLs gives alice these rights and no others.
func setACLs(t *testing.T, root *kadm.Client, acls string) {
	t.Helper()
	everything := kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).Operations(kadm.OpAny).Allow().AllowHosts().Deny().DenyHosts()
	if _, err := root.DeleteACLs(t.Context(), everything); err != nil {
		t.Fatal(err)
	}
	for rule := range strings.SplitSeq(acls, ";") {
		words := strings.Fields(rule)
		if len(words) != 3 {
			continue
		}
		b := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral)
		name, deny := strings.CutPrefix(words[0], "-")
		op, err := kmsg.ParseACLOperation(name)
		switch words[1] {
		case "TOPIC":
			b.Topics(words[2])
		case "GROUP":
			b.Groups(words[2])
		case "TRANSACTIONALID":
			b.TransactionalIDs(words[2])
		default:
			b.Clusters()
		}
		b.Operations(op)
		if deny {
			b.Deny("User:alice").DenyHosts("*")
		} else {
			b.Allow("User:alice").AllowHosts("*")
		}
		created, createErr := root.CreateACLs(t.Context(), b)
		err = errors.Join(err, createErr)
		for _, c := range created {
			err = errors.Join(err, c.Err)
		}
		if err != nil || len(created) == 0 {
			t.Fatal(rule, err)
		}
	}
}

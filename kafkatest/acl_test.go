package kafkatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"barnabas/config"
	"barnabas/internal/testwait"
	"barnabas/kafkatest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// guarded enables ACLs; the brokers themselves and clients of the PLAINTEXT listener are super users.
func guarded(more ...kafkatest.Option) []kafkatest.Option {
	return secured(append([]kafkatest.Option{
		kafkatest.Setting("authorizer.class.name", config.ACLAuthorizer),
		kafkatest.Setting("super.users", "User:admin; User:ANONYMOUS"),
	}, more...)...)
}

func alice(t *testing.T, b *kafkatest.Broker, more ...kgo.Opt) *kgo.Client {
	return clientWith(t, b, plain.Auth{User: "alice", Pass: "pw"}.AsMechanism(), append([]kgo.Opt{kgo.UnknownTopicRetries(-1)}, more...)...)
}

// allow makes ACLs for alice.
func allow(t *testing.T, adm *kadm.Client, b *kadm.ACLBuilder) {
	t.Helper()
	created, err := adm.CreateACLs(t.Context(), b.Allow("User:alice").AllowHosts("*"))
	for _, c := range created {
		err = errors.Join(err, c.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestACLsOnThreeBrokers: ACLs created on one broker soon apply on all, denials as well as permissions; the brokers,
// which are super users, continue to replicate.
func TestACLsOnThreeBrokers(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, guarded(kafkatest.Brokers(3))...)
	root := kadm.NewClient(client(t, c))
	if _, err := root.CreateTopic(t.Context(), 3, 3, map[string]*string{"min.insync.replicas": kadm.StringPtr("3")}, "t"); err != nil {
		t.Fatal(err)
	}
	produce := func(b *kafkatest.Broker) error {
		cl := alice(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: int32(b.ID()), Value: []byte("x")}).FirstErr()
	}
	for id := range 3 {
		if err := produce(c.Broker(id)); !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
			t.Errorf("broker %d, without an ACL: %v", id, err)
		}
	}
	allow(t, root, kadm.NewACLs().Topics("t").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite))
	for id := range 3 {
		testwait.Until(t, "writing with an ACL", func() bool { return produce(c.Broker(id)) == nil })
	}
	denial := kadm.NewACLs().Topics("t").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).Deny("User:alice").DenyHosts("127.0.0.1")
	if _, err := root.CreateACLs(t.Context(), denial); err != nil {
		t.Fatal(err)
	}
	for id := range 3 {
		testwait.Until(t, "the denial", func() bool { return errors.Is(produce(c.Broker(id)), kerr.TopicAuthorizationFailed) })
	}
	if _, err := root.DeleteACLs(t.Context(), denial); err != nil {
		t.Fatal(err)
	}
	for id := range 3 {
		testwait.Until(t, "writing after the denial is gone", func() bool { return produce(c.Broker(id)) == nil })
	}
}

// TestRightsOfAConsumer: a consumer needs rights to the topic and to the group; topics that it may not describe
// are not listed.
func TestRightsOfAConsumer(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, guarded()...)
	rootClient := client(t, c)
	root := kadm.NewClient(rootClient)
	for _, topic := range []string{"mine", "secret"} {
		if _, err := root.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
		if err := rootClient.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(topic)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	consume := func() error {
		cl := alice(t, c.Broker(0), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("mine"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil || fetches.NumRecords() != 1 {
			return errors.Join(err, fetches.Err())
		}
		return cl.CommitUncommittedOffsets(ctx)
	}
	allow(t, root, kadm.NewACLs().Topics("mine").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead))
	if err := consume(); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("without a right to the group: %v", err)
	}
	allow(t, root, kadm.NewACLs().Groups("g").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead))
	if err := consume(); err != nil {
		t.Error(err)
	}
	allow(t, root, kadm.NewACLs().Topics("secret").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe))
	direct := alice(t, c.Broker(0), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"secret": {0: kgo.NewOffset().At(0)}}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := direct.PollFetches(ctx).Err0(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("reading what may only be described: %v", err)
	}
	if _, err := root.DeleteACLs(t.Context(), kadm.NewACLs().Topics("secret").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe).
		Allow("User:alice").AllowHosts("*")); err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(alice(t, c.Broker(0))).ListTopics(t.Context())
	if err != nil || len(topics) != 1 || !topics.Has("mine") {
		t.Errorf("topics %v, %v", topics.Names(), err)
	}
}

// TestRightsOfATransaction: a transaction needs rights to the transactional id, the topic and the group.
func TestRightsOfATransaction(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, guarded()...)
	root := kadm.NewClient(client(t, c))
	if _, err := root.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	transact := func() error {
		cl := alice(t, c.Broker(0), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		if err := cl.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
			return errors.Join(err, cl.EndTransaction(ctx, kgo.TryAbort))
		}
		return cl.EndTransaction(ctx, kgo.TryCommit)
	}
	allow(t, root, kadm.NewACLs().Topics("t").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite))
	if err := transact(); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("without a right to the transactional id: %v", err)
	}
	allow(t, root, kadm.NewACLs().TransactionalIDs("x").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite))
	if err := transact(); err != nil {
		t.Error(err)
	}
}

// TestRightToListReassignments: listing reassignments needs a right to the cluster; a client without it gets an error,
// and can describe topics nonetheless.
func TestRightToListReassignments(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, guarded()...)
	root := kadm.NewClient(client(t, c))
	if _, err := root.CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	allow(t, root, kadm.NewACLs().Topics("t").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe))
	cl := alice(t, c.Broker(0))
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(t.Context(), cl)
	if err != nil || resp.ErrorCode != kerr.ClusterAuthorizationFailed.Code {
		t.Errorf("%+v, %v", resp, err)
	}
	topics, err := kadm.NewClient(cl).ListTopics(t.Context(), "t")
	if err != nil || topics["t"].Err != nil || len(topics["t"].Partitions) != 1 {
		t.Errorf("the topic is described as %+v, %v", topics["t"], err)
	}
	allow(t, root, kadm.NewACLs().Clusters().Operations(kadm.OpDescribe))
	if resp, err = kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(t.Context(), cl); err != nil || resp.ErrorCode != 0 {
		t.Errorf("with the right: %+v, %v", resp, err)
	}
}

// TestInvalidACLsAreRefused: an ACL that could never match is refused with INVALID_REQUEST, and nothing of it is
// stored.
func TestInvalidACLsAreRefused(t *testing.T) {
	t.Parallel()
	c := kafkatest.Run(t, guarded()...)
	cl := client(t, c)
	sound := kmsg.CreateACLsRequestCreation{ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: "t", ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
		Principal: "User:a", Host: "*", Operation: kmsg.ACLOperationRead, PermissionType: kmsg.ACLPermissionTypeAllow}
	req := kmsg.NewPtrCreateACLsRequest()
	for _, spoil := range []func(*kmsg.CreateACLsRequestCreation){
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourcePatternType = kmsg.ACLResourcePatternTypeUnknown },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourcePatternType = kmsg.ACLResourcePatternTypeAny },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourcePatternType = kmsg.ACLResourcePatternTypeMatch },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourceType = kmsg.ACLResourceTypeUnknown },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourceType = kmsg.ACLResourceTypeAny },
		func(a *kmsg.CreateACLsRequestCreation) { a.Operation = kmsg.ACLOperationUnknown },
		func(a *kmsg.CreateACLsRequestCreation) { a.Operation = kmsg.ACLOperationAny },
		func(a *kmsg.CreateACLsRequestCreation) { a.Operation = 77 },
		func(a *kmsg.CreateACLsRequestCreation) { a.PermissionType = kmsg.ACLPermissionTypeUnknown },
		func(a *kmsg.CreateACLsRequestCreation) { a.PermissionType = kmsg.ACLPermissionTypeAny },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourceName = "" },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourceName = "a/b" },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourceName = ".." },
		func(a *kmsg.CreateACLsRequestCreation) { a.Principal = "alice" },
		func(a *kmsg.CreateACLsRequestCreation) { a.ResourceType = kmsg.ACLResourceTypeCluster },
	} {
		a := sound
		spoil(&a)
		req.Creations = append(req.Creations, a)
	}
	req.Creations = append(req.Creations, sound)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range resp.Results {
		want := kerr.InvalidRequest.Code
		if i == len(resp.Results)-1 {
			want = 0
		}
		if r.ErrorCode != want || r.ErrorMessage == nil || (want != 0) != (*r.ErrorMessage != "") {
			t.Errorf("%+v: %v", req.Creations[i], kerr.ErrorForCode(r.ErrorCode))
		}
	}
	all := kmsg.DescribeACLsRequest{ResourceType: kmsg.ACLResourceTypeAny, ResourcePatternType: kmsg.ACLResourcePatternTypeAny,
		Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny}
	kept, err := all.RequestWith(t.Context(), cl)
	if err != nil || len(kept.Resources) != 1 || len(kept.Resources[0].ACLs) != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
	for _, spoil := range []func(*kmsg.DescribeACLsRequest){
		func(f *kmsg.DescribeACLsRequest) { f.ResourceType = kmsg.ACLResourceTypeUnknown },
		func(f *kmsg.DescribeACLsRequest) { f.ResourcePatternType = kmsg.ACLResourcePatternTypeUnknown },
		func(f *kmsg.DescribeACLsRequest) { f.Operation = kmsg.ACLOperationUnknown },
		func(f *kmsg.DescribeACLsRequest) { f.PermissionType = kmsg.ACLPermissionTypeUnknown },
	} {
		f := all
		spoil(&f)
		described, err := f.RequestWith(t.Context(), cl)
		if err != nil || described.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("describe %+v: %+v, %v", f, described, err)
		}
		del := kmsg.NewPtrDeleteACLsRequest()
		del.Filters = []kmsg.DeleteACLsRequestFilter{
			{ResourceType: all.ResourceType, ResourcePatternType: all.ResourcePatternType, Operation: all.Operation, PermissionType: all.PermissionType},
			{ResourceType: f.ResourceType, ResourcePatternType: f.ResourcePatternType, Operation: f.Operation, PermissionType: f.PermissionType}}
		deleted, err := del.RequestWith(t.Context(), cl)
		if err != nil || deleted.Results[0].ErrorCode != kerr.InvalidRequest.Code || deleted.Results[1].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("delete %+v: %+v, %v", f, deleted, err)
		}
	}
	if kept, err = all.RequestWith(t.Context(), cl); err != nil || len(kept.Resources) != 1 {
		t.Errorf("an invalid filter has deleted something: %+v, %v", kept, err)
	}
}

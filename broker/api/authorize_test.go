package api

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"barnabas/broker/acl"
	"barnabas/broker/metadata"
	"barnabas/broker/metrics"
	"barnabas/broker/quota"
	"barnabas/broker/replica"
	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// free lists the APIs that need no rights, and why.
var free = map[kmsg.Key]string{
	kmsg.SASLHandshake:           "it is how a client says who it is",
	kmsg.SASLAuthenticate:        "it is how a client says who it is",
	kmsg.ApiVersions:             "clients ask it before they say who they are",
	kmsg.Envelope:                "it closes the connection",
	kmsg.DescribeCluster:         "everybody may know the brokers, as from Metadata; the operations are asked about",
	kmsg.ListGroups:              "groups are left out of the list",
	kmsg.ListTransactions:        "transactions are left out of the list",
	kmsg.CreateDelegationToken:   "a token of one's own; for another owner's the answer is tested with tokens",
	kmsg.RenewDelegationToken:    "it is about who asks",
	kmsg.ExpireDelegationToken:   "it is about who asks",
	kmsg.DescribeDelegationToken: "it is about who asks",
	// These are answered without authorization, since the request can have no effect.
	kmsg.ConsumerGroupHeartbeat: "UNSUPPORTED_VERSION to everybody",
	kmsg.ConsumerGroupDescribe:  "UNSUPPORTED_VERSION to everybody",
}

// refusingController is a controller that refuses to do anything.
type refusingController struct{ Controller }

func (refusingController) Active() bool { return true }

// strict returns handlers with an authorizer that denies everything, and a hook for what it logs.
func strict(t *testing.T) (*Handlers, *logtest.Hook) {
	t.Helper()
	cfg, err := config.Parse(map[string]string{"zookeeper.connect": "localhost:2181"})
	if err != nil {
		t.Fatal(err)
	}
	log, _ := logtest.NewNullLogger()
	entry := logrus.NewEntry(log)
	audit, lines := logtest.NewNullLogger()
	ready := make(chan struct{})
	close(ready)
	return New(Deps{
		Config: config.NewDynamic(cfg, entry), Logger: entry, Ready: ready, Metadata: metadata.NewCache(), Controller: refusingController{},
		Quotas: quota.NewManager(quota.Config{Now: time.Now}), Replicas: replica.NewManager(replica.Config{Logger: entry}),
		Authorizer:  acl.New(acl.Config{Logger: logrus.NewEntry(audit), APIName: metrics.RequestName}),
		BrokerEpoch: func() int64 { return 1 },
	}), lines
}

// fill puts one of everything into a request: one element in each list, a name in each string.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Name != "Version" && v.Type().Field(i).Name != "UnknownTags" {
				fill(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	}
}

// TestEveryAPIAsksForARight: with an authorizer that denies everything, each API denies its highest version, and says
// so in the response. A new API must check a right or be listed in free with a reason.
func TestEveryAPIAsksForARight(t *testing.T) {
	h, _ := strict(t)
	for key, row := range h.rows {
		if _, ok := free[kmsg.Key(key)]; ok {
			continue
		}
		highest := row.max
		if kmsg.Key(key) == kmsg.Fetch {
			highest = fetchTopicIDVersion - 1 // an unknown topic id has no name to check
		}
		for _, version := range []int16{row.min, highest} {
			t.Run(metrics.RequestName(key), func(t *testing.T) { denies(t, key, version) })
		}
	}
}

func denies(t *testing.T, key, version int16) {
	h, lines := strict(t)
	req := kmsg.RequestForKey(key)
	fill(reflect.ValueOf(req).Elem())
	sensible(req)
	req.SetVersion(version)
	c := &Call{Request: &network.Request{Key: key, Version: version, Body: req.AppendTo(nil),
		Conn: &network.Conn{Principal: "User:eve", Host: "10.0.0.1", Listener: "PLAINTEXT"}}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answer, err := h.rows[key].handle(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	told := slices.ContainsFunc(lines.AllEntries(), func(e *logrus.Entry) bool {
		return e.Message == "denied" && e.Data[logx.Principal] == "User:eve" && e.Data[logx.API] == metrics.RequestName(key)
	})
	if !told {
		t.Error("the authorizer was not asked whether it may be done: add the check, or the API to those that are free")
	}
	resp := answer.Wait(ctx)
	if key == int16(kmsg.Produce) && resp == nil || version == 0 && kmsg.Key(key) == kmsg.DescribeLogDirs {
		return // the response has no field for an error
	}
	if f, ok := resp.(*fetchResponse); ok {
		for _, p := range f.parts {
			if !errors.Is(p.missing, kerr.TopicAuthorizationFailed) {
				t.Errorf("%s: %v", p.topic, p.missing)
			}
		}
		return
	}
	if !hasDenial(reflect.ValueOf(resp)) {
		t.Errorf("the response does not contain the denial: %+v", resp)
	}
}

// sensible changes a request so that its handling gets as far as the authorization.
func sensible(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks, r.TransactionID = 1, nil
	case *kmsg.FetchRequest:
		r.SessionID, r.SessionEpoch, r.ReplicaID, r.ReplicaState.ID = 0, -1, -1, -1
	case *kmsg.MetadataRequest:
		r.Topics[0].TopicID = [16]byte{}
	case *kmsg.DeleteTopicsRequest:
		r.Topics[0].TopicID = [16]byte{}
	case *kmsg.DescribeConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.AlterConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources[0].ResourceType = kmsg.ConfigResourceTypeTopic
	case *kmsg.DescribeACLsRequest:
		r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = acl.Topic, 3, acl.Read, 3
	}
}

// hasDenial looks for a denial's error code in any field named ErrorCode.
func hasDenial(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasDenial(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if hasDenial(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if f := v.Field(i); strings.HasSuffix(name, "ErrorCode") && name != "ConfigErrorCode" && f.Kind() == reflect.Int16 {
				err := kerr.ErrorForCode(int16(f.Int()))
				for _, d := range []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed} {
					if err == d {
						return true
					}
				}
			} else if hasDenial(f) {
				return true
			}
		}
	}
	return false
}

// TestFreeAPIsAreOffered: free contains only APIs that are offered.
func TestFreeAPIsAreOffered(t *testing.T) {
	h, _ := strict(t)
	for key := range free {
		if h.rows[key.Int16()] == nil {
			t.Errorf("%s is not offered", key.Name())
		}
	}
}

// TestOwnRequestsAreTrusted: requests that a broker sends to itself, over no connection, are always allowed.
func TestOwnRequestsAreTrusted(t *testing.T) {
	h, lines := strict(t)
	own := &Call{Request: &network.Request{Key: int16(kmsg.LeaderAndISR)}}
	if err := h.authorize.cluster(own, acl.ClusterAction); err != nil || len(lines.AllEntries()) != 0 {
		t.Error(err)
	}
	if ops := h.authorize.operations(own, acl.Cluster, acl.ClusterName); ops != 8096 {
		t.Errorf("operations %b", ops)
	}
}

// TestOperationsOfEverybody: the authorized operations that a broker without an authorizer returns (KIP-430).
func TestOperationsOfEverybody(t *testing.T) {
	for kind, want := range map[acl.ResourceType]int32{acl.Cluster: 8096, acl.Topic: 3576, acl.Group: 328} {
		if got := (authorizer{}).operations(&Call{}, kind, "x"); got != want {
			t.Errorf("%v: %d, want %d", kind, got, want)
		}
	}
}

// TestTopicsAreAskedOnce: the authorizer is asked once per topic, however often and in whatever order a request
// contains it.
func TestTopicsAreAskedOnce(t *testing.T) {
	h, lines := strict(t)
	topics := h.authorize.topics(&Call{Request: &network.Request{Conn: &network.Conn{Principal: "User:eve"}}}, acl.Read)
	asked := make(map[string]error)
	for _, name := range []string{"a", "a", "b", "a", "c", "b", "c"} {
		err := topics.check(name)
		if !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("%s: %v", name, err)
		}
		if before, again := asked[name]; again && before != err {
			t.Errorf("the authorizer was asked about %s again", name)
		}
		asked[name] = err
	}
	if len(lines.AllEntries()) != 1 {
		t.Errorf("%d lines of one kind within a moment", len(lines.AllEntries()))
	}
}

// BenchmarkTopics measures the authorization of a Produce or Fetch of one topic, with and without an authorizer.
func BenchmarkTopics(b *testing.B) {
	log, _ := logtest.NewNullLogger()
	super := acl.New(acl.Config{Logger: logrus.NewEntry(log), SuperUsers: []string{"User:admin"}})
	call := &Call{Request: &network.Request{Conn: &network.Conn{Principal: "User:admin", Host: "10.0.0.1"}}}
	for name, a := range map[string]authorizer{"authorizer=none": {}, "authorizer=acls": {super}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				topics := a.topics(call, acl.Write)
				for range 3 {
					if topics.check("t") != nil {
						b.Fatal("denied")
					}
				}
			}
		})
	}
}

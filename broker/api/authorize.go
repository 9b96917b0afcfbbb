package api

import (
	"fmt"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kerr"
)

// authority says what a client may do. Its zero value allows everything, as a broker without an authorizer does; so is everything
// allowed that this broker asks of itself, which comes over no connection.
//
// A method that returns an error says who lacks which right, with the code of the resource. What a handler asks first and in
// which order is that of KafkaApis (3.9).
type authority struct{ acls *acl.Authorizer }

// trusts tells whether there is nothing to ask.
func (a authority) trusts(c *Call) bool { return a.acls == nil || c.Conn == nil }

func question(c *Call, op acl.Operation, t acl.ResourceType, name string) acl.Question {
	return acl.Question{
		Who: acl.Subject{Principal: c.Conn.Principal, Host: c.Conn.Host}, Op: op, Type: t, Name: name, API: c.Key,
	}
}

// check asks about one resource.
func (a authority) check(c *Call, op acl.Operation, t acl.ResourceType, name string, code *kerr.Error) error {
	if a.trusts(c) {
		return nil
	}
	if q := question(c, op, t, name); !a.acls.Allowed(&q) {
		return denied(c, op, t, name, code)
	}
	return nil
}

func denied(c *Call, op acl.Operation, t acl.ResourceType, name string, code *kerr.Error) error {
	return fmt.Errorf("%s may not %v %v %q: %w", c.Conn.Principal, op, t, name, code)
}

// topic asks about a topic: TOPIC_AUTHORIZATION_FAILED.
func (a authority) topic(c *Call, op acl.Operation, name string) error {
	return a.check(c, op, acl.Topic, name, kerr.TopicAuthorizationFailed)
}

// group asks about a group: GROUP_AUTHORIZATION_FAILED.
func (a authority) group(c *Call, op acl.Operation, id string) error {
	return a.check(c, op, acl.Group, id, kerr.GroupAuthorizationFailed)
}

// txnID asks about a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
func (a authority) txnID(c *Call, op acl.Operation, id string) error {
	return a.check(c, op, acl.TxnID, id, kerr.TransactionalIDAuthorizationFailed)
}

// cluster asks about the cluster: CLUSTER_AUTHORIZATION_FAILED.
func (a authority) cluster(c *Call, op acl.Operation) error {
	return a.check(c, op, acl.Cluster, acl.ClusterName, kerr.ClusterAuthorizationFailed)
}

// quietly asks what may be done, to find out and not to do it: a denial is nothing to tell of.
func (a authority) quietly(c *Call, op acl.Operation, t acl.ResourceType, name string) bool {
	if a.trusts(c) {
		return true
	}
	q := question(c, op, t, name)
	q.Quiet = true
	return a.acls.Allowed(&q)
}

// quietlyCluster is quietly about the cluster.
func (a authority) quietlyCluster(c *Call, op acl.Operation) bool {
	return a.quietly(c, op, acl.Cluster, acl.ClusterName)
}

// idempotentWrite asks whether a producer may have an id: who may write to any topic may (KIP-679).
// CLUSTER_AUTHORIZATION_FAILED.
func (a authority) idempotentWrite(c *Call) error {
	if a.quietlyCluster(c, acl.IdempotentWrite) {
		return nil
	}
	if q := question(c, acl.Write, acl.Topic, "any"); a.acls.AllowedSomewhere(&q) {
		return nil
	}
	return denied(c, acl.IdempotentWrite, acl.Cluster, acl.ClusterName, kerr.ClusterAuthorizationFailed)
}

// operations are those that are allowed on a resource, as bits of the operations' codes (KIP-430).
func (a authority) operations(c *Call, t acl.ResourceType, name string) int32 {
	var bits int32
	for _, op := range acl.Operations(t) {
		if a.quietly(c, op, t, name) {
			bits |= 1 << op
		}
	}
	return bits
}

// clusterOperations are those on the cluster for who may describe it, none for others.
func (a authority) clusterOperations(c *Call) int32 {
	if a.cluster(c, acl.Describe) != nil {
		return 0
	}
	return a.operations(c, acl.Cluster, acl.ClusterName)
}

// topics asks about topics, of each once however often a request has it: most have one, or the partitions of one after the other.
// It is not safe for concurrent use.
type topics struct {
	authority
	c       *Call
	op      acl.Operation
	last    string
	lastErr error
	asked   bool
	others  map[string]error // when there was more than one
}

func (a authority) topics(c *Call, op acl.Operation) topics {
	return topics{authority: a, c: c, op: op}
}

// check asks about a topic: TOPIC_AUTHORIZATION_FAILED.
func (t *topics) check(name string) error {
	if t.trusts(t.c) {
		return nil
	}
	if t.asked && t.last == name {
		return t.lastErr
	}
	t.remember()
	err, known := t.others[name]
	if !known {
		err = t.topic(t.c, t.op, name)
	}
	t.last, t.lastErr, t.asked = name, err, true
	return err
}

// remember keeps what was asked last, before another takes its place.
func (t *topics) remember() {
	if !t.asked {
		return
	}
	if t.others == nil {
		t.others = make(map[string]error)
	}
	t.others[t.last] = t.lastErr
}

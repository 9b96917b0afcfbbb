package api

import (
	"fmt"

	"barnabas/broker/acl"

	"github.com/twmb/franz-go/pkg/kerr"
)

// authorizer decides what a client may do. The zero value allows everything, as a broker without an authorizer does.
// Requests that this broker sends to itself, which come over no connection, are always allowed.
//
// The errors of its methods say who lacks which operation, with the resource's error code. What a handler checks, and
// in which order, follows KafkaApis (3.9).
type authorizer struct{ acls *acl.Authorizer }

// unrestricted reports whether nothing needs to be checked.
func (a authorizer) unrestricted(c *Call) bool { return a.acls == nil || c.Conn == nil }

func accessRequest(c *Call, op acl.Operation, t acl.ResourceType, name string) acl.AccessRequest {
	return acl.AccessRequest{
		Who: acl.Subject{Principal: c.Conn.Principal, Host: c.Conn.Host}, Op: op, Type: t, Name: name, API: c.Key,
	}
}

// check checks an operation on one resource.
func (a authorizer) check(c *Call, op acl.Operation, t acl.ResourceType, name string, code *kerr.Error) error {
	if a.unrestricted(c) {
		return nil
	}
	if q := accessRequest(c, op, t, name); !a.acls.Allowed(&q) {
		return denied(c, op, t, name, code)
	}
	return nil
}

func denied(c *Call, op acl.Operation, t acl.ResourceType, name string, code *kerr.Error) error {
	return fmt.Errorf("%s may not %v %v %q: %w", c.Conn.Principal, op, t, name, code)
}

// topic checks an operation on a topic; the error is TOPIC_AUTHORIZATION_FAILED.
func (a authorizer) topic(c *Call, op acl.Operation, name string) error {
	return a.check(c, op, acl.Topic, name, kerr.TopicAuthorizationFailed)
}

// group checks an operation on a group; the error is GROUP_AUTHORIZATION_FAILED.
func (a authorizer) group(c *Call, op acl.Operation, id string) error {
	return a.check(c, op, acl.Group, id, kerr.GroupAuthorizationFailed)
}

// txnID checks an operation on a transactional id; the error is TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
func (a authorizer) txnID(c *Call, op acl.Operation, id string) error {
	return a.check(c, op, acl.TxnID, id, kerr.TransactionalIDAuthorizationFailed)
}

// cluster checks an operation on the cluster; the error is CLUSTER_AUTHORIZATION_FAILED.
func (a authorizer) cluster(c *Call, op acl.Operation) error {
	return a.check(c, op, acl.Cluster, acl.ClusterName, kerr.ClusterAuthorizationFailed)
}

// quietly finds out whether an operation is allowed without logging a denial, since nobody is attempting it.
func (a authorizer) quietly(c *Call, op acl.Operation, t acl.ResourceType, name string) bool {
	if a.unrestricted(c) {
		return true
	}
	q := accessRequest(c, op, t, name)
	q.Quiet = true
	return a.acls.Allowed(&q)
}

// quietlyCluster is quietly for the cluster.
func (a authorizer) quietlyCluster(c *Call, op acl.Operation) bool {
	return a.quietly(c, op, acl.Cluster, acl.ClusterName)
}

// idempotentWrite checks whether a producer may have an id: anyone who may write to some topic may (KIP-679). The error
// is CLUSTER_AUTHORIZATION_FAILED.
func (a authorizer) idempotentWrite(c *Call) error {
	if a.quietlyCluster(c, acl.IdempotentWrite) {
		return nil
	}
	if q := accessRequest(c, acl.Write, acl.Topic, "any"); a.acls.AllowedSomewhere(&q) {
		return nil
	}
	return denied(c, acl.IdempotentWrite, acl.Cluster, acl.ClusterName, kerr.ClusterAuthorizationFailed)
}

// operations returns the operations allowed on a resource, as bits numbered by the operations' codes (KIP-430).
func (a authorizer) operations(c *Call, t acl.ResourceType, name string) int32 {
	var bits int32
	for _, op := range acl.Operations(t) {
		if a.quietly(c, op, t, name) {
			bits |= 1 << op
		}
	}
	return bits
}

// clusterOperations returns the operations allowed on the cluster, if the client may describe it.
func (a authorizer) clusterOperations(c *Call) int32 {
	if a.cluster(c, acl.Describe) != nil {
		return 0
	}
	return a.operations(c, acl.Cluster, acl.ClusterName)
}

// topics checks topics, each only once however often it occurs in a request: most requests have a single topic, or the
// partitions of each topic together. Not safe for concurrent use.
type topics struct {
	authorizer
	c       *Call
	op      acl.Operation
	last    string
	lastErr error
	asked   bool
	others  map[string]error // used if there is more than one topic
}

func (a authorizer) topics(c *Call, op acl.Operation) topics {
	return topics{authorizer: a, c: c, op: op}
}

// check checks a topic; the error is TOPIC_AUTHORIZATION_FAILED.
func (t *topics) check(name string) error {
	if t.unrestricted(t.c) {
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

// remember stores the last topic's result before another one replaces it.
func (t *topics) remember() {
	if !t.asked {
		return
	}
	if t.others == nil {
		t.others = make(map[string]error)
	}
	t.others[t.last] = t.lastErr
}

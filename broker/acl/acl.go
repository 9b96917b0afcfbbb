package acl

import (
	"strings"

	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The parts of ACLs, with the protocol's codes.
type (
	Operation    = kmsg.ACLOperation
	ResourceType = kmsg.ACLResourceType
	Pattern      = kmsg.ACLResourcePatternType
	Permission   = kmsg.ACLPermissionType
	Resource     = zkcoord.ACLResource
	Entry        = zkcoord.ACLEntry
)

// The operations that requests need.
const (
	Read            = kmsg.ACLOperationRead
	Write           = kmsg.ACLOperationWrite
	Create          = kmsg.ACLOperationCreate
	Delete          = kmsg.ACLOperationDelete
	Alter           = kmsg.ACLOperationAlter
	Describe        = kmsg.ACLOperationDescribe
	ClusterAction   = kmsg.ACLOperationClusterAction
	DescribeConfigs = kmsg.ACLOperationDescribeConfigs
	AlterConfigs    = kmsg.ACLOperationAlterConfigs
	IdempotentWrite = kmsg.ACLOperationIdempotentWrite
	CreateTokens    = kmsg.ACLOperationCreateTokens
	DescribeTokens  = kmsg.ACLOperationDescribeTokens
)

// The types of resources.
const (
	Topic   = kmsg.ACLResourceTypeTopic
	Group   = kmsg.ACLResourceTypeGroup
	Cluster = kmsg.ACLResourceTypeCluster
	TxnID   = kmsg.ACLResourceTypeTransactionalId
	Token   = kmsg.ACLResourceTypeDelegationToken
	User    = kmsg.ACLResourceTypeUser
)

// ClusterName is the name of the one resource of the type Cluster.
const ClusterName = "kafka-cluster"

// Wildcards: any user, any host, and any resource of a type.
const (
	everybody = "User:*"
	wildcard  = "*"
)

// Subject is the client that wants to do something.
type Subject struct {
	Principal string // TYPE:NAME
	Host      string // the peer's address, formatted as in Java
}

// Operations returns the operations that exist for a type of resource (AclEntry.supportedOperations, 3.9).
func Operations(t ResourceType) []Operation {
	switch t {
	case Topic:
		return []Operation{Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs}
	case Group:
		return []Operation{Read, Describe, Delete}
	case Cluster:
		return []Operation{Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe}
	case TxnID:
		return []Operation{Describe, Write}
	case Token:
		return []Operation{Describe}
	case User:
		return []Operation{CreateTokens, DescribeTokens}
	}
	return nil
}

// grants reports whether permission for one operation implies another: Read, Write, Delete and Alter imply Describe.
func grants(given, wanted Operation) bool {
	if names(given, wanted) {
		return true
	}
	switch wanted {
	case Describe:
		return given == Read || given == Write || given == Delete || given == Alter
	case DescribeConfigs:
		return given == AlterConfigs
	}
	return false
}

// names reports whether an entry's operation is the wanted one, or All. That is as far as a denial goes: denying Read
// does not deny Describe.
func names(given, wanted Operation) bool { return given == wanted || given == kmsg.ACLOperationAll }

// concerns reports whether an entry applies to a subject.
func concerns(e *Entry, who Subject) bool {
	return (e.Principal == who.Principal || e.Principal == everybody) && (e.Host == who.Host || e.Host == wildcard)
}

// about formats a resource for log lines: Topic:LITERAL:t.
func about(t ResourceType, name string) string { return typeWord(t) + ":LITERAL:" + name }

// typeWord returns the type of a resource as in the names of ACL nodes: TransactionalId.
func typeWord(t ResourceType) string {
	var b strings.Builder
	for part := range strings.SplitSeq(t.String(), "_") {
		b.WriteString(part[:1])
		b.WriteString(strings.ToLower(part[1:]))
	}
	return b.String()
}

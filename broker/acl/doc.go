// Package acl decides who may do what, as kafka.security.authorizer.AclAuthorizer of Apache Kafka 3.9 does with the same ACLs.
//
// It owns the picture of all ACLs: immutable, swapped whole, looked up without a lock. One goroutine keeps it as ZooKeeper has
// it; who changes ACLs writes to ZooKeeper and waits until that goroutine has read them back. The package knows nothing of
// connections and requests.
package acl

// Package acl decides who may do what, as kafka.security.authorizer.AclAuthorizer of Apache Kafka 3.9 does with the
// same ACLs.
//
// It owns the snapshot of all ACLs, which is immutable, replaced as a whole and read without a lock. One goroutine
// keeps it consistent with ZooKeeper; a caller that changes ACLs writes to ZooKeeper and waits until that goroutine has
// read the change back. The package knows nothing about connections and requests.
package acl

// Package kerberos implements both sides of SASL logins with GSSAPI (RFC 4752) over Kerberos 5 (RFC 4120, 4121). As in
// Apache Kafka, no security layer is negotiated for what follows the login. It is based on gokrb5, which implements the
// messages and ciphers.
//
// A Service holds the keys with which clients' tickets are checked; a User holds the tickets of a program, and asks the
// key distribution centers for more. Both read their files (keytab, ticket cache) again when these have changed, and are
// safe for concurrent use; an Acceptor, and the function of a login that a User has begun, belong to one login. A center
// is asked once on behalf of all logins that wait, and nobody waits for it while a ticket is still valid. The package
// knows no SASL frames and no settings but the options of Java's login module.
package kerberos

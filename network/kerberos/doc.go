// Package kerberos implements both sides of SASL logins with GSSAPI (RFC 4752) over Kerberos 5 (RFC 4120, 4121). As in
// Apache Kafka, no security layer is negotiated for what follows the login. It is based on gokrb5, which implements the
// messages and ciphers.
package kerberos

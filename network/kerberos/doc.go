// Package kerberos is both sides of a login by SASL with GSSAPI (RFC 4752) over Kerberos 5 (RFC 4120, 4121): no layer of
// protection is negotiated for what follows, as with Apache Kafka. It stands on gokrb5, which has the messages and the ciphers.
package kerberos

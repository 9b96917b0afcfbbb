package config

import (
	"fmt"
	"strings"
)

// Krb5 says where the configuration of Kerberos is: the settings java.security.krb5.*, which have the names of Java's
// system properties.
type Krb5 struct {
	File       string // krb5.conf
	Realm, KDC string // its default realm and the hosts of that one's centers, separated by colons; empty: as in the file
}

// Kerberos configures the mechanism GSSAPI: this broker's identity, and the names of its clients.
type Kerberos struct {
	Key           string // the key of the login configuration, for errors
	Configuration Krb5
	Keytab        string
	Principal     string   // NAME/HOST[@REALM]
	Service       string   // the first part of other brokers' principals
	Rules         []string // sasl.kerberos.principal.to.local.rules
}

// kerberos parses the options of the login module for GSSAPI.
func (b *Broker) kerberos(l Listener, options map[string]string) (*Kerberos, error) {
	const serviceKey, rulesKey = "sasl.kerberos.service.name", "sasl.kerberos.principal.to.local.rules"
	_, service := b.listenerText(l, gssapi, serviceKey)
	_, rules := b.listenerText(l, gssapi, rulesKey)
	k := &Kerberos{Key: mechanismPrefix(l, gssapi) + jaasKey, Configuration: b.Krb5,
		Keytab: options["keyTab"], Principal: options["principal"], Service: service, Rules: parseList(rules)}
	refuse := func(reason string) error {
		return &Error{Key: k.Key, Reason: fmt.Sprintf("listener %s: %s", l.Name, reason)}
	}
	if given := options["serviceName"]; given != "" {
		if service != "" && service != given {
			return nil, refuse(fmt.Sprintf("its serviceName is %s, and %s is %s", given, serviceKey, service))
		}
		k.Service = given
	}
	switch {
	case !strings.EqualFold(options["useKeyTab"], "true") || k.Keytab == "" || k.Principal == "":
		return nil, refuse("brokers need the keys of a principal: useKeyTab=true, keyTab and principal")
	case k.Service == "":
		return nil, refuse("neither its serviceName nor " + serviceKey + " is set")
	}
	return k, nil
}

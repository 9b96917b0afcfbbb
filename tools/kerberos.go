package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"barnabas/network/kerberos"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// kerberosOption logs in with tickets: for a principal whose keys are in a keytab, or those obtained by kinit.
func kerberosOption(p properties, options, system map[string]string) (kgo.Opt, error) {
	service := cmp.Or(options["serviceName"], p["sasl.kerberos.service.name"])
	if service == "" {
		return nil, errors.New("sasl.kerberos.service.name must be set, as the brokers' principals begin")
	}
	user, err := kerberos.OpenUser(krb5Conf(func(name string) string { return system[name] }), options, nil)
	if err != nil {
		return nil, fmt.Errorf("sasl.jaas.config: %w", err)
	}
	return kgo.SASL(ticketed{user, service}), nil
}

// krb5Conf returns where the configuration of Kerberos is.
func krb5Conf(setting func(name string) string) kerberos.Source {
	return kerberos.Source{File: cmp.Or(setting("java.security.krb5.conf"), "/etc/krb5.conf"),
		Realm: setting("java.security.krb5.realm"), KDC: setting("java.security.krb5.kdc")}
}

// ticketed implements the library's mechanism.
type ticketed struct {
	user    *kerberos.User
	service string
}

// Name implements sasl.Mechanism.
func (ticketed) Name() string { return gssapi }

// Authenticate implements sasl.Mechanism.
func (m ticketed) Authenticate(ctx context.Context, addr string) (sasl.Session, []byte, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	step, err := m.user.Start(ctx, m.service, host)
	if err != nil {
		return nil, nil, &loginError{err}
	}
	first, err := step(nil)
	return session(step), first, err
}

type session func(message []byte) ([]byte, error)

// Challenge implements sasl.Session.
func (s session) Challenge(message []byte) (done bool, answer []byte, err error) {
	answer, err = s(message)
	return answer == nil, answer, err
}

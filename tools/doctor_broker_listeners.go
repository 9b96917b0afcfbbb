package tools

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"

	"barnabas/config"
	"barnabas/network/kerberos"
	"barnabas/network/ssl"
)

// keystores opens the keystores of the listeners, as a start does.
func (d *doctor) keystores(b *config.Broker) {
	for _, l := range b.Listeners {
		if l.Protocol.TLS() {
			d.keystore(b, l)
		}
	}
}

func (d *doctor) keystore(b *config.Broker, l config.Listener) {
	subject := "listener " + l.Name
	c, err := ssl.ForListener(
		ssl.Settings{Get: func(name string) (as, value string, set bool) { return b.ListenerSetting(l, name) }},
		ssl.Listener{Name: l.Name, Protocol: l.Protocol.String(), Prefix: l.ConfigPrefix(), Logins: l.Protocol.SASL(), Brokers: l.Name == b.InterBrokerListener}, nil)
	if err != nil {
		d.trouble(subject, "correct it: the broker does not start with it", "%v.", err)
		return
	}
	for _, warning := range c.Warnings() {
		d.note(subject, "%s.", warning)
	}
	name, end := c.Expires()
	switch left := end.Sub(d.now); {
	case left <= 0:
		d.trouble(subject, "renew it", "the certificate of %s expired at %s: clients will reject it.", name, at(end.UnixMilli()))
	case left < soonExpired:
		d.warn(subject, "renew it", "the certificate of %s expires in %s, at %s.", name, lasting(left), at(end.UnixMilli()))
	default:
		d.note(subject, "its stores can be read; the certificate of %s is valid until %s.", name, at(end.UnixMilli()))
	}
}

// keytabs opens what listeners with GSSAPI need, as a start does.
func (d *doctor) keytabs(b *config.Broker) {
	for _, l := range b.Listeners {
		if !l.Protocol.SASL() {
			continue
		}
		s, err := b.ListenerSASL(l)
		if err != nil {
			continue // reported with the settings
		}
		for _, m := range s.Mechanisms {
			if m.Kerberos == nil {
				continue
			}
			k := m.Kerberos
			_, _, err := kerberos.OpenListener(
				kerberos.Listener{Configuration: kerberos.Source(k.Configuration), Keytab: k.Keytab, Principal: k.Principal, Rules: k.Rules}, new(kerberos.ReplayCache))
			if err != nil {
				d.trouble("listener "+l.Name, "correct it, or let user "+strconv.Itoa(os.Getuid())+" read the file: the broker does not start with it", "%s: %v.", k.Key, err)
			}
		}
	}
}

// portAnswers is the time limit for a program on this machine to accept a connection.
const portAnswers = time.Second

// ports checks that the broker's addresses belong to this machine, and that no other program has them. It does not
// listen on them: clients that look for the broker would notice.
func (d *doctor) ports(ctx context.Context, b *config.Broker) {
	for _, l := range b.Listeners {
		d.port(ctx, "listener "+l.Name, l.Host, strconv.Itoa(l.Port))
	}
	if host, port, err := net.SplitHostPort(b.MetricsListener); err == nil {
		d.port(ctx, "metrics.listener", host, port)
	}
}

func (d *doctor) port(ctx context.Context, subject, host, port string) {
	own, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		d.trouble(subject, "set it to an address of this machine: the broker does not start with it", "cannot listen on %s here: %v.", host, err)
		return
	}
	_ = own.Close()
	if d.running || port == "0" {
		return // it is the broker that is to be stopped
	}
	addr := net.JoinHostPort(host, port)
	ctx, cancel := context.WithTimeout(ctx, portAnswers)
	defer cancel()
	taken, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	_ = taken.Close()
	d.trouble(subject, "stop that program, or change the port: the broker does not start with it", "another program listens on %s, and no broker uses the log directories.", addr)
}

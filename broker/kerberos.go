package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network/kerberos"
	"barnabas/network/sasl"

	"github.com/sirupsen/logrus"
)

// ticketLineInterval is the minimum interval between log lines about tickets: each login with an old ticket requests a
// new one.
const ticketLineInterval = time.Minute

// kerberosState is this broker's identity in Kerberos.
type kerberosState struct {
	log     *logrus.Entry
	lines   logx.Sampler
	replays kerberos.ReplayCache // the authenticators that clients have presented, at any listener
	mu      struct {
		sync.Mutex                         // a leaf
		users      map[string]kerberosUser // identities with which this broker logs in at others, by the setting that names them
	}
}

// kerberosUser is an identity with the settings that it was created from: while these stay the same, its tickets are
// kept.
type kerberosUser struct {
	settings string
	*kerberos.User
}

func newKerberosState(log *logrus.Entry) *kerberosState {
	return &kerberosState{log: log, lines: logx.Sampler{Interval: ticketLineInterval}}
}

// warn logs that a ticket could not be replaced.
func (k *kerberosState) warn(err error) {
	k.line("there is no new ticket of Kerberos, the one there is stays until it ends", err)
}

func (k *kerberosState) line(text string, err error) {
	if line, ok := k.lines.Line(text, k.log); ok {
		line.WithError(err).Warn(text)
	}
}

// close ends all identities, so that no login is possible any more.
func (k *kerberosState) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range k.mu.users {
		u.Close()
	}
	k.mu.users = nil
}

// ticketed returns the server's side of GSSAPI logins.
func (k *kerberosState) ticketed(c *config.Kerberos) (func() sasl.Exchange, error) {
	service, rules, err := kerberos.OpenListener(
		kerberos.Listener{Configuration: kerberos.Source(c.Configuration), Keytab: c.Keytab, Principal: c.Principal, Rules: c.Rules}, &k.replays)
	if err != nil {
		return nil, &config.Error{Key: c.Key, Reason: err.Error()}
	}
	return sasl.GSSAPI(service, rules), nil
}

// dialog returns the client's side of GSSAPI logins, with which this broker logs in at others.
func (k *kerberosState) dialog(c *config.Kerberos) (func(ctx context.Context, host string) (sasl.Dialog, error), error) {
	user, err := k.user(c)
	if err != nil {
		return nil, &config.Error{Key: c.Key, Reason: err.Error()}
	}
	return func(ctx context.Context, host string) (sasl.Dialog, error) { return user.Start(ctx, c.Service, host) }, nil
}

func (k *kerberosState) user(c *config.Kerberos) (*kerberos.User, error) {
	settings := fmt.Sprintf("%q", []any{c.Configuration, c.Keytab, c.Principal})
	k.mu.Lock()
	defer k.mu.Unlock()
	before, found := k.mu.users[c.Key]
	if found && before.settings == settings {
		return before.User, nil
	}
	user, err := kerberos.OpenKeytab(kerberos.Source(c.Configuration), c.Keytab, c.Principal, k.warn)
	switch {
	case err != nil && found:
		k.line("the settings of this broker's own identity in Kerberos cannot be applied, it stays the one before", err)
		return before.User, nil
	case err != nil:
		return nil, err
	case found:
		before.Close()
	}
	if k.mu.users == nil {
		k.mu.users = make(map[string]kerberosUser)
	}
	k.mu.users[c.Key] = kerberosUser{settings, user}
	return user, nil
}

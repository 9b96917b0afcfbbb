package kerberos

import (
	"cmp"
	"errors"
	"strings"
	"sync"
	"time"

	"barnabas/internal/edition"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// loadedUser is a user as of one edition of its file, with the tickets obtained.
//
// The library's client is used for the configuration and the keys only. Sessions that it manages would be renewed on
// goroutines of its own, where an answer on which it panics would end the program; see kdcs for single exchanges.
type loadedUser struct {
	edition edition.Edition
	client  *client.Client
	name    types.PrincipalName
	realm   string

	mu struct {
		sync.Mutex                        // a leaf
		tickets    map[string]*credential // by service; ticket-granting tickets are for the services krbtgt/REALM
	}
}

// loadUser returns a user without tickets.
func loadUser(cl *client.Client) *loadedUser {
	o := &loadedUser{client: cl, name: cl.Credentials.CName(), realm: cl.Credentials.Domain()}
	o.mu.tickets = make(map[string]*credential)
	return o
}

// loadCache returns a user with the tickets of a cache.
func loadCache(cache *credentials.CCache, c *config.Config) (*loadedUser, error) {
	cl, err := client.NewFromCCache(cache, c, client.DisablePAFXFAST(true))
	if err != nil {
		return nil, err
	}
	o := loadUser(cl)
	for _, entry := range cache.GetEntries() {
		var ticket messages.Ticket
		if err := ticket.Unmarshal(entry.Ticket); err != nil {
			return nil, err
		}
		o.keep(entry.Server.PrincipalName.PrincipalNameString(), &credential{o.name, o.realm, ticket, entry.Key, entry.StartTime, entry.EndTime, entry.RenewTill})
	}
	return o, nil
}

// credential is a ticket for a service with its session key.
type credential struct {
	name               types.PrincipalName // of the client
	realm              string
	ticket             messages.Ticket
	key                types.EncryptionKey
	begins, ends, last time.Time // last: until when it can be renewed
}

// good reports whether there is a ticket and it is valid.
func (p *credential) good(now time.Time) bool { return p != nil && now.Before(p.ends) }

// fresh reports whether there is a ticket that need not be replaced yet.
func (p *credential) fresh(now time.Time) bool {
	const part = 6 // it is replaced when this fraction of its lifetime is left
	return p != nil && now.Before(p.ends.Add(-p.ends.Sub(p.begins)/part))
}

func (p *credential) renewable(now time.Time) bool {
	return now.Before(p.last) && p.ends.Before(p.last)
}

// granting returns the ticket-granting service of a realm.
func granting(realm string) string { return "krbtgt/" + realm }

// home returns the ticket-granting service of the user's own realm.
func (o *loadedUser) home() string { return granting(o.realm) }

func (o *loadedUser) held(service string) *credential {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.tickets[service]
}

func (o *loadedUser) keep(service string, p *credential) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.tickets[service] = p
}

// ask gets a ticket and keeps it.
func (o *loadedUser) ask(service string) (p *credential, err error) {
	switch {
	case service == o.home():
		p, err = o.logIn()
	case strings.HasPrefix(service, granting("")):
		p, err = o.granted(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, service), o.realm)
	default:
		name := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, service)
		p, err = o.granted(name, cmp.Or(o.client.Config.ResolveRealm(name.NameString[len(name.NameString)-1]), o.realm))
	}
	if err != nil {
		return nil, err
	}
	o.keep(service, p)
	return p, nil
}

// logIn gets a ticket-granting ticket for the user's own realm: with the keys, or else by renewing the existing one.
func (o *loadedUser) logIn() (*credential, error) {
	if !o.client.Credentials.HasKeytab() {
		return o.renewed(o.held(o.home()), time.Now())
	}
	answer, err := kdcs{o.client.Config}.logIn(o.client.Credentials, o.realm)
	if err != nil {
		return nil, err
	}
	return o.credentialOf(answer.KDCRepFields), nil
}

func (o *loadedUser) renewed(held *credential, now time.Time) (*credential, error) {
	switch {
	case !held.good(now):
		return nil, errors.New("the ticket obtained by kinit has expired")
	case !held.renewable(now):
		return held, nil
	}
	return o.exchange(held.ticket.SName, held, o.realm, true)
}

// longestReferral bounds how many realms a ticket is requested in.
const longestReferral = 5

// granted gets a ticket from the ticket-granting service of a realm, following referrals to other realms (RFC 6806,
// section 8).
func (o *loadedUser) granted(service types.PrincipalName, realm string) (*credential, error) {
	by := o.held(granting(realm))
	if now := time.Now(); !by.fresh(now) {
		newer, err := o.ask(granting(realm))
		if err != nil && !by.good(now) {
			return nil, err
		}
		by = cmp.Or(newer, by)
	}
	for range longestReferral {
		p, err := o.exchange(service, by, realm, false)
		if err != nil {
			return nil, err
		}
		next, refers := referral(p.ticket.SName)
		if !refers || p.ticket.SName.Equal(service) {
			return p, nil
		}
		by, realm = p, next
	}
	return nil, errors.New("key distribution centers refer to each other in a circle")
}

// referral returns the realm of a ticket-granting service, if it is one.
func referral(service types.PrincipalName) (realm string, refers bool) {
	return strings.CutPrefix(service.PrincipalNameString(), granting(""))
}

// exchange gets a ticket from the ticket-granting service of a realm: for the requested service, or a referral to
// another realm.
func (o *loadedUser) exchange(service types.PrincipalName, by *credential, realm string, renewal bool) (*credential, error) {
	request, err := messages.NewTGSReq(o.name, realm, o.client.Config, by.ticket, by.key, service, renewal)
	if err != nil {
		return nil, err
	}
	answer, err := kdcs{o.client.Config}.ticket(request, realm, by.key)
	if err != nil {
		return nil, err
	}
	return o.credentialOf(answer.KDCRepFields), nil
}

// credentialOf returns the ticket in an answer.
func (o *loadedUser) credentialOf(answer messages.KDCRepFields) *credential {
	part := answer.DecryptedEncPart
	begins := part.StartTime
	if begins.IsZero() { // if absent, it is valid from the time of the initial login
		begins = part.AuthTime
	}
	return &credential{o.name, o.realm, answer.Ticket, part.Key, begins, part.EndTime, part.RenewTill}
}

package kerberos

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"golang.org/x/sync/singleflight"
)

// User is who a program logs in as. Its tickets are renewed by a goroutine of the library until Close, and what they are got
// with is read anew when its file has changed. Safe for concurrent use.
type User struct {
	name string // NAME[/HOST]@REALM
	file string // of keys, or of tickets
	open func() (*client.Client, error)
	asks singleflight.Group // a ticket for one service is asked for once, for all who wait

	turn    sync.Mutex             // held by who asks for a ticket or changes current: the library's sessions do not bear two at once
	current atomic.Pointer[opened] // tickets that it has are taken from it without a turn
	closed  atomic.Bool
}

// opened is a user as of one edition of its file.
type opened struct {
	edition
	client *client.Client
	name   types.PrincipalName
	realm  string
}

func newUser(file string, open func() (*client.Client, error)) (*User, error) {
	u := &User{file: file, open: open}
	o, err := u.reopen()
	if err != nil {
		return nil, err
	}
	u.name = o.name.PrincipalNameString() + "@" + o.realm
	return u, nil
}

// reopen reads the file.
func (u *User) reopen() (*opened, error) {
	now, _ := editionOf(u.file)
	cl, err := u.open()
	if err != nil {
		return nil, err
	}
	o := &opened{now, cl, cl.Credentials.CName(), cl.Credentials.Domain()}
	u.current.Store(o)
	return o, nil
}

// stale tells whether the file has changed since.
func (u *User) stale(o *opened) bool {
	now, ok := editionOf(u.file)
	return ok && now != o.edition
}

// Realm is the default realm of a configuration (krb5.conf).
func Realm(file string) (string, error) {
	cfg, err := load(file)
	if err != nil {
		return "", err
	}
	return cfg.LibDefaults.DefaultRealm, nil
}

func load(file string) (*config.Config, error) {
	cfg, err := read(file, config.Load)
	var unsupported config.UnsupportedDirective
	if errors.As(err, &unsupported) && cfg != nil { // it is told of what does not matter here
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

// OpenUser is the user that the options of Java's login module name: one whose keys are in a keytab, or who has used kinit.
func OpenUser(configuration string, options map[string]string) (*User, error) {
	truth := func(name string) bool { return strings.EqualFold(options[name], "true") }
	switch {
	case truth("useKeyTab") && options["keyTab"] != "" && options["principal"] != "":
		return OpenKeytab(configuration, options["keyTab"], options["principal"])
	case truth("useTicketCache"):
		return OpenCache(configuration, cmp.Or(options["ticketCache"], strings.TrimPrefix(os.Getenv("KRB5CCNAME"), "FILE:"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())))
	}
	return nil, errors.New("its options must be useKeyTab=true, keyTab and principal, or useTicketCache=true")
}

// OpenKeytab is a user whose keys are in a keytab: NAME[/HOST][@REALM].
func OpenKeytab(configuration, file, principal string) (*User, error) {
	cfg, err := load(configuration)
	if err != nil {
		return nil, err
	}
	name, realm, found := strings.Cut(principal, "@")
	if !found {
		realm = cfg.LibDefaults.DefaultRealm
	}
	return newUser(file, func() (*client.Client, error) {
		keys, err := read(file, keytab.Load)
		if err != nil {
			return nil, err
		}
		return client.NewWithKeytab(name, realm, keys, cfg, client.DisablePAFXFAST(true)), nil
	})
}

// OpenCache is the user whose tickets kinit has put into a file.
func OpenCache(configuration, file string) (*User, error) {
	cfg, err := load(configuration)
	if err != nil {
		return nil, err
	}
	return newUser(file, func() (*client.Client, error) {
		cache, err := read(file, credentials.LoadCCache)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		cl, err := client.NewFromCCache(cache, cfg, client.DisablePAFXFAST(true))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return cl, nil
	})
}

// Close ends the renewal of tickets. It does not wait for a key distribution center that is being asked.
func (u *User) Close() {
	u.closed.Store(true)
	if u.turn.TryLock() { // else who has the turn closes at its end
		u.current.Load().client.Destroy()
		u.turn.Unlock()
	}
}

// Name is the principal.
func (u *User) Name() string { return u.name }

// pass is a ticket for a service and the key that goes with it.
type pass struct {
	name   types.PrincipalName // of its owner
	realm  string
	ticket messages.Ticket
	key    types.EncryptionKey
}

// passFor gets a ticket. The library asks the key distribution centers for as long as it likes; ctx ends the wait for it.
func (u *User) passFor(ctx context.Context, principal string) (*pass, error) {
	if u.closed.Load() {
		return nil, ErrClosed
	}
	got := u.asks.DoChan(principal, func() (any, error) { return u.ask(principal) })
	select {
	case r := <-got:
		return r.Val.(*pass), r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (u *User) ask(principal string) (p *pass, err error) {
	defer func() {
		if trouble := recover(); trouble != nil { // the library cuts what is encrypted without a look at its size
			err = errors.New("the key distribution center's answer cannot be read")
		}
	}()
	if o := u.current.Load(); !u.stale(o) {
		if ticket, key, ok := o.client.GetCachedTicket(principal); ok {
			return &pass{o.name, o.realm, ticket, key}, nil
		}
	}
	u.turn.Lock()
	defer func() {
		u.turn.Unlock()
		if u.closed.Load() {
			u.Close()
		}
	}()
	if u.closed.Load() {
		return nil, ErrClosed
	}
	return u.readAnew().ask(principal)
}

// ask gets a ticket from the library.
func (o *opened) ask(principal string) (*pass, error) {
	ticket, key, err := o.client.GetServiceTicket(principal)
	// Tickets that could have been renewed while the key distribution center was away cannot be any more once they have ended,
	// which the library tries until it is too late to renew them at all.
	if err != nil && o.client.AffirmLogin() == nil {
		ticket, key, err = o.client.GetServiceTicket(principal)
	}
	return &pass{o.name, o.realm, ticket, key}, err
}

// ErrClosed is that a user was closed.
var ErrClosed = errors.New("nobody logs in as this user any more")

// readAnew gives the user as of the file's present edition. Where that cannot be read, as in the middle of a change, it is the one
// before.
func (u *User) readAnew() *opened {
	before := u.current.Load()
	if !u.stale(before) {
		return before
	}
	now, err := u.reopen()
	if err != nil {
		return before
	}
	before.client.Destroy()
	return now
}

// Start begins a login at a service of a host. The function that it gives takes the server's next message, none at first, and
// returns the answer to it; nil: there is none, the login is done.
func (u *User) Start(ctx context.Context, service, host string) (func(message []byte) ([]byte, error), error) {
	principal := service + "/" + principalHost(ctx, net.DefaultResolver, host)
	p, err := u.passFor(ctx, principal)
	if err != nil {
		return nil, fmt.Errorf("get a ticket for %s as %s: %w", principal, u.name, err)
	}
	token, sequence, err := p.request()
	if err != nil {
		return nil, err
	}
	step := 0
	return func(message []byte) ([]byte, error) {
		step++
		switch step {
		case 1:
			return token, nil
		case 2:
			return choose(message, p.key, sequence)
		}
		return nil, nil
	}, nil
}

// request makes the message that shows a ticket, and tells from where its sequence numbers count. The server need not prove who
// it is in an answer of its own: its offer does.
func (p *pass) request() (token []byte, sequence uint64, err error) {
	proof, err := types.NewAuthenticator(p.realm, p.name)
	if err != nil {
		return nil, 0, err
	}
	proof.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: integrityWanted}
	request, err := messages.NewAPReq(p.ticket, p.key, proof)
	if err != nil {
		return nil, 0, err
	}
	body, err := request.Marshal()
	if err != nil {
		return nil, 0, err
	}
	token, err = frame(kindRequest, body)
	return token, uint64(proof.SeqNumber), err
}

// integrityWanted is the checksum of an authenticator for GSS-API (RFC 4121, section 4.1.1): without channel bindings, with the
// flag for integrity.
var integrityWanted = append(binary.LittleEndian.AppendUint32(nil, 16), append(make([]byte, 16), gssapi.ContextFlagInteg, 0, 0, 0)...)

// choose answers the server's offer of security layers. Only who could read the ticket can have protected it.
func choose(offer []byte, key types.EncryptionKey, sequence uint64) ([]byte, error) {
	layers, err := unwrap(offer, key, true)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the server's offer: %w", err)
	case len(layers) != layerMessage || layers[0]&noLayer == 0:
		return nil, errors.New("the server insists on a security layer, which there is none of here")
	}
	return wrap([]byte{noLayer, 0, 0, largestBuffer}, key, false, sequence)
}

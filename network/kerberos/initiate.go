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
	"time"

	"barnabas/internal/edition"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"golang.org/x/sync/singleflight"
)

// User is the identity that a program logs in as. Its file is read again when it has changed. Safe for concurrent use.
type User struct {
	name   string // NAME[/HOST]@REALM
	file   string // keytab or ticket cache
	open   func() (*loadedUser, error)
	failed func(error)        // called when a ticket that is still valid could not be replaced; nil: not reported
	asks   singleflight.Group // requests a ticket for a service once for all callers that wait

	turn    sync.Mutex // held while requesting a ticket or changing current: the library's clients are not safe for concurrent use
	current atomic.Pointer[loadedUser]
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
}

func newUser(file string, failed func(error), open func() (*loadedUser, error)) (*User, error) {
	u := &User{file: file, open: open, failed: failed}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	o, err := u.reopen()
	if err != nil {
		return nil, err
	}
	u.name = o.name.PrincipalNameString() + "@" + o.realm
	return u, nil
}

// reopen reads the file.
func (u *User) reopen() (*loadedUser, error) {
	now := edition.Of(u.file)
	o, err := u.open()
	if err != nil {
		return nil, err
	}
	o.edition = now
	u.current.Store(o)
	return o, nil
}

// OpenUser opens the user that the options of Java's login module name: one whose keys are in a keytab, or who has used
// kinit. failed is called when a ticket that is still valid could not be replaced by a newer one; may be nil.
func OpenUser(configuration Source, options map[string]string, failed func(error)) (*User, error) {
	truth := func(name string) bool { return strings.EqualFold(options[name], "true") }
	switch {
	case truth("useKeyTab") && options["keyTab"] != "" && options["principal"] != "":
		return OpenKeytab(configuration, options["keyTab"], options["principal"], failed)
	case truth("useTicketCache"):
		return openCache(configuration, cmp.Or(options["ticketCache"], os.Getenv("KRB5CCNAME"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())), failed)
	}
	return nil, errors.New("its options must be useKeyTab=true, keyTab and principal, or useTicketCache=true")
}

// OpenKeytab opens a user whose keys are in a keytab: NAME[/HOST][@REALM].
func OpenKeytab(configuration Source, file, principal string, failed func(error)) (*User, error) {
	c, err := readConfiguration(configuration)
	if err != nil {
		return nil, err
	}
	file = path(file)
	name, realm, found := strings.Cut(principal, "@")
	if !found {
		realm = c.Realm()
	}
	return newUser(file, failed, func() (*loadedUser, error) {
		keys, err := read(file, keytab.Load)
		if err != nil {
			return nil, err
		}
		return loadUser(client.NewWithKeytab(name, realm, keys, c.config, client.DisablePAFXFAST(true))), nil
	})
}

// openCache opens the user whose tickets kinit has stored in a file. They are renewed as long as possible; the file is
// not changed.
func openCache(configuration Source, file string, failed func(error)) (*User, error) {
	c, err := readConfiguration(configuration)
	if err != nil {
		return nil, err
	}
	file = path(file)
	u, err := newUser(file, failed, func() (*loadedUser, error) {
		cache, err := read(file, credentials.LoadCCache)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		o, err := loadCache(cache, c.config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return o, nil
	})
	if err != nil {
		return nil, err
	}
	go u.keepRenewed()
	return u, nil
}

// Close ends the renewal of tickets. It does not wait for a request to a key distribution center.
func (u *User) Close() { u.cancel() }

// Name returns the principal.
func (u *User) Name() string { return u.name }

// ErrClosed reports that a user has been closed.
var ErrClosed = errors.New("this login is no longer in use")

// credentialFor returns a ticket. If one is still valid, it is returned while a new one is requested in the background,
// so that nobody waits for a key distribution center that may be down. The library's requests take as long as they
// like; ctx ends the wait for them.
func (u *User) credentialFor(ctx context.Context, service string) (*credential, error) {
	if u.ctx.Err() != nil {
		return nil, ErrClosed
	}
	held, now := u.held(service), time.Now()
	if held.fresh(now) {
		return held, nil
	}
	got := u.asks.DoChan(service, func() (any, error) { return u.replace(service, held) })
	if held.good(now) {
		return held, nil
	}
	select {
	case r := <-got:
		if r.Err != nil {
			return nil, u.asking(service, r.Err)
		}
		return r.Val.(*credential), nil
	case <-ctx.Done():
		return nil, u.asking(service, context.Cause(ctx))
	}
}

// replace gets a ticket to replace the held one, unless another goroutine has done so since that was looked up.
func (u *User) replace(service string, held *credential) (*credential, error) {
	if newer := u.held(service); newer.fresh(time.Now()) {
		return newer, nil
	}
	p, err := u.ask(service)
	if err != nil && held.good(time.Now()) && u.failed != nil && u.ctx.Err() == nil {
		u.failed(u.asking(service, err))
	}
	return p, err
}

func (u *User) asking(service string, err error) error {
	return fmt.Errorf("get a ticket for %s as %s: %w", service, u.name, err)
}

// held returns the ticket for a service; nil if there is none, or the file has changed since.
func (u *User) held(service string) *credential {
	o := u.current.Load()
	if o.edition.Outdated() {
		return nil
	}
	return o.held(service)
}

func (u *User) ask(service string) (p *credential, err error) {
	defer func() {
		if trouble := recover(); trouble != nil { // the library slices ciphertext without checking its size
			err = errors.New("the key distribution center's answer cannot be read")
		}
	}()
	u.turn.Lock()
	defer u.turn.Unlock()
	if u.ctx.Err() != nil {
		return nil, ErrClosed
	}
	return u.readAnew().ask(service)
}

// readAnew returns the user for the file's current edition. If that cannot be read, for example in the middle of a
// change, it returns the previous one.
func (u *User) readAnew() *loadedUser {
	before := u.current.Load()
	if !before.edition.Outdated() {
		return before
	}
	if now, err := u.reopen(); err == nil {
		return now
	}
	return before
}

// renewalInterval is how often the ticket-granting ticket is checked for a user without keys to get another one.
const renewalInterval = time.Minute

func (u *User) keepRenewed() {
	tick := time.NewTicker(renewalInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			u.renew()
		case <-u.ctx.Done():
			return
		}
	}
}

// renew renews it when it will expire soon, as Apache Kafka's programs let kinit do.
func (u *User) renew() {
	service, now := u.current.Load().home(), time.Now()
	if held := u.held(service); held.good(now) && held.renewable(now) && !held.fresh(now) {
		_, _ = u.credentialFor(u.ctx, service) // does not wait; failures are reported to failed
	}
}

// Start begins a login to a service on a host. The returned function takes the server's next message (nil at first) and
// returns the answer to it; nil when there is none, since the login is complete.
func (u *User) Start(ctx context.Context, service, host string) (func(message []byte) ([]byte, error), error) {
	principal := service + "/" + principalHost(ctx, net.DefaultResolver, host)
	p, err := u.credentialFor(ctx, principal)
	if err != nil {
		return nil, err
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

// request returns the message that presents a ticket, and the initial sequence number. The server does not have to
// authenticate itself in a separate answer: its offer does that.
func (p *credential) request() (token []byte, sequence uint64, err error) {
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

// integrityWanted is the checksum field of an authenticator for GSS-API (RFC 4121, section 4.1.1): without channel
// bindings, with the flag for integrity.
var integrityWanted = append(binary.LittleEndian.AppendUint32(nil, 16), append(make([]byte, 16), gssapi.ContextFlagInteg, 0, 0, 0)...)

// choose answers the server's offer of security layers. Only a server that could decrypt the ticket can have protected
// the offer.
func choose(offer []byte, key types.EncryptionKey, sequence uint64) ([]byte, error) {
	layers, err := unwrap(offer, key, true)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the server's offer: %w", err)
	case len(layers) != layerMessage || layers[0]&noLayer == 0:
		return nil, errors.New("the server insists on a security layer, which is not supported")
	}
	return wrap([]byte{noLayer, 0, 0, largestBuffer}, key, false, sequence)
}

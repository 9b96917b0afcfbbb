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

// User is who a program logs in as. What its tickets are got with is read anew when its file has changed. Safe for concurrent use.
type User struct {
	name   string // NAME[/HOST]@REALM
	file   string // of keys, or of tickets
	open   func() (*opened, error)
	failed func(error)        // hears why a ticket that is good yet could not be replaced; nil: nobody does
	asks   singleflight.Group // a ticket for one service is asked for once, for all who wait

	turn    sync.Mutex // held by who asks for a ticket or changes current: the library's clients do not bear two at once
	current atomic.Pointer[opened]
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
}

func newUser(file string, failed func(error), open func() (*opened, error)) (*User, error) {
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
func (u *User) reopen() (*opened, error) {
	now := edition.Of(u.file)
	o, err := u.open()
	if err != nil {
		return nil, err
	}
	o.edition = now
	u.current.Store(o)
	return o, nil
}

// OpenUser is the user that the options of Java's login module name: one whose keys are in a keytab, or who has used kinit. failed
// hears why a ticket that is good yet could not be replaced by a newer one; nil: nobody does.
func OpenUser(configuration string, options map[string]string, failed func(error)) (*User, error) {
	truth := func(name string) bool { return strings.EqualFold(options[name], "true") }
	switch {
	case truth("useKeyTab") && options["keyTab"] != "" && options["principal"] != "":
		return OpenKeytab(configuration, options["keyTab"], options["principal"], failed)
	case truth("useTicketCache"):
		return OpenCache(configuration, cmp.Or(options["ticketCache"], strings.TrimPrefix(os.Getenv("KRB5CCNAME"), "FILE:"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())), failed)
	}
	return nil, errors.New("its options must be useKeyTab=true, keyTab and principal, or useTicketCache=true")
}

// OpenKeytab is a user whose keys are in a keytab: NAME[/HOST][@REALM].
func OpenKeytab(configuration, file, principal string, failed func(error)) (*User, error) {
	c, err := ReadConfiguration(configuration)
	if err != nil {
		return nil, err
	}
	name, realm, found := strings.Cut(principal, "@")
	if !found {
		realm = c.Realm()
	}
	return newUser(file, failed, func() (*opened, error) {
		keys, err := read(file, keytab.Load)
		if err != nil {
			return nil, err
		}
		return openedBy(client.NewWithKeytab(name, realm, keys, c.config, client.DisablePAFXFAST(true))), nil
	})
}

// OpenCache is the user whose tickets kinit has put into a file. They are renewed while they can be; the file is left as it is.
func OpenCache(configuration, file string, failed func(error)) (*User, error) {
	c, err := ReadConfiguration(configuration)
	if err != nil {
		return nil, err
	}
	u, err := newUser(file, failed, func() (*opened, error) {
		cache, err := read(file, credentials.LoadCCache)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		o, err := openedCache(cache, c.config)
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

// Close ends the renewal of tickets. It does not wait for a key distribution center that is being asked.
func (u *User) Close() { u.cancel() }

// Name is the principal.
func (u *User) Name() string { return u.name }

// ErrClosed is that a user was closed.
var ErrClosed = errors.New("nobody logs in as this user any more")

// passFor gets a ticket. One that is good yet is shown while another one is asked for: nobody waits for a key distribution center
// that may be down. The library asks those for as long as it likes; ctx ends the wait for it.
func (u *User) passFor(ctx context.Context, service string) (*pass, error) {
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
		return r.Val.(*pass), nil
	case <-ctx.Done():
		return nil, u.asking(service, context.Cause(ctx))
	}
}

// replace gets a ticket in the place of the one that was held, unless somebody has got one since that was looked up.
func (u *User) replace(service string, held *pass) (*pass, error) {
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

// held is the ticket for a service that there is; nil: none, or it is of a file that has changed since.
func (u *User) held(service string) *pass {
	o := u.current.Load()
	if o.edition.Over() {
		return nil
	}
	return o.held(service)
}

func (u *User) ask(service string) (p *pass, err error) {
	defer func() {
		if trouble := recover(); trouble != nil { // the library cuts what is encrypted without a look at its size
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

// readAnew gives the user as of the file's present edition. Where that cannot be read, as in the middle of a change, it is the one
// before.
func (u *User) readAnew() *opened {
	before := u.current.Load()
	if !before.edition.Over() {
		return before
	}
	if now, err := u.reopen(); err == nil {
		return now
	}
	return before
}

// renewalInterval is how often the ticket that others are got with is looked at, of a user who has no keys to get another one with.
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

// renew renews it when it will end soon, as Apache Kafka's programs have kinit do it.
func (u *User) renew() {
	service, now := u.current.Load().home(), time.Now()
	if held := u.held(service); held.good(now) && held.renewable(now) && !held.fresh(now) {
		_, _ = u.passFor(u.ctx, service) // which waits for nothing, and failed hears of trouble
	}
}

// Start begins a login at a service of a host. The function that it gives takes the server's next message, none at first, and
// returns the answer to it; nil: there is none, the login is done.
func (u *User) Start(ctx context.Context, service, host string) (func(message []byte) ([]byte, error), error) {
	principal := service + "/" + principalHost(ctx, net.DefaultResolver, host)
	p, err := u.passFor(ctx, principal)
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

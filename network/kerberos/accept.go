package kerberos

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"barnabas/internal/edition"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Service is a principal that clients log in to, whose keys are in a keytab. Safe for concurrent use.
type Service struct {
	file      string
	principal types.PrincipalName
	skew      time.Duration // maximum clock difference between clients and this server
	shown     *ReplayCache

	keys atomic.Pointer[editionKeys]
}

// editionKeys are the keys of one edition of the file.
type editionKeys struct {
	edition edition.Edition
	keys    *keytab.Keytab
}

// Listener says what a broker's listener needs to accept logins.
type Listener struct {
	Configuration     Source
	Keytab, Principal string
	Rules             []string // sasl.kerberos.principal.to.local.rules
}

// OpenListener reads the configuration, the rules and the keys of a listener. Its errors say which of them is wrong.
func OpenListener(l Listener, replays *ReplayCache) (*Service, *Rules, error) {
	c, err := readConfiguration(l.Configuration)
	if err != nil {
		return nil, nil, fmt.Errorf("java.security.krb5.conf: %w", err)
	}
	rules, err := parseRules(c.Realm(), l.Rules)
	if err != nil {
		return nil, nil, fmt.Errorf("sasl.kerberos.principal.to.local.rules: %w", err)
	}
	service, err := openService(c, l.Keytab, l.Principal, replays)
	if err != nil {
		return nil, nil, fmt.Errorf("its keyTab %s: %w", l.Keytab, err)
	}
	return service, rules, nil
}

// openService reads the keys of a principal, NAME/HOST[@REALM]. They are read again when their file has changed, since
// after a change of keys clients present tickets for the new ones. Authenticators are remembered in shown, which
// services share.
func openService(c *Configuration, file, principal string, shown *ReplayCache) (*Service, error) {
	file = path(file)
	now := edition.Of(file)
	keys, err := read(file, keytab.Load)
	if err != nil {
		return nil, err
	}
	name, _ := types.ParseSPNString(principal)
	for _, e := range keys.Entries {
		if known := e.Principal.String(); known == principal || strings.HasPrefix(known, principal+"@") {
			s := &Service{file: file, principal: name, skew: c.skew(), shown: shown}
			s.keys.Store(&editionKeys{now, keys})
			return s, nil
		}
	}
	return nil, fmt.Errorf("it has no key for %s", principal)
}

// current returns the current keys. If they cannot be read, for example in the middle of a change, the previous ones
// remain.
func (s *Service) current() *keytab.Keytab {
	had := s.keys.Load()
	if !had.edition.Outdated() {
		return had.keys
	}
	now := edition.Of(s.file)
	keys, err := read(s.file, keytab.Load)
	if err != nil || len(keys.Entries) == 0 {
		return had.keys
	}
	s.keys.Store(&editionKeys{now, keys})
	return keys
}

// The security layers that a server offers at the end of a login, which are none here, and the length of that message
// (RFC 4752, section 3.1).
const (
	noLayer       = 1
	layerMessage  = 4
	largestBuffer = 0
)

// Acceptor is the server's side of one login (RFC 4752). It is used by one goroutine at a time.
type Acceptor struct {
	service   *Service
	step      func(*Acceptor, []byte) ([]byte, error)
	key       types.EncryptionKey // protects the last two messages
	sequence  uint64              // of this side's next message
	principal string
	proved    bool
}

// Start begins a login.
func (s *Service) Start() *Acceptor { return &Acceptor{service: s, step: (*Acceptor).ticket} }

// Step takes the client's next message and returns the answer to it.
//
// The library trusts lengths within messages, of ciphertext for example: a message on which it panics must cost this
// login, not the broker. Nothing but the login's own state is changed here.
func (a *Acceptor) Step(message []byte) (answer []byte, err error) {
	if a.step == nil {
		return nil, errors.New("the login is already complete")
	}
	step := a.step
	a.step = nil
	defer func() {
		if trouble := recover(); trouble != nil {
			a.step, answer, err = nil, nil, fmt.Errorf("the client's message cannot be read: %v", trouble)
		}
	}()
	return step(a, message)
}

// Principal returns who is logging in, as NAME[/HOST]@REALM, and whether that has been proved.
func (a *Acceptor) Principal() (principal string, proved bool) { return a.principal, a.proved }

// ticket handles the client's ticket.
func (a *Acceptor) ticket(message []byte) ([]byte, error) {
	kind, body, err := unframe(message)
	if err != nil {
		return nil, fmt.Errorf("the client's token: %w", err)
	}
	if string(kind) != string(kindRequest) {
		return nil, errors.New("the client's token is not a request (AP-REQ)")
	}
	var request messages.APReq
	if err := request.Unmarshal(body); err != nil {
		return nil, errors.New("the client's request (AP-REQ) cannot be read")
	}
	keys := a.service.current()
	anyVersion(&request.Ticket.EncPart, keys, a.service.principal, request.Ticket.Realm)
	if ok, err := request.Verify(keys, a.service.skew, types.HostAddress{}, &a.service.principal); err != nil || !ok {
		return nil, fmt.Errorf("the client's ticket is not good for %s: %w", a.service.principal.PrincipalNameString(), err)
	}
	owner := request.Ticket.DecryptedEncPart // as certified by the KDC: the library compares the authenticator's name with it, but not the realm
	if request.Authenticator.CRealm != owner.CRealm {
		return nil, errors.New("the client's ticket is from another realm than the client claims")
	}
	if !a.service.shown.first(request.EncryptedAuthenticator.Cipher, time.Now(), a.service.skew) {
		return nil, errors.New("the client's request was seen before: it is a replay")
	}
	a.principal = owner.CName.PrincipalNameString() + "@" + owner.CRealm
	a.key = request.Ticket.DecryptedEncPart.Key
	if subkey := request.Authenticator.SubKey; len(subkey.KeyValue) > 0 {
		a.key = subkey
	}
	if !types.IsFlagSet(&request.APOptions, flags.APOptionMutualRequired) {
		a.sequence = uint64(request.Authenticator.SeqNumber) // both sides count from this number
		return a.offer()
	}
	a.step = (*Acceptor).acknowledged
	return reply(request.Authenticator, request.Ticket.DecryptedEncPart.Key)
}

// anyVersion lets something be decrypted with an owner's newest key if the keytab lacks the version that it names, as
// Java does: keytabs made by hand often have another version than the KDC. A wrong key decrypts nothing.
func anyVersion(sealed *types.EncryptedData, keys *keytab.Keytab, owner types.PrincipalName, realm string) {
	if _, _, err := keys.GetEncryptionKey(owner, realm, sealed.KVNO, sealed.EType); err != nil {
		const newest = 0
		sealed.KVNO = newest
	}
}

// acknowledged handles the empty message by which the client confirms that it has authenticated the server.
func (a *Acceptor) acknowledged(message []byte) ([]byte, error) {
	if len(message) > 0 {
		return nil, errors.New("the client sent more where it should have waited")
	}
	return a.offer()
}

// offer returns the offer of security layers.
func (a *Acceptor) offer() ([]byte, error) {
	a.step = (*Acceptor).choice
	return wrap([]byte{noLayer, 0, 0, largestBuffer}, a.key, true, a.sequence)
}

// choice handles the client's choice of a security layer, and of the name to act as. That the client could protect this
// message proves that the ticket is its own.
func (a *Acceptor) choice(message []byte) ([]byte, error) {
	chosen, err := unwrap(message, a.key, false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the client's last message: %w", err)
	case len(chosen) < layerMessage || chosen[0] != noLayer:
		return nil, errors.New("the client chooses a security layer that is not offered")
	}
	if as := string(chosen[layerMessage:]); as != "" && !a.may(as) {
		return nil, fmt.Errorf("%s must not act as %s", a.principal, as)
	}
	a.proved = true
	return []byte{}, nil
}

// may reports whether a name is the principal's own, with or without its realm.
func (a *Acceptor) may(as string) bool {
	return a.principal == as || strings.HasPrefix(a.principal, as+"@")
}

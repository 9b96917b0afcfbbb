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

// Service is who clients log in to: a principal, whose keys are in a keytab. Safe for concurrent use.
type Service struct {
	file      string
	principal types.PrincipalName
	skew      time.Duration // how far apart the clocks of clients and of this server may be
	shown     *Shown

	keys atomic.Pointer[editionKeys]
}

// editionKeys are the keys of one edition of a file.
type editionKeys struct {
	edition edition.Edition
	keys    *keytab.Keytab
}

// OpenService reads the keys of a principal, NAME/HOST[@REALM]. They are read anew when their file has changed: after a change
// of keys, clients show tickets for the new ones. What clients show is remembered in shown, which services share.
func OpenService(c *Configuration, file, principal string, shown *Shown) (*Service, error) {
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
	return nil, fmt.Errorf("there is no key of %s in it", principal)
}

// current are the keys as they are now. Where they cannot be read, as in the middle of a change, those before stay.
func (s *Service) current() *keytab.Keytab {
	had := s.keys.Load()
	if !had.edition.Over() {
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

// The security layers that a server offers behind a login, of which there are none here, and the length of that message (RFC 4752,
// section 3.1).
const (
	noLayer       = 1
	layerMessage  = 4
	largestBuffer = 0
)

// Acceptor is one login under way, the server's side (RFC 4752). It is used by one goroutine at a time.
type Acceptor struct {
	service   *Service
	step      func(*Acceptor, []byte) ([]byte, error)
	key       types.EncryptionKey // protects the last two messages
	sequence  uint64              // of the next message of ours
	principal string
	proved    bool
}

// Start begins a login.
func (s *Service) Start() *Acceptor { return &Acceptor{service: s, step: (*Acceptor).ticket} }

// Step takes the client's next message and returns the answer to it.
//
// The library trusts lengths within messages, of ciphertext for example: one that it trips over costs this login and not the
// broker. What is done here changes nothing but the login.
func (a *Acceptor) Step(message []byte) (answer []byte, err error) {
	if a.step == nil {
		return nil, errors.New("the login is over")
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

// Principal is who logs in, as NAME[/HOST]@REALM, and whether that has been proved.
func (a *Acceptor) Principal() (principal string, proved bool) { return a.principal, a.proved }

// ticket takes the client's ticket.
func (a *Acceptor) ticket(message []byte) ([]byte, error) {
	kind, body, err := unframe(message)
	if err != nil {
		return nil, fmt.Errorf("the client's token: %w", err)
	}
	if string(kind) != string(kindRequest) {
		return nil, errors.New("the client's token is no request (AP-REQ)")
	}
	var request messages.APReq
	if err := request.Unmarshal(body); err != nil {
		return nil, errors.New("the client's request (AP-REQ) cannot be read")
	}
	keys := a.service.current()
	anyVersion(&request.Ticket, keys, a.service.principal)
	if ok, err := request.Verify(keys, a.service.skew, types.HostAddress{}, &a.service.principal); err != nil || !ok {
		return nil, fmt.Errorf("the client's ticket is not good for %s: %w", a.service.principal.PrincipalNameString(), err)
	}
	owner := request.Ticket.DecryptedEncPart // what the KDC says: the library compares the name in the authenticator with it, not the realm
	if request.Authenticator.CRealm != owner.CRealm {
		return nil, errors.New("the client's ticket is of another realm than the client says")
	}
	if !a.service.shown.first(request.EncryptedAuthenticator.Cipher, time.Now(), a.service.skew) {
		return nil, errors.New("the client shows what was shown before: it is a replay")
	}
	a.principal = owner.CName.PrincipalNameString() + "@" + owner.CRealm
	a.key = request.Ticket.DecryptedEncPart.Key
	if subkey := request.Authenticator.SubKey; len(subkey.KeyValue) > 0 {
		a.key = subkey
	}
	if !types.IsFlagSet(&request.APOptions, flags.APOptionMutualRequired) {
		a.sequence = uint64(request.Authenticator.SeqNumber) // both sides count from there
		return a.offer()
	}
	a.step = (*Acceptor).acknowledged
	return reply(request.Authenticator, request.Ticket.DecryptedEncPart.Key)
}

// anyVersion lets a ticket be read with the newest key where there is none of the version that it names, as Java does: keytabs
// that were made by hand often have another one than the KDC. A wrong key reads nothing.
func anyVersion(t *messages.Ticket, keys *keytab.Keytab, service types.PrincipalName) {
	if _, _, err := keys.GetEncryptionKey(service, t.Realm, t.EncPart.KVNO, t.EncPart.EType); err != nil {
		const newest = 0
		t.EncPart.KVNO = newest
	}
}

// acknowledged takes the empty message by which the client says that it knows us.
func (a *Acceptor) acknowledged(message []byte) ([]byte, error) {
	if len(message) > 0 {
		return nil, errors.New("the client goes on where it should wait")
	}
	return a.offer()
}

// offer says which security layers there are.
func (a *Acceptor) offer() ([]byte, error) {
	a.step = (*Acceptor).choice
	return wrap([]byte{noLayer, 0, 0, largestBuffer}, a.key, true, a.sequence)
}

// choice takes the layer that the client chooses, and as whom it wants to act. That it could protect this proves that the ticket
// is its own.
func (a *Acceptor) choice(message []byte) ([]byte, error) {
	chosen, err := unwrap(message, a.key, false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the client's last message: %w", err)
	case len(chosen) < layerMessage || chosen[0] != noLayer:
		return nil, errors.New("the client chooses a security layer that is not offered")
	}
	if as := string(chosen[layerMessage:]); as != "" && !a.may(as) {
		return nil, fmt.Errorf("%s wants to act as %s", a.principal, as)
	}
	a.proved = true
	return []byte{}, nil
}

// may reports whether a name is the principal's own, with or without its realm.
func (a *Acceptor) may(as string) bool {
	return a.principal == as || strings.HasPrefix(a.principal, as+"@")
}

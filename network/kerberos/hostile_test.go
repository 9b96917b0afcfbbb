package kerberos

import (
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// token returns the first message of a login with the changed request.
func (o *ticketOwner) token() []byte {
	o.t.Helper()
	body, err := o.request.Marshal()
	if err != nil {
		o.t.Fatal(err)
	}
	token, err := frame(kindRequest, body)
	if err != nil {
		o.t.Fatal(err)
	}
	return token
}

// proves encodes the request anew with a changed authenticator.
func (o *ticketOwner) proves(change func(*types.Authenticator)) {
	o.t.Helper()
	proof, err := types.NewAuthenticator(realm, o.name)
	if err != nil {
		o.t.Fatal(err)
	}
	change(&proof)
	if o.request, err = messages.NewAPReq(o.ticket, o.key, proof); err != nil {
		o.t.Fatal(err)
	}
}

// TestHostileRequests: whatever can be put into a request, by anybody or by the owner of a ticket, causes no more than
// an error.
func TestHostileRequests(t *testing.T) {
	keys := keysOf(t, "secret")
	service := serviceOf(keys)
	for name, change := range map[string]func(*ticketOwner){
		"a ticket without content":         func(o *ticketOwner) { o.request.Ticket.EncPart.Cipher = nil },
		"a ticket of a byte":               func(o *ticketOwner) { o.request.Ticket.EncPart.Cipher = []byte{1} },
		"an authenticator without content": func(o *ticketOwner) { o.request.EncryptedAuthenticator.Cipher = nil },
		"a service without a name":         func(o *ticketOwner) { o.request.Ticket.SName.NameString = []string{} },
		"the realm of another":             func(o *ticketOwner) { o.proves(func(a *types.Authenticator) { a.CRealm = "OTHER" }) },
		"the name of another":              func(o *ticketOwner) { o.proves(func(a *types.Authenticator) { a.CName.NameString = []string{"bob"} }) },
		"a key of its own that is too short": func(o *ticketOwner) {
			o.proves(func(a *types.Authenticator) {
				a.SubKey = types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: []byte{1}}
			})
		},
		"a short key of DES": func(o *ticketOwner) {
			o.proves(func(a *types.Authenticator) {
				a.SubKey = types.EncryptionKey{KeyType: etypeID.DES3_CBC_SHA1_KD, KeyValue: []byte{1}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwner(t, keys, "alice", time.Hour)
			o.show(false, false)
			change(o)
			a := service.Start()
			if answer, err := a.Step(o.token()); err == nil {
				t.Errorf("answered: %x", answer)
			}
			if _, err := a.Step(nil); err == nil {
				t.Error("the login continues")
			}
		})
	}
}

// TestReplay: an eavesdropper cannot repeat a login, even with other logins in between.
func TestReplay(t *testing.T) {
	keys := keysOf(t, "secret")
	service := serviceOf(keys)
	for _, mutual := range []bool{false, true} {
		o := newOwner(t, keys, "alice", time.Hour)
		heard := o.show(mutual, false)
		if _, err := service.Start().Step(heard); err != nil {
			t.Fatal(err)
		}
		if answer, err := service.Start().Step(heard); err == nil {
			t.Errorf("a replay is answered with %x", answer)
		}
		if _, err := service.Start().Step(o.show(mutual, false)); err != nil { // the same ticket with a new authenticator
			t.Error(err)
		}
	}
}

// TestReplayCacheForgets: each authenticator is remembered for as long as it is valid, and none is kept forever.
func TestReplayCacheForgets(t *testing.T) {
	const skew = 5 * time.Minute
	const shownFor = 2 * skew
	var s ReplayCache
	at := time.Unix(1_800_000_000, 0)
	for i := range 100 {
		name := []byte{byte(i)}
		if !s.first(name, at, skew) {
			t.Fatalf("%d is known before it was presented", i)
		}
		at = at.Add(shownFor - time.Second)
		if s.first(name, at, skew) {
			t.Fatalf("%d is forgotten while it is valid", i)
		}
		if kept := len(s.mu.now) + len(s.mu.before); kept > 4 {
			t.Fatalf("%d are remembered", kept)
		}
	}
	if at = at.Add(2 * shownFor); !s.first([]byte{99}, at, skew) {
		t.Error("it is remembered forever")
	}
}

package kerberos

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// otherRealm is another realm that fakeKDC serves.
const otherRealm = "OTHER.COM"

// fakeKDC issues tickets for any service to users that have a key or a ticket of this KDC.
type fakeKDC struct {
	t     testing.TB
	addr  string
	keys  *keytab.Keytab // of all services
	users *keytab.Keytab // the user's: keysOf(t, "secret"), and some of other encryption types

	mu       sync.Mutex       // guards the fields below
	life     [2]time.Duration // beginning and end of the lifetime of tickets, relative to now
	referred map[string]bool  // services that are in otherRealm
	proof    int32            // requires a timestamp encrypted with a key of this type before it issues a ticket-granting ticket; 0: does not
	version  int              // version number of the user's key
	forged   bool             // the part encrypted for the client is truncated
	asked    []string         // requested services, with "again" before those whose tickets are renewed
	canned   []byte           // response to every request; nil: the regular one
}

func startFakeKDC(t testing.TB) *fakeKDC {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	k := &fakeKDC{t: t, addr: l.Addr().String(), keys: keytab.New(), referred: make(map[string]bool), life: [2]time.Duration{0, time.Hour}, version: 1}
	k.users = keysOf(t, "secret")
	for _, kind := range []int32{etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128} {
		if err := k.users.AddEntry(servicePart, realm, "secret", time.Now(), 1, kind); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []string{realm, otherRealm} {
		for _, service := range []string{servicePart, "krbtgt/" + realm, "krbtgt/" + otherRealm} {
			if err := k.keys.AddEntry(service, r, "of the service", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
				t.Fatal(err)
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			k.serve(conn)
			_ = conn.Close()
		}
	}()
	return k
}

func (k *fakeKDC) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// wantAsked compares the requests since the last call.
func (k *fakeKDC) wantAsked(want ...string) {
	k.t.Helper()
	k.set(func() {
		if got := strings.Join(k.asked, " "); got != strings.Join(want, " ") {
			k.t.Errorf("requested %q, want %q", got, want)
		}
		k.asked = nil
	})
}

func (k *fakeKDC) serve(conn net.Conn) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	request := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, request); err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	answer, err := k.canned, error(nil)
	if answer == nil {
		answer, err = k.answer(request)
	}
	if err != nil {
		k.t.Errorf("the KDC: %v", err)
		return
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
}

func (k *fakeKDC) answer(request []byte) ([]byte, error) {
	var login messages.ASReq
	if err := login.Unmarshal(request); err == nil {
		user, err := k.userKey(login.ReqBody.EType)
		if err != nil {
			return nil, err
		}
		if k.proof != 0 && !proven(login.PAData, user) {
			return k.demand(login.ReqBody)
		}
		rep := messages.ASRep{}
		if rep.KDCRepFields, err = k.fields(login.ReqBody, login.ReqBody.CName, user, keyusage.AS_REP_ENCPART); err != nil {
			return nil, err
		}
		rep.MsgType = msgtype.KRB_AS_REP
		return rep.Marshal()
	}
	var asks messages.TGSReq
	if err := asks.Unmarshal(request); err != nil {
		return nil, err
	}
	var shown messages.APReq
	err := shown.Unmarshal(asks.PAData[0].PADataValue)
	if err == nil {
		err = shown.Ticket.DecryptEncPart(k.keys, &shown.Ticket.SName)
	}
	if err != nil {
		return nil, err
	}
	rep := messages.TGSRep{}
	if rep.KDCRepFields, err = k.fields(asks.ReqBody, asks.ReqBody.CName, shown.Ticket.DecryptedEncPart.Key, keyusage.TGS_REP_ENCPART_SESSION_KEY); err != nil {
		return nil, err
	}
	rep.MsgType = msgtype.KRB_TGS_REP
	return rep.Marshal()
}

// userKey returns the user's key of the first encryption type that was asked for.
func (k *fakeKDC) userKey(asked []int32) (types.EncryptionKey, error) {
	for _, kind := range asked {
		for _, e := range k.users.Entries {
			if e.Key.KeyType == kind {
				return e.Key, nil
			}
		}
	}
	return types.EncryptionKey{}, fmt.Errorf("the user has no key of the types %v", asked)
}

// proven reports whether a request contains a timestamp encrypted with a key.
func proven(shown types.PADataSequence, key types.EncryptionKey) bool {
	for _, pa := range shown {
		var sealed types.EncryptedData
		if pa.PADataType != patype.PA_ENC_TIMESTAMP || sealed.Unmarshal(pa.PADataValue) != nil {
			continue
		}
		data, err := crypto.DecryptEncPart(sealed, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP)
		var at types.PAEncTSEnc
		return err == nil && at.Unmarshal(data) == nil && time.Since(at.PATimestamp).Abs() < time.Minute
	}
	return false
}

// demand returns the error that requires pre-authentication.
func (k *fakeKDC) demand(asked messages.KDCReqBody) ([]byte, error) {
	refusal := messages.NewKRBError(asked.SName, asked.Realm, errorcode.KDC_ERR_PREAUTH_REQUIRED, "")
	refusal.EData = demanded(k.t, k.proof)
	return refusal.Marshal()
}

// demanded returns the encoded requirement of an encryption type.
func demanded(t testing.TB, kind int32) []byte {
	kinds, err := asn1.Marshal(types.ETypeInfo2{{EType: kind, Salt: "salt"}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := asn1.Marshal(types.PADataSequence{{PADataType: patype.PA_ETYPE_INFO2, PADataValue: kinds}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (k *fakeKDC) fields(asked messages.KDCReqBody, user types.PrincipalName, key types.EncryptionKey, usage uint32) (rep messages.KDCRepFields, err error) {
	name := asked.SName.PrincipalNameString()
	if types.IsFlagSet(&asked.KDCOptions, flags.Renew) {
		name = "again " + name
	}
	k.asked = append(k.asked, name)
	service := asked.SName
	if asked.Realm == realm && k.referred[service.PrincipalNameString()] {
		service = types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+otherRealm)
	}
	now := time.Now().UTC().Truncate(time.Second)
	begins, ends := now.Add(k.life[0]), now.Add(k.life[1])
	var session types.EncryptionKey
	rep.PVNO, rep.CRealm, rep.CName = 5, realm, user
	if rep.Ticket, session, err = messages.NewTicket(user, realm, service, asked.Realm, types.NewKrbFlags(), k.keys, etypeID.AES256_CTS_HMAC_SHA1_96, 1, begins, begins, ends, ends); err != nil {
		return rep, err
	}
	part := messages.EncKDCRepPart{Key: session, LastReqs: []messages.LastReq{}, Nonce: asked.Nonce, Flags: types.NewKrbFlags(), AuthTime: now, StartTime: begins, EndTime: ends,
		RenewTill: now.Add(24 * time.Hour), SRealm: asked.Realm, SName: service}
	text, err := part.Marshal()
	if err != nil {
		return rep, err
	}
	if rep.EncPart, err = crypto.GetEncryptedData(text, key, usage, k.version); k.forged {
		rep.EncPart.Cipher = rep.EncPart.Cipher[:1]
	}
	return rep, err
}

// user returns a user of this KDC, and the errors reported for tickets that could not be replaced.
func (k *fakeKDC) user() (*User, chan error) {
	k.t.Helper()
	file, heard := filepath.Join(k.t.TempDir(), "keytab"), make(chan error, 1)
	writeKeys(k.t, file, keysOf(k.t, "secret"))
	u, err := OpenKeytab(Source{File: configuration(k.t, k.addr)}, file, servicePart, func(err error) { heard <- err })
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(u.Close)
	return u, heard
}

// wantNoneOfTheLibrary checks that the library has started no goroutines, whose panics would end the program.
func wantNoneOfTheLibrary(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	if text := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(text, "created by github.com/jcmturner/") {
		t.Error(text)
	}
}

// TestTicketsAreReplaced: tickets are replaced before they expire, and remain in use meanwhile. If the KDC refuses, the
// error is reported, and the earlier ticket stays in use.
func TestTicketsAreReplaced(t *testing.T) {
	k := startFakeKDC(t)
	u, heard := k.user()
	show := func() *credential {
		t.Helper()
		p, err := u.credentialFor(t.Context(), servicePart)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := show()
	wantNoneOfTheLibrary(t)
	k.wantAsked("krbtgt/"+realm, servicePart)
	if show() != first {
		t.Error("another ticket was requested without need")
	}
	k.wantAsked()
	age := func(p *credential) { p.begins = p.begins.Add(-6 * time.Hour) }
	age(first)
	age(u.current.Load().held(granting(realm)))
	k.set(func() { k.forged = true })
	if show() != first {
		t.Error("the valid ticket is not used")
	}
	if err := <-heard; !strings.Contains(err.Error(), "get a ticket for "+servicePart) {
		t.Error(err)
	}
	k.set(func() { k.forged, k.asked = false, nil })
	second := first
	for second == first {
		second = show()
	}
	if p, err := u.replace(servicePart, first); err != nil || p != second { // as a caller that read it while the first one was current
		t.Errorf("%+v, %v instead of the present ticket", p, err)
	}
	k.wantAsked("krbtgt/"+realm, servicePart)
	wantNoneOfTheLibrary(t)
}

// TestTicketThatHasEnded: an expired ticket is not used.
func TestTicketThatHasEnded(t *testing.T) {
	k := startFakeKDC(t)
	u, _ := k.user()
	k.set(func() { k.life = [2]time.Duration{-time.Hour, -time.Minute} })
	for range 2 {
		if _, err := u.credentialFor(t.Context(), servicePart); err != nil {
			t.Fatal(err)
		}
		k.wantAsked("krbtgt/"+realm, servicePart)
	}
	k.set(func() { k.forged = true })
	if _, err := u.credentialFor(t.Context(), servicePart); err == nil || !strings.Contains(err.Error(), "as "+servicePart+"@"+realm) {
		t.Errorf("%v", err)
	}
}

// TestReferral: the KDC refers requests for a service of another realm to that realm.
func TestReferral(t *testing.T) {
	k := startFakeKDC(t)
	u, _ := k.user()
	u.current.Load().client.Config.Realms[0].KDC = []string{k.addr}
	other := u.current.Load().client.Config.Realms[0]
	other.Realm = otherRealm
	u.current.Load().client.Config.Realms = append(u.current.Load().client.Config.Realms, other)
	k.set(func() { k.referred[servicePart] = true })
	p, err := u.credentialFor(t.Context(), servicePart)
	if err != nil {
		t.Fatal(err)
	}
	if p.ticket.Realm != otherRealm {
		t.Errorf("the ticket belongs to %s", p.ticket.Realm)
	}
	k.wantAsked("krbtgt/"+realm, servicePart, servicePart)
	wantNoneOfTheLibrary(t)
	k.set(func() { k.forged = true })
	if p, err := u.ask(servicePart); err == nil {
		t.Errorf("an invalid referral is followed: %+v", p)
	}
}

// TestRealmOfHosts: a ticket is requested from the realm to which krb5.conf maps the host's domain.
func TestRealmOfHosts(t *testing.T) {
	k := startFakeKDC(t)
	u, _ := k.user()
	c := u.current.Load().client.Config
	other := c.Realms[0]
	other.Realm = otherRealm
	c.Realms = append(c.Realms, other)
	c.DomainRealm["host"] = otherRealm
	for range 2 {
		if _, err := u.ask(servicePart); err != nil {
			t.Fatal(err)
		}
	}
	k.wantAsked("krbtgt/"+realm, "krbtgt/"+otherRealm, servicePart, servicePart)
	wantNoneOfTheLibrary(t)
}

// TestTicketsOfKinit: without keys to obtain new tickets, tickets from kinit are renewed for as long as possible.
func TestTicketsOfKinit(t *testing.T) {
	k := startFakeKDC(t)
	of, _ := k.user()
	if _, err := of.ask(granting(realm)); err != nil {
		t.Fatal(err)
	}
	k.wantAsked("krbtgt/" + realm)
	got := of.current.Load().held(granting(realm))
	ticket, err := got.ticket.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	cache := new(credentials.CCache)
	cache.DefaultPrincipal.Realm, cache.DefaultPrincipal.PrincipalName = realm, got.name
	entry := &credentials.Credential{Key: got.key, Ticket: ticket, StartTime: got.begins, EndTime: got.ends, RenewTill: got.last}
	entry.Server.Realm, entry.Server.PrincipalName = realm, got.ticket.SName
	cache.Credentials = append(cache.Credentials, entry)
	heard := make(chan error, 1)
	u, err := newUser("", func(err error) { heard <- err }, func() (*loadedUser, error) { return loadCache(cache, of.current.Load().client.Config) })
	if err != nil {
		t.Fatal(err)
	}
	held := func() *credential { return u.current.Load().held(granting(realm)) }

	first := held()
	u.renew()
	k.wantAsked()
	first.begins = first.begins.Add(-6 * time.Hour)
	k.set(func() { k.forged = true })
	u.renew()
	if err := <-heard; err == nil || held() != first {
		t.Error("an invalid response replaces a ticket")
	}
	k.set(func() { k.forged, k.asked = false, nil })
	if _, err := u.ask(granting(realm)); err != nil || held() == first {
		t.Errorf("the ticket is not renewed: %v", err)
	}
	k.wantAsked("again krbtgt/" + realm)
	held().last = held().ends
	if _, err := u.ask(servicePart); err != nil {
		t.Errorf("a ticket that cannot be renewed is not used: %v", err)
	}
	held().ends = time.Now().Add(-time.Second)
	if _, err := u.ask("kafka/other"); err == nil || !strings.Contains(err.Error(), "kinit") {
		t.Errorf("%v", err)
	}
	wantNoneOfTheLibrary(t)
}

// TestPreAuthentication: a timestamp encrypted with the user's key is sent to a KDC that requires it.
func TestPreAuthentication(t *testing.T) {
	k := startFakeKDC(t)
	u, _ := k.user()
	k.set(func() { k.proof = etypeID.AES256_CTS_HMAC_SHA1_96 })
	if _, err := u.credentialFor(t.Context(), servicePart); err != nil {
		t.Error(err)
	}
	k.set(func() { k.proof = etypeID.DES3_CBC_SHA1_KD }) // for which there is no key
	other, _ := k.user()
	if _, err := other.credentialFor(t.Context(), servicePart); err == nil || !strings.Contains(err.Error(), "get a ticket for "+servicePart) {
		t.Error(err)
	}
	wantNoneOfTheLibrary(t)
}

// TestKeytabOfOneType: the keytab has only one of the keys that the KDC knows, of an encryption type that the KDC would
// not choose.
func TestKeytabOfOneType(t *testing.T) {
	k := startFakeKDC(t)
	file := filepath.Join(t.TempDir(), "keytab")
	for _, e := range k.users.Entries[1:] {
		keys := keytab.New()
		keys.Entries = append(keys.Entries, e)
		writeKeys(t, file, keys)
		for _, proof := range []int32{0, e.Key.KeyType} {
			k.set(func() { k.proof = proof })
			u, err := OpenKeytab(Source{File: configuration(t, k.addr)}, file, servicePart, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(u.Close)
			if _, err := u.credentialFor(t.Context(), servicePart); err != nil {
				t.Errorf("key of type %d, pre-authentication %d: %v", e.Key.KeyType, proof, err)
			}
		}
	}
	strange, err := OpenKeytab(Source{File: configuration(t, k.addr)}, file, "kafka/elsewhere.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(strange.Close)
	if _, err := strange.credentialFor(t.Context(), servicePart); err == nil || !strings.Contains(err.Error(), "the keytab has no key of kafka/elsewhere.test@"+realm) {
		t.Error(err)
	}
}

// TestVersionOfAKey: a keytab made by hand often has another version number for the key than the KDC.
func TestVersionOfAKey(t *testing.T) {
	k := startFakeKDC(t)
	u, _ := k.user()
	k.set(func() { k.version = 3 })
	if _, err := u.credentialFor(t.Context(), servicePart); err != nil {
		t.Error(err)
	}
}

// TestHostileKDC: no truncated or modified response causes more than an error, which names the user and the service.
func TestHostileKDC(t *testing.T) {
	k := startFakeKDC(t)
	u, _ := k.user()
	login, err := messages.NewASReqForTGT(realm, defaults().config, u.current.Load().name)
	if err != nil {
		t.Fatal(err)
	}
	request, err := login.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := k.answer(request)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(answer []byte) {
		t.Helper()
		k.set(func() { k.canned = answer })
		if p, err := u.credentialFor(t.Context(), servicePart); err == nil || !strings.Contains(err.Error(), servicePart) {
			t.Errorf("%x is accepted as a ticket: %+v", answer, p)
		}
	}
	for i := range whole {
		refused(append([]byte{}, whole[:i]...))
		changed := append([]byte{}, whole...)
		changed[i] ^= 0x81
		refused(changed)
	}
	wantNoneOfTheLibrary(t)
}

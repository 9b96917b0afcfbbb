package kerberos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

const (
	realm       = "EXAMPLE.COM"
	servicePart = "kafka/host"
)

// keysOf returns a keytab of the service, with keys derived from a password.
func keysOf(t testing.TB, password string) *keytab.Keytab {
	t.Helper()
	keys := keytab.New()
	if err := keys.AddEntry(servicePart, realm, password, time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	return keys
}

// defaults returns the configuration of a krb5.conf without settings.
func defaults() *Configuration { return &Configuration{config.New()} }

func serviceOf(keys *keytab.Keytab) *Service {
	s := &Service{principal: types.NewPrincipalName(nametype.KRB_NT_SRV_INST, servicePart), skew: defaults().skew(), shown: new(ReplayCache)}
	s.keys.Store(&editionKeys{keys: keys})
	return s
}

func writeKeys(t testing.TB, file string, keys *keytab.Keytab) {
	t.Helper()
	data, err := keys.Marshal()
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ticketOwner is a client with a ticket for the service, as issued by a KDC.
type ticketOwner struct {
	t       testing.TB
	name    types.PrincipalName
	ticket  messages.Ticket
	key     types.EncryptionKey
	request messages.APReq
	proof   types.Authenticator
}

func newOwner(t testing.TB, keys *keytab.Keytab, name string, ends time.Duration) *ticketOwner {
	t.Helper()
	now := time.Now().UTC()
	o := &ticketOwner{t: t, name: types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, name)}
	var err error
	o.ticket, o.key, err = messages.NewTicket(o.name, realm, types.NewPrincipalName(nametype.KRB_NT_SRV_INST, servicePart), realm, types.NewKrbFlags(),
		keys, etypeID.AES256_CTS_HMAC_SHA1_96, 1, now.Add(-time.Hour), now.Add(-time.Hour), now.Add(ends), now.Add(ends))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// show returns the first message of a login.
func (o *ticketOwner) show(mutual, subkey bool) []byte {
	o.t.Helper()
	proof, err := types.NewAuthenticator(realm, o.name)
	if err == nil && subkey {
		err = proof.GenerateSeqNumberAndSubKey(etypeID.AES256_CTS_HMAC_SHA1_96, 32)
	}
	if err == nil {
		o.request, err = messages.NewAPReq(o.ticket, o.key, proof)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	o.proof = proof
	if mutual {
		types.SetFlag(&o.request.APOptions, flags.APOptionMutualRequired)
	}
	if subkey {
		o.key = proof.SubKey
	}
	return o.token()
}

// TestAcceptor tests logins with and without mutual authentication, and with a subkey chosen by the client.
func TestAcceptor(t *testing.T) {
	keys := keysOf(t, "secret")
	service := serviceOf(keys)
	for _, mutual := range []bool{false, true} {
		for _, subkey := range []bool{false, true} {
			for _, as := range []string{"", "alice", "alice@" + realm} {
				t.Run(fmt.Sprintf("mutual %v, subkey %v, as %q", mutual, subkey, as), func(t *testing.T) { checkLogin(t, keys, service, mutual, subkey, as) })
			}
		}
	}
}

// checkLogin logs alice in, who asks to act as a user.
func checkLogin(t *testing.T, keys *keytab.Keytab, service *Service, mutual, subkey bool, as string) {
	o, a := newOwner(t, keys, "alice", time.Hour), service.Start()
	session := o.key
	answer, err := a.Step(o.show(mutual, subkey))
	if err != nil {
		t.Fatal(err)
	}
	if mutual {
		o.wantReply(answer, session)
		if answer, err = a.Step(nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, proved := a.Principal(); proved {
		t.Error("a ticket alone, which anybody could replay, is accepted as proof")
	}
	offer, err := unwrap(answer, o.key, true)
	if err != nil || string(offer) != "\x01\x00\x00\x00" {
		t.Fatalf("the server's offer is %x, %v", offer, err)
	}
	last, err := wrap([]byte("\x01\x00\x00\x00"+as), o.key, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err = a.Step(rotated(last, 12)); err != nil || len(answer) > 0 {
		t.Errorf("%x, %v", answer, err)
	}
	if principal, proved := a.Principal(); principal != "alice@"+realm || !proved {
		t.Errorf("%s, proved %v", principal, proved)
	}
	if _, err := a.Step(nil); err == nil {
		t.Error("the login continues")
	}
}

// rotated returns a wrap token that is rotated, as some implementations send it.
func rotated(token []byte, by int) []byte {
	body := token[16:]
	by %= len(body)
	turned := append(append([]byte{}, body[len(body)-by:]...), body[:len(body)-by]...)
	copy(body, turned)
	token[7] = byte(by)
	return token
}

// wantReply checks that the server has decrypted the client's request.
func (o *ticketOwner) wantReply(token []byte, session types.EncryptionKey) {
	o.t.Helper()
	kind, body, err := unframe(token)
	if err != nil || string(kind) != string(kindReply) {
		o.t.Fatalf("%x, %v", kind, err)
	}
	var rep messages.APRep
	var part messages.EncAPRepPart
	if err = rep.Unmarshal(body); err == nil {
		var text []byte
		if text, err = crypto.DecryptEncPart(rep.EncPart, session, keyusage.AP_REP_ENCPART); err == nil {
			err = part.Unmarshal(text)
		}
	}
	if err != nil || !part.CTime.Equal(o.proof.CTime.Truncate(time.Second)) || part.Cusec != o.proof.Cusec {
		o.t.Errorf("the server's proof: %+v for %+v: %v", part, o.proof, err)
	}
}

func TestLoginsThatFail(t *testing.T) {
	keys := keysOf(t, "secret")
	service := serviceOf(keys)
	offered := func(o *ticketOwner) (*Acceptor, []byte) {
		a := service.Start()
		answer, err := a.Step(o.show(false, false))
		if err != nil {
			t.Fatal(err)
		}
		return a, answer
	}
	choose := func(text string, key types.EncryptionKey, fromAcceptor bool) []byte {
		token, err := wrap([]byte(text), key, fromAcceptor, 0)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	cut := newOwner(t, keys, "alice", time.Hour).show(false, false)
	other := asn1tools.AddASNAppTag([]byte{6, 1, 42, 1, 0}, 0)
	for name, first := range map[string][]byte{
		"nothing": {}, "nonsense": []byte("nonsense"), "half a token": cut[:len(cut)/2], "another mechanism": other,
		"for another key": newOwner(t, keysOf(t, "other"), "alice", time.Hour).show(false, false),
		"expired":         newOwner(t, keys, "alice", -30*time.Minute).show(false, false),
	} {
		a := service.Start()
		if answer, err := a.Step(first); err == nil {
			t.Errorf("%s: answered %x", name, answer)
		}
		if _, err := a.Step(first); err == nil {
			t.Errorf("%s: the login continues", name)
		}
	}
	o := newOwner(t, keys, "alice", time.Hour)
	key := o.key
	for name, last := range map[string][]byte{
		"nothing": {}, "plain": []byte("\x01\x00\x00\x00"), "with another key": choose("\x01\x00\x00\x00", newOwner(t, keys, "alice", time.Hour).key, false),
		"the server's own": choose("\x01\x00\x00\x00", key, true), "short": choose("\x01\x00", key, false), "a layer": choose("\x02\x00\x10\x00", key, false),
		"as another": choose("\x01\x00\x00\x00bob", key, false), "as a beginning": choose("\x01\x00\x00\x00ali", key, false),
	} {
		a, _ := offered(o)
		if _, err := a.Step(last); err == nil {
			t.Errorf("%s: taken", name)
		}
		if _, proved := a.Principal(); proved {
			t.Errorf("%s: proved", name)
		}
	}
	if a, answer := offered(o); true { // reflected to its sender
		if _, err := a.Step(answer); err == nil {
			t.Error("the server accepts its own message")
		}
	}
}

// TestKeyVersions: a key is used even if its version number differs from the KDC's.
func TestKeyVersions(t *testing.T) {
	o := newOwner(t, keysOf(t, "secret"), "alice", time.Hour)
	for version := range uint8(4) {
		keys := keytab.New()
		for i, password := range []string{"old", "secret"} {
			if err := keys.AddEntry(servicePart, realm, password, time.Unix(int64(1+i), 0), version+uint8(i), etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
				t.Fatal(err)
			}
		}
		_, err := serviceOf(keys).Start().Step(o.show(false, false))
		if right := version != 1; (err == nil) != right { // otherwise the version that is named is that of the old key
			t.Errorf("of version %d: %v", version, err)
		}
	}
}

// TestKeysThatChange: the keytab changes while the service runs.
func TestKeysThatChange(t *testing.T) {
	before, after := keysOf(t, "before"), keysOf(t, "after, which is longer")
	file := filepath.Join(t.TempDir(), "keytab")
	writeKeys(t, file, before)
	service, err := openService(defaults(), file, servicePart, new(ReplayCache))
	if err != nil {
		t.Fatal(err)
	}
	takes := func(keys *keytab.Keytab) bool {
		_, err := service.Start().Step(newOwner(t, keys, "alice", time.Hour).show(false, false))
		return err == nil
	}
	set := func(second int, write func()) {
		write()
		at := time.Unix(1_700_000_000+int64(second), 0)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if !takes(before) || takes(after) {
		t.Error("the keys are not the earlier ones")
	}
	set(1, func() { writeKeys(t, file, after) })
	if takes(before) || !takes(after) {
		t.Error("the keys are not the later ones")
	}
	set(2, func() {
		if err := os.WriteFile(file, []byte("half a keytab"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if !takes(after) {
		t.Error("the keys are lost with an invalid file")
	}
	if err := os.Remove(file); err != nil || !takes(after) {
		t.Errorf("the keys are lost with their file: %v", err)
	}
}

// TestClocks: clocks may differ by as much as krb5.conf allows.
func TestClocks(t *testing.T) {
	keys := keysOf(t, "secret")
	conf, file := configuration(t, "127.0.0.1:1"), filepath.Join(t.TempDir(), "keytab")
	writeKeys(t, file, keys)
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		setting string
		apart   time.Duration
		ok      bool
	}{
		{"", 4 * time.Minute, true}, {"", -4 * time.Minute, true}, {"", 6 * time.Minute, false},
		{"clockskew = 60", 30 * time.Second, true}, {"clockskew = 60", 2 * time.Minute, false}, {"clockskew = 60", -2 * time.Minute, false},
		{"clockskew = 3600", 50 * time.Minute, true},
	} {
		if err := os.WriteFile(conf, []byte(strings.Replace(string(text), "[libdefaults]\n", "[libdefaults]\n "+test.setting+"\n", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readConfiguration(Source{File: conf})
		if err != nil {
			t.Fatal(err)
		}
		service, err := openService(c, file, servicePart, new(ReplayCache))
		if err != nil {
			t.Fatal(err)
		}
		o := newOwner(t, keys, "alice", time.Hour)
		o.proves(func(a *types.Authenticator) { a.CTime = a.CTime.Add(test.apart) })
		if _, err := service.Start().Step(o.token()); (err == nil) != test.ok {
			t.Errorf("%q, %v apart: %v", test.setting, test.apart, err)
		}
	}
}

func TestOpenService(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keytab")
	writeKeys(t, file, keysOf(t, "secret"))
	for principal, ok := range map[string]bool{servicePart: true, servicePart + "@" + realm: true, servicePart + "@OTHER": false, "kafka": false, "kafka/hos": false, "other/host": false} {
		if _, err := openService(defaults(), file, principal, new(ReplayCache)); (err == nil) != ok {
			t.Errorf("%s: %v", principal, err)
		}
	}
	if _, err := openService(defaults(), file+"x", servicePart, new(ReplayCache)); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("no keytab"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openService(defaults(), file, servicePart, new(ReplayCache)); err == nil {
		t.Error("a file that is not a keytab is accepted")
	}
}

// FuzzRequest: whatever replaces an encrypted part causes no more than an error.
func FuzzRequest(f *testing.F) {
	keys := keysOf(f, "secret")
	service := serviceOf(keys)
	o := newOwner(f, keys, "alice", time.Hour)
	f.Add(o.ticket.EncPart.Cipher, []byte{}, int32(etypeID.AES256_CTS_HMAC_SHA1_96), 1, "kafka")
	f.Fuzz(func(t *testing.T, ticket, proof []byte, etype int32, version int, name string) {
		o := newOwner(t, keys, "alice", time.Hour)
		o.show(false, false)
		o.request.Ticket.EncPart = types.EncryptedData{EType: etype, KVNO: version, Cipher: ticket}
		o.request.Ticket.SName = types.NewPrincipalName(nametype.KRB_NT_SRV_INST, name)
		o.request.EncryptedAuthenticator.Cipher = proof
		if answer, err := service.Start().Step(o.token()); err == nil {
			t.Errorf("answered %x", answer)
		}
	})
}

// FuzzAcceptor: whatever a client sends causes no more than an error.
func FuzzAcceptor(f *testing.F) {
	keys := keysOf(f, "secret")
	service := serviceOf(keys)
	good := newOwner(f, keys, "alice", time.Hour).show(true, true)
	f.Add(good, []byte{})
	f.Add([]byte{0x60, 0x84}, []byte("x"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a := service.Start()
		for _, message := range [][]byte{first, second, second} {
			if _, err := a.Step(message); err != nil {
				break
			}
		}
		if principal, proved := a.Principal(); proved {
			t.Errorf("%s is proved", strings.ToValidUTF8(principal, "?"))
		}
		_, _ = unwrap(second, types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: make([]byte, 32)}, true)
	})
}

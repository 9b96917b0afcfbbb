package kerberos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/internal/testport"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
)

// userAt returns a user with the service's keys, whose KDC is at the given address.
func userAt(t *testing.T, addr string) (u *User, file string) {
	t.Helper()
	conf := configuration(t, addr)
	file = filepath.Join(t.TempDir(), "keytab")
	writeKeys(t, file, keysOf(t, "secret"))
	u, err := OpenKeytab(Source{File: conf}, file, servicePart, func(err error) { t.Errorf("the waiting caller gets: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u, file
}

// configuration returns the path of a krb5.conf with one KDC.
func configuration(t testing.TB, addr string) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	text := fmt.Sprintf("[libdefaults]\n default_realm = %[1]s\n udp_preference_limit = 1\n[realms]\n %[1]s = {\n  kdc = %[2]s\n }\n", realm, addr)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return conf
}

// kdcThat answers each connection with the given bytes, or not at all.
func kdcThat(t *testing.T, answer []byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for answer != nil {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(answer)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

// TestSilentKDC: a caller that waits for a ticket can give up, and the user can be closed meanwhile.
func TestSilentKDC(t *testing.T) {
	u, _ := userAt(t, kdcThat(t, nil))
	givenUp := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error)
	for _, host := range []string{"one.test", "one.test", "another.test"} {
		go func() {
			_, err := u.Start(ctx, "kafka", host)
			failed <- err
		}()
	}
	cancel(givenUp)
	for range 3 {
		if err := <-failed; !errors.Is(err, givenUp) {
			t.Errorf("%v", err)
		}
	}
	u.Close()
	if _, err := u.Start(t.Context(), "kafka", "third.test"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestTicketsAtHand: available tickets are used while a KDC that is asked for another one does not answer.
func TestTicketsAtHand(t *testing.T) {
	keys := keysOf(t, "secret")
	u, _ := userAt(t, kdcThat(t, nil))
	owner := newOwner(t, keys, "alice", time.Hour)
	o := u.current.Load()
	o.keep(servicePart, &credential{owner.name, realm, owner.ticket, owner.key, time.Now(), time.Now().Add(time.Hour), time.Time{}})
	u.turn.Lock() // as held during a request to the KDC
	defer u.turn.Unlock()
	p, err := u.credentialFor(t.Context(), servicePart)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := p.request()
	if err != nil {
		t.Fatal(err)
	}
	a := serviceOf(keys).Start()
	if _, err := a.Step(token); err != nil {
		t.Error(err)
	}
	if principal, _ := a.Principal(); principal != "alice@"+realm {
		t.Errorf("logged in as %s", principal)
	}
}

// TestUnreadableKDC: a response that cannot be decoded is an error that says what was requested.
func TestUnreadableKDC(t *testing.T) {
	u, _ := userAt(t, kdcThat(t, []byte("\x00\x00\x00\x03abc")))
	if _, err := u.Start(t.Context(), "kafka", "Host.test"); err == nil || !strings.Contains(err.Error(), "get a ticket for kafka/host.test as "+servicePart+"@"+realm) {
		t.Errorf("%v", err)
	}
}

// TestLengthOfAnAnswer: memory for a response is allocated as it arrives, not by its length field.
func TestLengthOfAnAnswer(t *testing.T) {
	u, _ := userAt(t, kdcThat(t, []byte("\xff\xff\xff\xff")))
	if _, err := u.Start(t.Context(), "kafka", "host.test"); err == nil || !strings.Contains(err.Error(), "an answer of 4294967295 bytes") {
		t.Errorf("%v", err)
	}
}

// TestCentersInTurn: if one KDC does not answer, the next one is asked, over UDP and TCP.
func TestCentersInTurn(t *testing.T) {
	k := startFakeKDC(t)
	c := defaults().config
	c.Realms = []config.Realm{{Realm: realm, KDC: []string{testport.Address(t), k.addr}}}
	for _, limit := range []int{1, 1465, 0} { // TCP only, UDP first, TCP first
		c.LibDefaults.UDPPreferenceLimit = limit
		owner := credentials.New(servicePart, realm).WithKeytab(keysOf(t, "secret"))
		if _, err := (kdcs{c}).logIn(owner, realm); err != nil {
			t.Errorf("udp_preference_limit=%d: %v", limit, err)
		}
	}
	if _, err := (kdcs{c}).askBy("tcp", "NOWHERE.TEST", nil); err == nil {
		t.Error("a realm without KDCs has answered")
	}
}

func FuzzKDCAnswer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03abc"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if answer, err := readKDCAnswer(bytes.NewReader(data)); err == nil && len(answer) > len(data) {
			t.Errorf("%d bytes of %d", len(answer), len(data))
		}
	})
}

// FuzzDemand decodes what a KDC requires for pre-authentication.
func FuzzDemand(f *testing.F) {
	owner := credentials.New(servicePart, realm).WithKeytab(keysOf(f, "secret"))
	f.Add(demanded(f, etypeID.AES256_CTS_HMAC_SHA1_96))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = proofOfKey(owner, realm, data) })
}

// TestUsersKeysThatChange: changed keys are read when the next ticket is requested.
func TestUsersKeysThatChange(t *testing.T) {
	u, file := userAt(t, kdcThat(t, []byte("\x00\x00\x00\x00")))
	times, open := 0, u.open
	u.open = func() (*loadedUser, error) {
		times++
		return open()
	}
	for i, want := range []int{0, 1, 1} {
		if i == 1 {
			at := time.Unix(1_700_000_000, 0)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := u.Start(t.Context(), "kafka", "host.test"); err == nil || times != want {
			t.Errorf("%d: read %d times, want %d: %v", i, times, want, err)
		}
	}
}

package zklogin

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"barnabas/network/kerberos"
)

// TestDigest implements both sides of an exchange: both must compute the same hashes, however the password is written.
func TestDigest(t *testing.T) {
	for _, password := range []string{"secret", `q"\u`, "pässword", "пароль"} {
		d := newDigest("kafka", password)
		response, err := d.respond([]byte(`realm="zk-sasl-md5",nonce="n\"1",qop="auth",charset=utf-8,algorithm=md5-sess`))
		if err != nil {
			t.Fatal(err)
		}
		given, err := directives(string(response))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"charset": "utf-8", "username": "kafka", "realm": "zk-sasl-md5", "nonce": `n"1`, "nc": "00000001", "cnonce": d.cnonce,
			"digest-uri": digestURI, "maxbuf": "65536", "qop": "auth", "authzid": "kafka", "response": given["response"]}
		if !maps.Equal(given, want) || len(given["response"]) != 32 || given["response"] == d.expected {
			t.Errorf("%s: %s", password, response)
		}
		if err := d.verify([]byte("rspauth=" + d.expected)); err != nil {
			t.Errorf("%s: %v", password, err)
		}
		if d.verify([]byte("rspauth="+given["response"])) == nil || d.verify(nil) == nil {
			t.Errorf("%s: a server that does not know the hash is accepted", password)
		}
	}
}

// TestChallengesThatAreRefused: challenges are refused if the server would not understand the response, or if it would
// be unsafe.
func TestChallengesThatAreRefused(t *testing.T) {
	for challenge, want := range map[string]string{
		`realm="r",algorithm=md5-sess`: "no nonce",
		`nonce="n"`:                    "algorithm",
		`nonce="n",algorithm=md5`:      "algorithm",
		`nonce="n",algorithm=md5-sess,qop="auth-int, auth-conf"`: "qop",
		`nonce="n`: "not closed",
		`nonce`:    "no value",
	} {
		if _, err := newDigest("u", "p").respond([]byte(challenge)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", challenge, err)
		}
	}
	if newDigest("u", "p").verify([]byte("rspauth=")) == nil {
		t.Error("a server is accepted before it has answered")
	}
}

// answer returns a server's response, with a token if it has one.
func answer(code int32, token string) []byte {
	body := make([]byte, 12, 64) // xid, zxid
	body = binary.BigEndian.AppendUint32(body, uint32(code))
	if code == 0 {
		body = binary.BigEndian.AppendUint32(body, uint32(len(token)))
		body = append(body, token...)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// opening returns the response to a request for a session.
func opening(session uint64) []byte {
	frame := binary.BigEndian.AppendUint32(nil, 37)
	frame = append(frame, make([]byte, 8)...)
	frame = binary.BigEndian.AppendUint64(frame, session)
	return append(frame, make([]byte, 21)...)
}

// TestConnectionsThatLogIn plays the server: it answers the opening, and then each request with the next of the given
// responses; after the last one it closes the connection.
func TestConnectionsThatLogIn(t *testing.T) {
	challenge := answer(0, `realm="zk-sasl-md5",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess`)
	for name, test := range map[string]struct {
		opening  []byte
		answers  [][]byte
		optional bool
		want     string // of the error; empty: the library gets the response to the opening and what follows
		told     bool
	}{
		"a session that has expired":    {opening: opening(0)},
		"a server without SASL":         {opening: opening(7), answers: [][]byte{answer(0, "")}, want: ErrNoSASL.Error(), told: true},
		"a server without it, optional": {opening: opening(7), answers: [][]byte{answer(0, "")}, optional: true, told: true},
		"one that does not know it":     {opening: opening(7), answers: [][]byte{answer(codeUnimplement, "")}, optional: true, told: true},
		"a wrong password":              {opening: opening(7), answers: [][]byte{challenge, answer(codeAuthFailed, "")}, optional: true, want: errRefused.Error(), told: true},
		"one that hangs up on it":       {opening: opening(7), answers: [][]byte{challenge}, want: errRefused.Error(), told: true},
		"one that hangs up before":      {opening: opening(7), want: io.EOF.Error(), told: true},
		"one that knows no password":    {opening: opening(7), answers: [][]byte{challenge, answer(0, "rspauth=0123")}, want: "does not prove that it knows the password", told: true},
		"an error":                      {opening: opening(7), answers: [][]byte{answer(-4, "")}, want: "error -4", told: true},
		"a challenge of nonsense":       {opening: opening(7), answers: [][]byte{answer(0, "x")}, want: "the server's challenge", told: true},
		"an answer cut short":           {opening: opening(7), answers: [][]byte{{0, 0, 0, 2, 1, 1}}, want: "truncated", told: true},
		"an answer that is too long":    {opening: opening(7), answers: [][]byte{{0x7f, 0, 0, 0}}, want: "which no ZooKeeper server", told: true},
		"an opening that is too long":   {opening: []byte{0xff, 0xff, 0xff, 0xff}, want: "which no ZooKeeper server"},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := net.Pipe()
			go func() {
				defer func() { _ = server.Close() }()
				_, _ = server.Write(test.opening)
				for _, a := range test.answers {
					if _, err := readFrame(server); err != nil {
						return
					}
					_, _ = server.Write(a)
				}
				if test.want == "" {
					_, _ = server.Write([]byte("more"))
				} else if len(test.answers) < 2 {
					_, _ = readFrame(server)
				}
			}()
			var told error
			conn := (&Login{Username: "u", Password: "p", Optional: test.optional}).Over(client, "", 10*time.Second, func(err error) { told = err })
			read := make([]byte, len(test.opening)+4)
			_, err := io.ReadFull(conn, read)
			if (told != nil) != test.told {
				t.Errorf("reported %v", told)
			}
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil || string(read) != string(test.opening)+"more" {
				t.Errorf("%q, %v", read, err)
			}
		})
	}
}

// TestTicketsThatAreNotTaken: a server that has no Kerberos, even temporarily, is distinguished from one that has it
// but sends invalid responses.
func TestTicketsThatAreNotTaken(t *testing.T) {
	for name, test := range map[string]struct {
		answer []byte
		want   error
	}{
		"it asks for a password": {answer(0, `realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`), errNoTickets},
		"it refuses the ticket":  {answer(codeAuthFailed, ""), errTicketRefused},
		"it knows no SASL":       {answer(0, ""), ErrNoSASL},
		"it takes the ticket":    {answer(0, "offer"), io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := net.Pipe()
			go func() {
				defer func() { _ = server.Close() }()
				if _, err := readFrame(server); err == nil {
					_, _ = server.Write(test.answer)
				}
			}()
			dialog := func(message []byte) ([]byte, error) {
				if message == nil {
					return []byte("ticket"), nil
				}
				return nil, io.ErrUnexpectedEOF // an offer that cannot be read
			}
			if err := (&Login{kerberos: new(kerberos.User)}).converse(client, dialog); !errors.Is(err, test.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "logins.conf")
	text := `KafkaServer { org.apache.kafka.common.security.plain.PlainLoginModule required; };
		Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="u" password="p w"; };
		Kerberos { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };
		Plain { org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="secret"; };
		Half { org.apache.zookeeper.server.auth.DigestLoginModule required username="u"; };
		Empty { };`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Read(Config{File: file}); err != nil || *l != (Login{Username: "u", Password: "p w"}) {
		t.Errorf("%v, %v", l, err)
	}
	if l, err := Read(Config{File: file, Section: "None"}); l != nil || err != nil {
		t.Errorf("a section that does not exist: %v, %v", l, err)
	}
	for section, want := range map[string]string{"Kerberos": "keyTab", "Plain": "is not supported", "Half": "username and password", "Empty": "one login module"} {
		if _, err := Read(Config{File: file, Section: section}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", section, err)
		}
	}
	if _, err := Read(Config{File: file + ".none"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// FuzzChallenge: no challenge causes more than an error.
func FuzzChallenge(f *testing.F) {
	f.Add(`realm="zk-sasl-md5",nonce="n\"1",qop="auth",charset=utf-8,algorithm=md5-sess`)
	f.Add(`nonce="\`)
	f.Add(`=,="`)
	f.Fuzz(func(t *testing.T, challenge string) {
		d := newDigest("u", "p")
		if response, err := d.respond([]byte(challenge)); err == nil {
			if _, err := directives(string(response)); err != nil {
				t.Errorf("the response %q cannot be parsed: %v", response, err)
			}
		}
		_ = d.verify([]byte(challenge))
	})
}

// FuzzAnswer: no content of a server's frames causes more than an error.
func FuzzAnswer(f *testing.F) {
	f.Add(answer(0, "token")[4:])
	f.Add(answer(-115, "")[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		if token, err := answeredToken(frame); err == nil && len(token) > len(frame) {
			t.Errorf("a token of %d bytes in %d", len(token), len(frame))
		}
	})
}

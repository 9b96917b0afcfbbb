package api

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStoredCredentialChecksALogin with the exchange of RFC 7677, section 3.
func TestStoredCredentialChecksALogin(t *testing.T) {
	const (
		auth      = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
		proof     = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		signature = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	salt := unbase64(t, "W22ZaJ0SNY7soEsUEjb6gQ==")
	salted, err := pbkdf2.Key(sha256.New, "pencil", salt, 4096, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	m, err := scramMechanismOf(1)
	if err != nil {
		t.Fatal(err)
	}
	stored := m.credential(salt, salted, 4096)
	fields := make(map[string]string)
	for _, f := range strings.Split(stored, ",") {
		key, value, _ := strings.Cut(f, "=")
		fields[key] = value
	}
	if n, err := iterationsOf(stored); err != nil || n != 4096 || fields["salt"] != "W22ZaJ0SNY7soEsUEjb6gQ==" {
		t.Errorf("stored %q", stored)
	}
	mac := func(key []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(auth))
		return h.Sum(nil)
	}
	if got := base64.StdEncoding.EncodeToString(mac(unbase64(t, fields["server_key"]))); got != signature {
		t.Errorf("the server's signature is %s", got)
	}
	storedKey, clientKey := unbase64(t, fields["stored_key"]), unbase64(t, proof)
	for i, b := range mac(storedKey) {
		clientKey[i] ^= b
	}
	if sum := sha256.Sum256(clientKey); !bytes.Equal(sum[:], storedKey) {
		t.Error("the client's proof does not fit the stored key")
	}
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSCRAMChangesOfOneUser(t *testing.T) {
	up := func(user string, mechanism int8, iterations int32) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: user, Mechanism: mechanism, Iterations: iterations}
	}
	down := func(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
		return kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: user, Mechanism: mechanism}
	}
	for _, tc := range []struct {
		name string
		ups  []kmsg.AlterUserSCRAMCredentialsRequestUpsertion
		down []kmsg.AlterUserSCRAMCredentialsRequestDeletion
		want *kerr.Error
	}{
		{"both mechanisms", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096), up("u", 2, 16384)}, nil, nil},
		{"written and deleted", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096)},
			[]kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 1)}, kerr.DuplicateResource},
		{"one written, the other deleted", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096)},
			[]kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 2)}, nil},
		{"twice, then too few", []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up("u", 1, 4096), up("u", 1, 4096), up("u", 2, 1)}, nil, kerr.UnacceptableCredential},
		{"a mechanism that is not there", nil, []kmsg.AlterUserSCRAMCredentialsRequestDeletion{down("u", 3)}, kerr.UnsupportedSaslMechanism},
	} {
		changes := scramChanges(&kmsg.AlterUserSCRAMCredentialsRequest{Upsertions: tc.ups, Deletions: tc.down})
		if err := changes["u"].err; len(changes) != 1 || (tc.want == nil) != (err == nil) || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

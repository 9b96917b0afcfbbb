package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
)

const storePassword = "listener.name.external.ssl.keystore.password"

func TestIsDynamicPassword(t *testing.T) {
	for name, want := range map[string]bool{
		storePassword: true, "ssl.key.password": true, "listener.name.x.plain.sasl.jaas.config": true, "of.a.plugin.sasl.jaas.config": true,
		"ssl.keystore.type": false, "delegation.token.secret.key": false, "password.encoder.secret": false, "": false,
	} {
		if IsDynamicPassword(name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}

// TestPasswordsAreStoredEncoded follows a password from a request to the znode and back.
func TestPasswordsAreStoredEncoded(t *testing.T) {
	d := dynamicOver(t, "password.encoder.secret=s1")
	next, err := d.AlterBroker(map[string]string{"num.io.threads": "9"}, []Op{op(storePassword, OpSet, "hidden")})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := d.EncodeBroker(next)
	if err != nil {
		t.Fatal(err)
	}
	if text := stored[storePassword]; stored["num.io.threads"] != "9" || strings.Contains(text, "hidden") || !strings.Contains(text, "encryptedPassword:") {
		t.Errorf("stored %v", stored)
	}
	setBroker(t, d, stored)
	if got := d.Current().String(storePassword); got != "hidden" {
		t.Errorf("decoded as %q", got)
	}
	for _, e := range d.DescribeBroker([]string{storePassword}) {
		want := Entry{Name: storePassword, Source: SourceDynamicBroker, ReadOnly: true, Sensitive: true, Type: Password,
			Synonyms: []Synonym{{Name: storePassword, Source: SourceDynamicBroker}}, Documentation: e.Documentation}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Error(diff)
		}
	}
	again, err := d.AlterBroker(stored, []Op{op("num.io.threads", OpSet, "10")})
	if err != nil || again[storePassword] != "hidden" {
		t.Errorf("another change: %v, %v", again, err)
	}
}

func TestPasswordsThatCannotBeStored(t *testing.T) {
	for _, c := range []struct {
		name, part string
		pairs      []string
		encode     func(*Dynamic) (map[string]string, error)
	}{
		{"no secret", "password.encoder.secret must be set", nil,
			func(d *Dynamic) (map[string]string, error) {
				return d.EncodeBroker(map[string]string{storePassword: "x"})
			}},
		{"for all brokers", "only for one broker", []string{"password.encoder.secret=s"},
			func(d *Dynamic) (map[string]string, error) {
				return d.EncodeCluster(map[string]string{"x.sasl.jaas.config": "x"})
			}},
		{"a cipher that there is not", `cipher "RC4"`, []string{"password.encoder.secret=s", "password.encoder.cipher.algorithm=RC4"},
			func(d *Dynamic) (map[string]string, error) {
				return d.EncodeBroker(map[string]string{storePassword: "x"})
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.encode(dynamicOver(t, c.pairs...))
			if code(err) != kerr.InvalidConfig || !strings.Contains(err.Error(), c.part) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestStoredPasswordThatCannotBeRead: it is left out, with a log line that names it; the other settings apply.
func TestStoredPasswordThatCannotBeRead(t *testing.T) {
	stored, err := dynamicOver(t, "password.encoder.secret=s1").EncodeBroker(map[string]string{storePassword: "x"})
	if err != nil {
		t.Fatal(err)
	}
	stored["num.io.threads"] = "9"
	for _, pairs := range [][]string{nil, {"password.encoder.secret=another"}} {
		log, lines := test.NewNullLogger()
		d := NewDynamic(mustParse(t, pairs...), logrus.NewEntry(log))
		setBroker(t, d, stored)
		if d.Current().Set(storePassword) || d.Current().Int("num.io.threads") != 9 {
			t.Errorf("%v: the other settings must apply, but not the password", pairs)
		}
		if entries := warnings(lines); len(entries) != 1 || entries[0].Data["setting"] != storePassword {
			t.Errorf("%v: %d lines", pairs, len(entries))
		}
	}
}

func TestReencode(t *testing.T) {
	stored, err := dynamicOver(t, "password.encoder.secret=s1").EncodeBroker(map[string]string{storePassword: "x", "num.io.threads": "9"})
	if err != nil {
		t.Fatal(err)
	}
	d := dynamicOver(t, "password.encoder.secret=s2", "password.encoder.old.secret=s1")
	next, changed, err := d.Reencode(stored)
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	setBroker(t, d, next)
	if d.Current().String(storePassword) != "x" || d.Current().Int("num.io.threads") != 9 {
		t.Error("the re-encoded password must apply")
	}
	if _, changed, err := d.Reencode(next); err != nil || changed {
		t.Errorf("the second time: changed %v, %v", changed, err)
	}
	if _, changed, err := dynamicOver(t, "password.encoder.secret=s1").Reencode(stored); err != nil || changed {
		t.Errorf("without the old secret: changed %v, %v", changed, err)
	}
	if _, _, err := dynamicOver(t, "password.encoder.old.secret=s1").Reencode(stored); err == nil {
		t.Error("without the new secret it must be refused")
	}
}

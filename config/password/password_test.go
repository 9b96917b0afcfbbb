package password

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// recorded returns passwords that Apache Kafka has encoded.
func recorded(t testing.TB) [][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/encoded.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
	}
	return rows
}

const recordedSecret = "s€cret"

func TestDecodeWhatApacheKafkaEncoded(t *testing.T) {
	for _, row := range recorded(t) {
		got, err := Encoder{Secret: recordedSecret}.Decode(row[3])
		if err != nil || got != row[2] {
			t.Errorf("%s %s: %q, %v, want %q", row[0], row[1], got, err, row[2])
		}
	}
}

// random matches the fields that differ with each encoding.
var random = regexp.MustCompile(`(initializationVector|salt|encryptedPassword):[A-Za-z0-9+/=]*`)

// TestEncodeAsApacheKafka encodes with the parameters of each recorded password: fields and their order are the same.
func TestEncodeAsApacheKafka(t *testing.T) {
	for _, row := range recorded(t) {
		p, err := parse(row[3])
		if err != nil {
			t.Fatal(err)
		}
		e := Encoder{Secret: recordedSecret, KeyFactory: row[0], Cipher: p.cipher, KeyBits: p.keyBits, Iterations: p.iterations}
		if row[0] == "default" {
			e.KeyFactory = ""
		}
		encoded, err := e.Encode(row[2])
		if err != nil {
			t.Fatalf("%s %s: %v", row[0], row[1], err)
		}
		if got, want := random.ReplaceAllString(encoded, "$1"), random.ReplaceAllString(row[3], "$1"); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		ours, err := parse(encoded)
		if err != nil || len(ours.salt) != len(p.salt) || len(ours.iv) != len(p.iv) || len(ours.encrypted) != len(p.encrypted) {
			t.Errorf("%s %s: lengths differ from Apache Kafka's: %v", row[0], row[1], err)
		}
		if got, err := e.Decode(encoded); err != nil || got != row[2] {
			t.Errorf("%s %s: decoded to %q, %v", row[0], row[1], got, err)
		}
	}
}

func TestAnotherSecretDecodesNothing(t *testing.T) {
	for _, row := range recorded(t) {
		if strings.HasSuffix(row[1], "NoPadding") && !strings.Contains(row[1], "GCM") {
			continue // in these only the length reveals a wrong key
		}
		if got, err := (Encoder{Secret: "another"}).Decode(row[3]); err == nil {
			t.Errorf("%s: decoded to %q", row[1], got)
		}
	}
}

func TestRefused(t *testing.T) {
	good := Encoder{Secret: "s", Cipher: DefaultCipher, KeyBits: DefaultKeyBits, Iterations: 1024}
	for _, c := range []struct {
		name, part string
		change     func(*Encoder)
	}{
		{"cipher", `cipher "RC4"`, func(e *Encoder) { e.Cipher = "RC4" }},
		{"mode", `cipher "AES/ECB/PKCS5Padding"`, func(e *Encoder) { e.Cipher = "AES/ECB/PKCS5Padding" }},
		{"algorithm alone", `cipher "AES"`, func(e *Encoder) { e.Cipher = "AES" }},
		{"key length", "a key of 64 bits: AES/CBC/PKCS5Padding takes one of 128, 192, 256", func(e *Encoder) { e.KeyBits = 64 }},
		{"key factory", `key factory "MD5"`, func(e *Encoder) { e.KeyFactory = "MD5" }},
		{"iterations", "2000000000 iterations", func(e *Encoder) { e.Iterations = 2e9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := good
			c.change(&e)
			if _, err := e.Encode("p"); err == nil || !strings.Contains(err.Error(), c.part) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, text := range []string{"", "plain", "keyLength:128", "keyLength:x,salt:=", strings.Replace(recorded(t)[0][3], "keyLength:128", "keyLength:2147483647", 1)} {
		if got, err := good.Decode(text); err == nil {
			t.Errorf("%q decoded to %q", text, got)
		}
	}
}

// FuzzDecode: nodes may contain anything; decoding must neither panic nor take unbounded time.
func FuzzDecode(f *testing.F) {
	for _, row := range recorded(f) {
		f.Add(row[3])
	}
	f.Add("")
	f.Add("a:b,,c")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parse(text); err == nil && p.iterations > 1<<13 {
			t.Skip("slow")
		}
		_, _ = Encoder{Secret: recordedSecret}.Decode(text)
	})
}

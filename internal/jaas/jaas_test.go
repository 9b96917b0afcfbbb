package jaas

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       Login
	}{
		{"users", PlainModule + ` required username="admin" password="a;b=c" user_alice="pw" user_bob='p"2';`,
			Login{PlainModule, map[string]string{"username": "admin", "password": "a;b=c", "user_alice": "pw", "user_bob": `p"2`}}},
		{"none", ScramModule + " required;", Login{ScramModule, map[string]string{}}},
		{"lines and comments", "// whom\n" + ScramModule + " REQUIRED /* of\nthese */\n user = x\n tokenauth=true ;\n",
			Login{ScramModule, map[string]string{"user": "x", "tokenauth": "true"}}},
		{"escapes", `m optional p="a\"b\\c\td\é" q="";`, Login{"m", map[string]string{"p": "a\"b\\c\td\u00e9", "q": ""}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse(test.text)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "m", "m required", "m needed;", "m required user;", `m required user_alice=;`, `m required user_alice="secret`, `m required user_alice="secret";x`,
		`m required user_alice="secret"; m required;`, `"m" required;`, `m required {`, "m required /* secret", "m required a=\"secret\nb\";",
	} {
		_, err := Parse(text)
		if err == nil {
			t.Errorf("%q was accepted", text)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error contains it: %v", text, err)
		}
	}
}

func TestParseFile(t *testing.T) {
	got, err := parseFile(`
KafkaServer {
   ` + PlainModule + ` required
   user_alice="pw";
   ` + ScramModule + ` required username=admin password=x;
};
client.KafkaServer { };
// the end`)
	want := map[string][]Login{
		"KafkaServer":        {{PlainModule, map[string]string{"user_alice": "pw"}}, {ScramModule, map[string]string{"username": "admin", "password": "x"}}},
		"client.KafkaServer": {},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, text := range []string{"KafkaServer", "KafkaServer {", "KafkaServer { m required; }", "KafkaServer { m }; ", "{ };", "a { }; a { };", "a { }; /*"} {
		if _, err := parseFile(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(PlainModule + ` required user_alice="p\"w" x='y';`)
	f.Add("A { m required; }; // x")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := Parse(text); err == nil && l.Module == "" {
			t.Errorf("%q: no module", text)
		}
		_, _ = parseFile(text)
	})
}

package kerberos

import (
	"os"
	"strings"
	"testing"
)

// TestRulesOfApacheKafka: users get the same short names as in Apache Kafka.
func TestRulesOfApacheKafka(t *testing.T) {
	data, err := os.ReadFile("testdata/rules.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		rules, err := parseRules("EXAMPLE.COM", strings.Split(fields[0], ","))
		if (err != nil) != (fields[2] == "!refused") {
			t.Errorf("%s: %v", fields[0], err)
		}
		if err != nil {
			continue
		}
		got, err := rules.User(fields[1])
		if err != nil {
			got = "!none"
		}
		if got != fields[2] {
			t.Errorf("%s: %s is %q, in Apache Kafka %q", fields[0], fields[1], got, fields[2])
		}
	}
}

// FuzzRules: no rules and no principal cause more than an error.
func FuzzRules(f *testing.F) {
	f.Add("RULE:[2:$1-$2](bob-.*)s/bob/robert/U", "bob/admin@EXAMPLE.COM")
	f.Add("DEFAULT", "alice@EXAMPLE.COM")
	f.Fuzz(func(t *testing.T, rule, principal string) {
		rules, err := parseRules("EXAMPLE.COM", []string{rule})
		if err != nil {
			return
		}
		if user, err := rules.User(principal); err == nil && strings.ContainsAny(user, "/@") {
			t.Errorf("%s returns %q for %q", rule, user, principal)
		}
	})
}

package ssl

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// rows reads a table of testdata: columns separated by tabs, with \\ \n \t as escapes.
func rows(t testing.TB, file string) [][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t")
	var table [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		row := strings.Split(lines.Text(), "\t")
		for i := range row {
			row[i] = plain.Replace(row[i])
		}
		table = append(table, row)
	}
	return table
}

// TestNamesAsJavaPrintsThem compares distinguished names with those that the JDK has printed.
func TestNamesAsJavaPrintsThem(t *testing.T) {
	for _, row := range rows(t, "testdata/names.txt") {
		der, err := hex.DecodeString(row[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := name(der); got != row[1] {
			t.Errorf("%s is printed as %q, by Java as %q", row[0], got, row[1])
		}
	}
}

// TestPrincipalRules compares principals with those that Apache Kafka has derived.
func TestPrincipalRules(t *testing.T) {
	for _, row := range rows(t, "testdata/rules.txt") {
		rules, err := parsePrincipalRules(row[0])
		got := "refused"
		if err == nil {
			got = "no rule"
			if name, err := rules.apply(row[1]); err == nil {
				got = "= " + name
			}
		}
		if got != row[2] {
			t.Errorf("%q makes of %q: %q, want %q (%v)", row[0], row[1], got, row[2], err)
		}
	}
}

// TestRulesOfAnotherSyntax: regular expressions that Java supports and Go does not are refused rather than
// misinterpreted.
func TestRulesOfAnotherSyntax(t *testing.T) {
	for _, rule := range []string{`RULE:(?=CN)(.*)/$1/`, `RULE:(a)\1/$1/`, `RULE:a++/x/`} {
		if _, err := parsePrincipalRules(rule); err == nil || !strings.Contains(err.Error(), "cannot be used here") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func FuzzPrincipalRules(f *testing.F) {
	for _, row := range rows(f, "testdata/rules.txt") {
		f.Add(row[0], row[1])
	}
	f.Fuzz(func(_ *testing.T, text, name string) {
		if rules, err := parsePrincipalRules(text); err == nil {
			_, _ = rules.apply(name)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, row := range rows(f, "testdata/names.txt") {
		der, err := hex.DecodeString(row[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Fuzz(func(_ *testing.T, der []byte) { _ = name(der) })
}

// Package jaas reads the login configurations of Java's authentication service, which name users and passwords for
// SASL: the value of a setting (sasl.jaas.config, KIP-85), or a file of several.
//
//	setting  ENTRY
//	file     { NAME { ENTRY { ENTRY } } ; }
//	ENTRY    MODULE FLAG { KEY = VALUE } ;
//
// Values may be quoted; comments are those of Java.
package jaas

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Login modules of Apache Kafka's SASL mechanisms.
const (
	PlainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	ScramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
	OAuthModule = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
	Krb5Module  = "com.sun.security.auth.module.Krb5LoginModule"
)

// Login is one entry of a configuration: a module and its options, which contain secrets.
type Login struct {
	Module  string
	Options map[string]string
}

// Parse reads the value of a setting: exactly one entry. Errors do not reveal its options.
func Parse(text string) (Login, error) {
	s := &scanner{rest: text}
	l, err := s.login()
	if err != nil {
		return Login{}, err
	}
	if t, err := s.next(); err != nil || t.kind != end {
		return Login{}, errors.Join(err, errors.New("exactly one login module is expected, and nothing after its semicolon"))
	}
	return l, nil
}

// ReadFile parses a file and returns its entries by the name of their section.
func ReadFile(name string) (map[string][]Login, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseFile(string(text))
}

// parseFile parses the text of such a file.
func parseFile(text string) (map[string][]Login, error) {
	s := &scanner{rest: text}
	sections := make(map[string][]Login)
	for {
		name, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case name.kind == end:
			return sections, nil
		case name.kind != word:
			return nil, fmt.Errorf("%q stands where a section's name should", name.text)
		case sections[name.text] != nil:
			return nil, fmt.Errorf("section %s appears twice", name.text)
		}
		if err := s.expect("{"); err != nil {
			return nil, fmt.Errorf("section %s: %w", name.text, err)
		}
		logins, err := s.section()
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", name.text, err)
		}
		sections[name.text] = logins
	}
}

// section reads entries up to the closing brace and the semicolon after it.
func (s *scanner) section() ([]Login, error) {
	logins := []Login{}
	for {
		before := *s
		t, err := s.next()
		if err != nil {
			return nil, err
		}
		if t.kind == mark && t.text == "}" {
			return logins, s.expect(";")
		}
		*s = before
		l, err := s.login()
		if err != nil {
			return nil, err
		}
		logins = append(logins, l)
	}
}

func (s *scanner) login() (Login, error) {
	module, err := s.next()
	if err != nil {
		return Login{}, err
	}
	if module.kind != word {
		return Login{}, errors.New("no login module is named")
	}
	flag, err := s.next()
	if err != nil {
		return Login{}, err
	}
	switch strings.ToLower(flag.text) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return Login{}, fmt.Errorf("module %s: it must be followed by required, requisite, sufficient or optional", module.text)
	}
	l := Login{module.text, make(map[string]string)}
	for {
		key, err := s.next()
		switch {
		case err != nil:
			return Login{}, err
		case key.kind == mark && key.text == ";":
			return l, nil
		case key.kind == end:
			return Login{}, fmt.Errorf("module %s: the semicolon at the end is missing", l.Module)
		case key.kind == mark:
			return Login{}, fmt.Errorf("module %s: %q stands where an option's name should", l.Module, key.text)
		}
		if err := s.expect("="); err != nil {
			return Login{}, fmt.Errorf("module %s: %w after an option's name", l.Module, err)
		}
		value, err := s.next()
		if err != nil {
			return Login{}, err
		}
		if value.kind != word && value.kind != quoted {
			return Login{}, fmt.Errorf("module %s: an option has no value", l.Module)
		}
		l.Options[key.text] = value.text
	}
}

func (s *scanner) expect(text string) error {
	t, err := s.next()
	if err != nil {
		return err
	}
	if t.kind != mark || t.text != text {
		return fmt.Errorf("%q is missing", text)
	}
	return nil
}

package kerberos

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Rules map principals to user names (sasl.kerberos.principal.to.local.rules): the first rule that applies counts.
type Rules struct {
	realm string // the default realm
	rules []rule
}

// rule is one of the rules.
type rule struct {
	usual         bool // DEFAULT: the first component of a principal in the default realm
	parts         int  // number of components that the principal must have
	format        []piece
	match         *regexp.Regexp // nil: matches everything
	from          *regexp.Regexp // nil: nothing is replaced
	to            string
	all           bool // replace all matches of from, not only the first
	lower, higher bool
}

// piece is a part of a format: literal text or, with a number from 0 on, the realm or a component.
type piece struct {
	text   string
	number int // -1: literal text
}

var ruleSyntax = regexp.MustCompile(`^(?:(DEFAULT)|RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?)$`)

// parseRules parses rules; no rules means DEFAULT.
func parseRules(realm string, texts []string) (*Rules, error) {
	if len(texts) == 0 {
		texts = []string{"DEFAULT"}
	}
	r := &Rules{realm: realm}
	for _, text := range texts {
		one, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("the rule %s: %w", text, err)
		}
		r.rules = append(r.rules, one)
	}
	return r, nil
}

func parseRule(text string) (r rule, err error) {
	found := ruleSyntax.FindStringSubmatch(text)
	if found == nil {
		return r, errors.New("it is neither DEFAULT nor of the form RULE:[n:format](pattern)s/from/to/g/L")
	}
	if r.usual = found[1] != ""; r.usual {
		return r, nil
	}
	if r.parts, err = strconv.Atoi(found[2]); err != nil {
		return r, err
	}
	r.format = parseFormat(found[3])
	if found[4] != "" {
		if r.match, err = regexp.Compile(`^(?:` + found[4] + `)$`); err != nil {
			return r, err
		}
	}
	if strings.Contains(text, "s/") && found[5] != "" {
		if r.from, err = regexp.Compile(found[5]); err != nil {
			return r, err
		}
	}
	r.to, r.all = javaReplacement.ReplaceAllString(found[6], "$${${1}}"), found[7] != ""
	r.lower, r.higher = found[8] == "L", found[8] == "U"
	return r, nil
}

// javaNothing matches a group reference without a name or number.
var javaNothing = regexp.MustCompile(`\$([^{]|$)`)

// javaReplacement matches a numbered group reference, which Go delimits differently.
var javaReplacement = regexp.MustCompile(`\$(\d)`)

// noPart is the number of a component that no principal has.
const noPart = 1 << 20

// parseFormat parses a format. As in Apache Kafka, a reference to a missing component is an error only for principals
// that the rule applies to.
func parseFormat(text string) []piece {
	var pieces []piece
	for text != "" {
		before, after, found := strings.Cut(text, "$")
		if before != "" {
			pieces = append(pieces, piece{before, -1})
		}
		if !found {
			return pieces
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		number, err := strconv.Atoi(after[:digits])
		if err != nil {
			number = noPart
		}
		pieces = append(pieces, piece{"", number})
		text = after[digits:]
	}
	return pieces
}

// principalSyntax matches a principal of at most two components.
var principalSyntax = regexp.MustCompile(`^([^/@]*)(?:/([^/@]*))?@([^/@]*)$`)

// User returns the user name for a principal.
func (r *Rules) User(principal string) (string, error) {
	found := principalSyntax.FindStringSubmatchIndex(principal)
	if found == nil {
		return "", fmt.Errorf("the principal %s is not of the form NAME[/HOST]@REALM", principal)
	}
	parts := []string{principal[found[6]:found[7]], principal[found[2]:found[3]]}
	if found[4] >= 0 {
		parts = append(parts, principal[found[4]:found[5]])
	}
	for _, one := range r.rules {
		user, applies, err := one.apply(parts, r.realm)
		if err != nil {
			return "", fmt.Errorf("the principal %s: %w", principal, err)
		}
		if applies {
			return user, nil
		}
	}
	return "", fmt.Errorf("none of sasl.kerberos.principal.to.local.rules is for the principal %s", principal)
}

// apply applies the rule to a principal's realm and components.
func (r rule) apply(parts []string, realm string) (user string, applies bool, err error) {
	switch {
	case r.usual && parts[0] != realm, !r.usual && len(parts)-1 != r.parts:
		return "", false, nil
	case r.usual:
		user = parts[1]
	default:
		if user, applies, err = r.rename(parts); !applies {
			return "", false, err
		}
	}
	if strings.ContainsAny(user, "/@") {
		return "", false, fmt.Errorf("a rule maps it to %s, which still has more than one part", user)
	}
	switch {
	case r.lower:
		user = strings.ToLower(user)
	case r.higher:
		user = strings.ToUpper(user)
	}
	return user, true, nil
}

func (r rule) rename(parts []string) (name string, applies bool, err error) {
	var text strings.Builder
	for _, p := range r.format {
		switch {
		case p.number < 0:
			text.WriteString(p.text)
		case p.number >= len(parts):
			return "", false, fmt.Errorf("a rule for principals of %d parts refers to a further part", r.parts)
		default:
			text.WriteString(parts[p.number])
		}
	}
	name = text.String()
	if r.match != nil && !r.match.MatchString(name) {
		return "", false, nil
	}
	if r.from == nil {
		return name, true, nil
	}
	at := r.from.FindStringSubmatchIndex(name)
	switch {
	case at == nil:
		return name, true, nil
	case javaNothing.MatchString(r.to):
		return "", false, fmt.Errorf("a rule's replacement %s has a $ that refers to no group", r.to)
	case r.all:
		return r.from.ReplaceAllString(name, r.to), true, nil
	}
	replaced := r.from.ExpandString(nil, r.to, name, at)
	return name[:at[0]] + string(replaced) + name[at[1]:], true, nil
}

package ssl

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

const principalRulesKey = "ssl.principal.mapping.rules"

// principalRules map a certificate's name to a principal's name; the first rule that matches applies (KIP-371,
// SslPrincipalMapper, 3.9).
type principalRules []principalRule

// principalRule is RULE:pattern/replacement/[LU], or DEFAULT, which has no pattern and leaves the name as it is.
type principalRule struct {
	pattern     *regexp.Regexp // nil: DEFAULT
	whole       *regexp.Regexp // pattern, anchored to match the whole name
	further     *regexp.Regexp // pattern for positions after the beginning of the name, where ^ must not match
	replacement string
	to          byte // L, U or 0
}

// ruleForm matches one rule; empty items between commas are ignored.
var ruleForm = regexp.MustCompile(`^\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|)\s*(,|$)`)

func parsePrincipalRules(text string) (principalRules, error) {
	var rules principalRules
	for rest := strings.TrimSpace(text); rest != ""; {
		m := ruleForm.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q is not of the form DEFAULT or RULE:pattern/replacement/[LU]", rest)
		}
		rest = rest[len(m[0]):]
		switch {
		case m[1] != "":
			rules = append(rules, principalRule{})
		case strings.HasPrefix(strings.TrimSpace(m[0]), "RULE:"):
			r, err := newPrincipalRule(m[2], m[3], m[4])
			if err != nil {
				return nil, err
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

func newPrincipalRule(pattern, replacement, to string) (principalRule, error) {
	r := principalRule{replacement: replacement}
	var err error
	if r.pattern, err = regexp.Compile(pattern); err != nil {
		return r, fmt.Errorf("the pattern of RULE:%s cannot be used here: %w", pattern, err)
	}
	r.whole = regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	if r.further, err = withoutBegin(pattern); err != nil {
		return r, err
	}
	if to != "" {
		r.to = to[0]
	}
	_, err = r.expand("", make([]int, 2*(r.pattern.NumSubexp()+1)))
	return r, err
}

// withoutBegin converts a pattern for matching the rest of a text, at whose beginning ^ must not match.
func withoutBegin(pattern string) (*regexp.Regexp, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	var drop func(*syntax.Regexp)
	drop = func(re *syntax.Regexp) {
		if re.Op == syntax.OpBeginText {
			re.Op = syntax.OpNoMatch
		}
		for _, sub := range re.Sub {
			drop(sub)
		}
	}
	drop(tree)
	return regexp.Compile(tree.String())
}

// Principal returns the principal of a certificate: "User:" and the name that the rules map the certificate's name to.
func (c *Context) Principal(cert *x509.Certificate) (string, error) {
	name, err := c.principals.apply(Name(cert))
	return "User:" + name, err
}

// apply returns the name according to the first matching rule.
func (p principalRules) apply(name string) (string, error) {
	for _, r := range p {
		if r.pattern == nil {
			return name, nil
		}
		if r.whole.MatchString(name) {
			return r.rename(name)
		}
	}
	return "", fmt.Errorf("no rule of %s matches %s", principalRulesKey, name)
}

// rename replaces every match of the pattern as Java's String.replaceAll does, including an empty match right after
// another one.
func (r principalRule) rename(name string) (string, error) {
	var b strings.Builder
	last := 0
	for at := 0; at <= len(name); {
		pattern := r.pattern
		if at > 0 {
			pattern = r.further
		}
		m := pattern.FindStringSubmatchIndex(name[at:])
		if m == nil {
			break
		}
		for i := range m {
			if m[i] >= 0 {
				m[i] += at
			}
		}
		b.WriteString(name[last:m[0]])
		replaced, err := r.expand(name, m)
		if err != nil {
			return "", err
		}
		b.WriteString(replaced)
		last, at = m[1], m[1]
		if m[0] == m[1] {
			at++
		}
	}
	b.WriteString(name[min(last, len(name)):])
	switch r.to {
	case 'L':
		return strings.ToLower(b.String()), nil
	case 'U':
		return strings.ToUpper(b.String()), nil
	}
	return b.String(), nil
}

// expand expands a replacement: $n stands for a group, with as many digits as form the number of an existing group;
// ${name} for a named one; a backslash escapes the next character.
func (r principalRule) expand(name string, m []int) (string, error) {
	groups := len(m)/2 - 1
	var b strings.Builder
	for s := r.replacement; s != ""; {
		switch c := s[0]; {
		case c == '\\' && len(s) == 1:
			return "", errors.New("a replacement ends in a backslash")
		case c == '\\':
			b.WriteByte(s[1])
			s = s[2:]
		case c == '$':
			group, size, err := r.group(s, groups)
			if err != nil {
				return "", err
			}
			if group < 0 { // literally, since there is no such group
				b.WriteString(s[:size])
			} else if m[2*group] >= 0 {
				b.WriteString(name[m[2*group]:m[2*group+1]])
			}
			s = s[size:]
		default:
			b.WriteByte(c)
			s = s[1:]
		}
	}
	return b.String(), nil
}

// group parses a reference at the start of s and returns the group, -1 if it does not exist, and the length of the
// reference.
func (r principalRule) group(s string, groups int) (group, size int, err error) {
	if name, _, ok := strings.Cut(strings.TrimPrefix(s, "${"), "}"); ok && strings.HasPrefix(s, "${") {
		if group = r.pattern.SubexpIndex(name); group < 0 {
			return 0, 0, fmt.Errorf("a replacement refers to the group %q, which does not exist", name)
		}
		return group, len("${}") + len(name), nil
	}
	size = 1
	for size < len(s) && s[size] >= '0' && s[size] <= '9' {
		n, err := strconv.Atoi(s[1 : size+1])
		if err != nil || n > groups && size > 1 {
			break
		}
		group = n
		size++
	}
	switch {
	case size == 1:
		return 0, 0, errors.New("a replacement has a $ without the number of a group")
	case group <= groups:
		return group, size, nil
	case groups == 0:
		return 0, 0, fmt.Errorf("a replacement refers to the group %d, which does not exist", group)
	}
	return -1, size, nil
}

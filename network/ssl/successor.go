package ssl

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"

	"barnabas/network/keystore"
)

// Changes says which changes of certificates are allowed at run time.
type Changes struct {
	Names            bool // ssl.allow.dn.changes
	AlternativeNames bool // ssl.allow.san.changes
	Peers            bool // the context is for connections between brokers, which must be able to connect to each other
}

// CheckSuccessor checks whether next may replace c on a listener in use (SslFactory.createNewSslEngineFactory, 3.9).
func (c *Context) CheckSuccessor(next *Context, allowed Changes) error {
	refuse := func(setting string, err error) error { return &Error{Setting: setting, Err: err} }
	switch {
	case c.keys == nil && next.keys != nil:
		return refuse(next.keys.setting, errors.New("a keystore cannot be added to a listener that had none"))
	case c.keys != nil && next.keys == nil:
		return refuse(c.keys.setting, errors.New("the keystore of a listener cannot be taken away"))
	case c.trusted == nil && next.trusted != nil:
		return refuse(next.trusted.setting, errors.New("a truststore cannot be added to a listener that had none"))
	}
	if c.keys != nil {
		if err := checkEntries(c.keys.entries(), next.keys.entries(), allowed); err != nil {
			return refuse(next.keys.setting, err)
		}
	}
	if !allowed.Peers {
		return nil
	}
	if err := checkPair(c, next); err != nil {
		return refuse(next.Changed(c), fmt.Errorf("the new settings are incompatible with the previous ones: %w", err))
	}
	if err := checkPair(next, c); err != nil {
		return refuse(next.Changed(c), fmt.Errorf("the previous settings are incompatible with the new ones: %w", err))
	}
	return nil
}

// Changed returns the name of the setting whose store differs from that of the context before: the keystore's if both
// do. If neither differs, or before is nil, it returns the truststore's.
func (c *Context) Changed(before *Context) string {
	trusted := truststoreLocation
	switch {
	case c.trusted != nil:
		trusted = c.trusted.setting
	case before != nil && before.trusted != nil: // removed
		trusted = before.trusted.setting
	}
	if before == nil || c.keys == nil || before.keys == nil || slices.EqualFunc(c.keys.Keys, before.keys.Keys, sameKey) {
		return trusted
	}
	return c.keys.setting
}

func sameKey(a, b keystore.Key) bool {
	return slices.EqualFunc(a.Chain, b.Chain, (*x509.Certificate).Equal)
}

// entry is a certificate of a store with its alias.
type entry struct {
	alias string
	cert  *x509.Certificate
}

func (s *store) entries() []entry {
	var list []entry
	for _, k := range s.Keys {
		list = append(list, entry{k.Alias, k.Chain[0]})
	}
	for _, t := range s.Trusted {
		list = append(list, entry{t.Alias, t.Certificate})
	}
	return list
}

func checkEntries(old, next []entry, allowed Changes) error {
	if allowed.Names && allowed.AlternativeNames {
		return nil
	}
	if len(old) != len(next) {
		return fmt.Errorf("the keystore had %d entries and would have %d, which ssl.allow.dn.changes and ssl.allow.san.changes must both allow", len(old), len(next))
	}
	for i := range old {
		was, is := old[i], next[i]
		if !allowed.Names && !bytes.Equal(was.cert.RawSubject, is.cert.RawSubject) && !strings.EqualFold(Name(was.cert), Name(is.cert)) {
			return fmt.Errorf("the certificate %q of %s would be one of %s, which ssl.allow.dn.changes=false forbids", was.alias, Name(was.cert), Name(is.cert))
		}
		if missing := alternativeNames(was.cert).without(alternativeNames(is.cert)); !allowed.AlternativeNames && missing > 0 {
			return fmt.Errorf("the certificate %q would lack %d alternative names that it had, which ssl.allow.san.changes=false forbids", is.alias, missing)
		}
	}
	return nil
}

// nameSet is a set of alternative names in encoded form.
type nameSet map[string]bool

// without returns the number of names that are not in others.
func (n nameSet) without(others nameSet) int {
	count := 0
	for name := range n {
		if !others[name] {
			count++
		}
	}
	return count
}

var oidAlternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

func alternativeNames(cert *x509.Certificate) nameSet {
	set := nameSet{}
	for _, e := range cert.Extensions {
		if !e.Id.Equal(oidAlternativeNames) {
			continue
		}
		var names []asn1.RawValue
		if _, err := asn1.Unmarshal(e.Value, &names); err != nil {
			continue // the certificate was parsed before, so it is not that broken
		}
		for _, name := range names {
			set[string(name.FullBytes)] = true
		}
	}
	return set
}

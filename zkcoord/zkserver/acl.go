package zkserver

import (
	"crypto/sha1" // the protocol's digest scheme
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
)

// Perms are the permissions that an ACL grants, as bits.
type Perms int32

// The permissions.
const (
	PermRead   Perms = 1
	PermWrite  Perms = 2
	PermCreate Perms = 4
	PermDelete Perms = 8
	PermAdmin  Perms = 16
	PermAll    Perms = 31
)

// ID is an identity in a scheme: world, auth, digest or ip.
type ID struct{ Scheme, ID string }

// ACL grants permissions to an identity.
type ACL struct {
	Perms Perms
	ID
}

var (
	anyone  = ID{"world", "anyone"}
	openACL = []ACL{{PermAll, anyone}}
	readACL = []ACL{{PermRead, anyone}}
)

// allowed reports whether the list grants the caller one of the permissions. An empty list grants all.
func allowed(list []ACL, perms Perms, c Caller) bool {
	if len(list) == 0 {
		return true
	}
	for _, a := range list {
		if a.Perms&perms == 0 {
			continue
		}
		if a.ID == anyone {
			return true
		}
		for _, id := range c.IDs {
			if id.Scheme == a.Scheme && covers(a.ID, id) {
				return true
			}
		}
	}
	return false
}

// covers reports whether a listed identity matches the caller's identity in the same scheme.
func covers(listed, shown ID) bool {
	if listed.Scheme != "ip" {
		return listed == shown
	}
	network, err := ipRange(listed.ID)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(shown.ID)
	return err == nil && network.Contains(addr)
}

// ipRange parses an address with an optional number of bits.
func ipRange(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// resolveACL checks a list from a client and replaces the scheme auth with the client's own identities. Duplicate
// entries are dropped.
func resolveACL(list []ACL, c Caller) ([]ACL, bool) {
	var resolved []ACL
	seen := map[ACL]bool{}
	add := func(a ACL) {
		if !seen[a] {
			seen[a] = true
			resolved = append(resolved, a)
		}
	}
	for _, a := range list {
		switch a.Scheme {
		case "world":
			if a.ID != anyone {
				return nil, false
			}
			add(a)
		case "auth":
			own := c.authenticated()
			if len(own) == 0 {
				return nil, false
			}
			for _, id := range own {
				add(ACL{a.Perms, id})
			}
		case "digest":
			if strings.Count(a.ID.ID, ":") != 1 {
				return nil, false
			}
			add(a)
		case "ip":
			if _, err := ipRange(a.ID.ID); err != nil {
				return nil, false
			}
			add(a)
		default:
			return nil, false
		}
	}
	return resolved, len(resolved) > 0
}

// authenticated returns the identities that a password was presented for; an address authenticates nobody.
func (c Caller) authenticated() []ID {
	return slices.DeleteFunc(slices.Clone(c.IDs), func(id ID) bool { return id.Scheme != "digest" })
}

// digestID returns the identity of a user who presents user:password.
func digestID(secret string) ID {
	user, _, _ := strings.Cut(secret, ":")
	sum := sha1.Sum([]byte(secret))
	return ID{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

func withoutDigests(list []ACL) []ACL {
	shown := make([]ACL, len(list))
	for i, a := range list {
		if a.Scheme == "digest" {
			user, _, _ := strings.Cut(a.ID.ID, ":")
			a.ID.ID = user + ":x"
		}
		shown[i] = a
	}
	return shown
}

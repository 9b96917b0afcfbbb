package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Kind is what a limit is about.
type Kind int

// The kinds of limits. Bytes are a second; request time is in percent of one processor's time; mutations are partitions
// created or deleted a second; connections are new ones of an address a second.
const (
	Produce Kind = iota
	Fetch
	Request
	Mutation
	Connection
	kinds
)

// keys are the names of the limits in ZooKeeper and in AlterClientQuotas.
var keys = map[string]Kind{
	"producer_byte_rate": Produce, "consumer_byte_rate": Fetch, "request_percentage": Request, "controller_mutation_rate": Mutation,
	"connection_creation_rate": Connection,
}

// KindOf gives the kind of limit that a key sets.
func KindOf(key string) (Kind, bool) {
	k, ok := keys[key]
	return k, ok
}

// Keys are the names of the limits that there are for addresses, or for users and client ids, sorted.
func Keys(ofAddress bool) []string {
	var names []string
	for key, kind := range keys {
		if kind.OfAddress() == ofAddress {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return names
}

// Key is the name of the limit.
func (k Kind) Key() string {
	for key, kind := range keys {
		if kind == k {
			return key
		}
	}
	return ""
}

// OfAddress reports whether limits of this kind are set for addresses; the others are for users and client ids.
func (k Kind) OfAddress() bool { return k == Connection }

// Limits are those of one entity.
type Limits map[Kind]float64

// ParseLimits reads the limits among the settings that are stored for an entity; users have others beside them. The
// error tells of those that are no limits, which are left out.
func ParseLimits(stored map[string]string) (Limits, error) {
	parsed := make(Limits)
	var failed []error
	for key, text := range stored {
		kind, known := KindOf(key)
		if !known {
			continue
		}
		bound, err := strconv.ParseFloat(text, 64)
		if err != nil || !(bound >= 0) {
			failed = append(failed, fmt.Errorf("%s=%q is no number from 0 on", key, text))
			continue
		}
		parsed[kind] = bound
	}
	return parsed, errors.Join(failed...)
}

// Name is a user, client id or address that a limit is for. The zero Name stands for any; Default is whoever has no
// limit of its own.
type Name struct {
	Given   bool
	Default bool
	Value   string
}

// Named is the Name of a given value.
func Named(value string) Name { return Name{Given: true, Value: value} }

// DefaultName is the Name of those who are not named.
var DefaultName = Name{Given: true, Default: true}

// Entity is what limits are set for: a user, a client id, a client id of a user, or an address.
type Entity struct{ User, Client, IP Name }

// limits are all that are set. They are not changed once others see them.
type limits struct {
	of  map[Entity]Limits
	any [kinds]bool
}

// with gives the limits with those of an entity replaced.
func (l *limits) with(e Entity, set Limits) *limits {
	next := &limits{of: maps.Clone(l.of)}
	if len(set) == 0 {
		delete(next.of, e)
	} else {
		next.of[e] = maps.Clone(set)
	}
	for _, set := range next.of {
		for kind := range set {
			next.any[kind] = true
		}
	}
	return next
}

// find gives the limit of a client: the closest that is set, and whose use counts against it.
// (DefaultQuotaCallback.findQuota, 3.9)
func (l *limits) find(kind Kind, user, client string) (bound float64, counted Entity, found bool) {
	u, c := Named(user), Named(client)
	for _, e := range [...]Entity{
		{User: u, Client: c}, {User: u, Client: DefaultName}, {User: u},
		{User: DefaultName, Client: c}, {User: DefaultName, Client: DefaultName}, {User: DefaultName},
		{Client: c}, {Client: DefaultName},
	} {
		if bound, found = l.of[e][kind]; !found {
			continue
		}
		if e.User.Given {
			counted.User = u
		}
		if e.Client.Given {
			counted.Client = c
		}
		return bound, counted, true
	}
	return 0, Entity{}, false
}

// findIP gives the limit of an address; each address counts for itself.
func (l *limits) findIP(kind Kind, ip string) (bound float64, counted Entity, found bool) {
	counted.IP = Named(ip)
	for _, name := range [...]Name{counted.IP, DefaultName} {
		if bound, found = l.of[Entity{IP: name}][kind]; found {
			return bound, counted, true
		}
	}
	return 0, Entity{}, false
}

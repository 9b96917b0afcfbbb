package quota

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Kind is what a limit applies to.
type Kind int

// The kinds of limits. The units are bytes per second; for request time, percent of one processor's time; for
// mutations, partitions created or deleted per second; for connections, new ones from an address per second.
const (
	Produce Kind = iota
	Fetch
	Request
	Mutation
	Connection
	kinds
)

// keys are the names of limits in ZooKeeper and in AlterClientQuotas.
var keys = map[string]Kind{
	"producer_byte_rate": Produce, "consumer_byte_rate": Fetch, "request_percentage": Request, "controller_mutation_rate": Mutation,
	"connection_creation_rate": Connection,
}

// KindOf returns the kind of limit for a key.
func KindOf(key string) (Kind, bool) {
	k, ok := keys[key]
	return k, ok
}

// Keys returns the names of the limits that apply to addresses, or of those that apply to users and client ids, sorted.
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

// Key returns the name of the limit.
func (k Kind) Key() string {
	for key, kind := range keys {
		if kind == k {
			return key
		}
	}
	return ""
}

// OfAddress reports whether limits of this kind apply to addresses; the others apply to users and client ids.
func (k Kind) OfAddress() bool { return k == Connection }

// Limits are the limits of one entity.
type Limits map[Kind]float64

// ParseLimits parses the limits among the stored settings of an entity; users have other settings too. The error
// reports invalid limits, which are left out.
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
			failed = append(failed, fmt.Errorf("%s=%q is not a number of at least 0", key, text))
			continue
		}
		parsed[kind] = min(bound, math.MaxFloat64) // what is infinite cannot be calculated with
	}
	return parsed, errors.Join(failed...)
}

// Name is the user, client id or address of a limit. The zero Name stands for any; Default for all that have no limit
// of their own.
type Name struct {
	Given   bool
	Default bool
	Value   string
}

// Named returns the Name with the given value.
func Named(value string) Name { return Name{Given: true, Value: value} }

// DefaultName is the Name of the default limit.
var DefaultName = Name{Given: true, Default: true}

// Entity is what limits are set for: a user, a client id, a client id of a user, or an address.
type Entity struct{ User, Client, IP Name }

// limits are all limits in force. They are immutable once published.
type limits struct {
	of  map[Entity]Limits
	any [kinds]bool
}

// with returns the limits with those of an entity replaced.
func (l *limits) with(e Entity, set Limits) *limits {
	next := &limits{of: maps.Clone(l.of)}
	if len(set) == 0 {
		delete(next.of, e)
	} else {
		next.of[e] = maps.Clone(set)
	}
	next.note()
	return next
}

// newLimits returns the limits of some entities.
func newLimits(of map[Entity]Limits) *limits {
	l := &limits{of: make(map[Entity]Limits, len(of))}
	for e, set := range of {
		if len(set) > 0 {
			l.of[e] = maps.Clone(set)
		}
	}
	l.note()
	return l
}

// note finds out which kinds of limits there are.
func (l *limits) note() {
	for _, set := range l.of {
		for kind := range set {
			l.any[kind] = true
		}
	}
}

// find returns the limit of a client: the most specific one, and the entity that its use is counted for.
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

// findIP returns the limit of an address; each address is counted separately.
func (l *limits) findIP(kind Kind, ip string) (bound float64, counted Entity, found bool) {
	counted.IP = Named(ip)
	for _, name := range [...]Name{counted.IP, DefaultName} {
		if bound, found = l.of[Entity{IP: name}][kind]; found {
			return bound, counted, true
		}
	}
	return 0, Entity{}, false
}

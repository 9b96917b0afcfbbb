package quota

import "maps"

// Kind is what a limit is about.
type Kind int

// The kinds of limits. Bytes are a second; request time is in percent of one processor's time; mutations are partitions
// created or deleted a second.
const (
	Produce Kind = iota
	Fetch
	Request
	Mutation
	kinds
)

// keys are the names of the limits in ZooKeeper and in AlterClientQuotas.
var keys = map[string]Kind{
	"producer_byte_rate": Produce, "consumer_byte_rate": Fetch, "request_percentage": Request, "controller_mutation_rate": Mutation,
}

// KindOf gives the kind of limit that a key sets for users and client ids.
func KindOf(key string) (Kind, bool) {
	k, ok := keys[key]
	return k, ok
}

// ConnectionRateKey sets how many connections a second an address may open.
const ConnectionRateKey = "connection_creation_rate"

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

// Entity is what limits are set for: a user, a client id, or a client id of a user.
type Entity struct{ User, Client Name }

// limits are all that are set. They are not changed once others see them.
type limits struct {
	of  map[Entity]map[Kind]float64
	any [kinds]bool
	ips map[Name]float64
}

func (l *limits) clone() *limits {
	return &limits{of: maps.Clone(l.of), ips: maps.Clone(l.ips)}
}

func (l *limits) settle() *limits {
	for _, set := range l.of {
		for kind := range set {
			l.any[kind] = true
		}
	}
	return l
}

// find gives the limit of a client: the closest that is set, and whose use counts against it.
// (DefaultQuotaCallback.findQuota, 3.9)
func (l *limits) find(kind Kind, user, client string) (bound float64, counted Entity, found bool) {
	u, c := Named(user), Named(client)
	for _, e := range [...]Entity{
		{u, c}, {u, DefaultName}, {u, Name{}},
		{DefaultName, c}, {DefaultName, DefaultName}, {DefaultName, Name{}},
		{Name{}, c}, {Name{}, DefaultName},
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

func (l *limits) ofIP(ip string) (float64, bool) {
	if bound, ok := l.ips[Named(ip)]; ok {
		return bound, true
	}
	bound, ok := l.ips[DefaultName]
	return bound, ok
}

package config

import (
	"fmt"
	"slices"
	"strings"
)

// Type is the type of a setting; the numbers are those of DescribeConfigs (KIP-569).
type Type int8

// The types. Unknown is what DescribeConfigs returns for a key without a schema.
const (
	Unknown Type = iota
	Boolean
	String
	Int
	Short
	Long
	Double
	List
	Class
	Password
)

// Importance says how much a setting matters.
type Importance uint8

// The grades of importance, as in Apache Kafka's documentation.
const (
	High Importance = iota
	Medium
	Low
)

// Update says whether and where a setting may be changed at run time (KIP-226).
type Update uint8

// ReadOnly needs a restart, PerBroker can be changed for one broker, ClusterWide for one or all, TopicLevel for a
// topic.
const (
	ReadOnly Update = iota
	PerBroker
	ClusterWide
	TopicLevel
)

// null is the default of a setting without one.
const null = "\x00"

// Key describes one setting.
type Key struct {
	Name       string
	Type       Type
	def        string // as written in a file, or null
	check      check  // nil accepts every value of the type
	Importance Importance
	Update     Update
	Doc        string
}

// Default returns the default as written in a file, and false if there is none.
func (k *Key) Default() (string, bool) {
	return k.def, k.def != null
}

// Sensitive reports whether the value must not be shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// parse parses a value as written in a file.
func (k *Key) parse(text string) (any, error) {
	value, reason := parseValue(k.Type, text)
	if reason == "" && k.check != nil {
		reason = k.check(value)
	}
	if reason != "" {
		return nil, &Error{Key: k.Name, Value: k.show(text), Reason: reason}
	}
	return value, nil
}

// show hides secrets in messages.
func (k *Key) show(text string) string {
	if k.Sensitive() {
		return "[hidden]"
	}
	return text
}

// origin is the family that a broker key belongs to.
type origin uint8

const (
	public  origin = iota
	hidden         // Apache Kafka's internal keys: described only if set
	dynamic        // not allowed in server.properties
	own            // not a key of Apache Kafka 3.9: ours, or from older releases
)

type schema struct {
	keys    []*Key // sorted by name
	byName  map[string]*Key
	origins map[string]origin
}

func newSchema() *schema {
	return &schema{byName: map[string]*Key{}, origins: map[string]origin{}}
}

func (s *schema) add(o origin, keys []Key) {
	for i := range keys {
		k := &keys[i]
		if s.byName[k.Name] != nil {
			panic(fmt.Sprintf("config: %s is in the schema twice", k.Name))
		}
		s.byName[k.Name], s.origins[k.Name] = k, o
		s.keys = append(s.keys, k)
	}
	slices.SortFunc(s.keys, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
}

// The two schemas are built once and immutable.
var (
	brokerSchema = buildBrokerSchema()
	topicSchema  = buildTopicSchema()
)

func buildBrokerSchema() *schema {
	s := newSchema()
	for _, keys := range [][]Key{generalKeys, networkKeys, logKeys, replicationKeys, groupKeys,
		transactionKeys, securityKeys, zookeeperKeys, tieredKeys, kraftKeys} {
		s.add(public, keys)
	}
	s.add(hidden, internalKeys)
	s.add(dynamic, dynamicOnlyKeys)
	s.add(own, ownKeys)
	return s
}

func buildTopicSchema() *schema {
	s := newSchema()
	s.add(public, topicKeys)
	return s
}

// brokerKey returns the description of a broker key, or nil. A key with a listener's prefix
// (listener.name.external.ssl.keystore.location) is described by its base key.
func brokerKey(name string) *Key {
	if k := brokerSchema.byName[name]; k != nil {
		return k
	}
	if base, ok := listenerBase(name); ok {
		return brokerSchema.byName[base]
	}
	return nil
}

// topicKey returns the description of a topic key, or nil.
func topicKey(name string) *Key { return topicSchema.byName[name] }

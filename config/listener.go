package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SecurityProtocol says how a listener authenticates and encrypts; the numbers are those of the protocol and of broker
// registrations.
type SecurityProtocol int16

// The security protocols.
const (
	Plaintext     SecurityProtocol = 0
	SSL           SecurityProtocol = 1
	SASLPlaintext SecurityProtocol = 2
	SASLSSL       SecurityProtocol = 3
)

var securityProtocolNames = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// String returns the name as written in a file.
func (p SecurityProtocol) String() string { return securityProtocolNames[p] }

// TLS reports whether the connection is encrypted.
func (p SecurityProtocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL reports whether clients authenticate with SASL.
func (p SecurityProtocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

func parseSecurityProtocol(name string) (SecurityProtocol, bool) {
	i := slices.Index(securityProtocolNames, strings.ToUpper(name))
	return SecurityProtocol(i), i >= 0
}

// Listener is an address that the broker listens on, or one that it advertises.
type Listener struct {
	Name     string // in upper case
	Host     string // empty: every interface or, if advertised, this machine's name
	Port     int    // 0: any free port
	Protocol SecurityProtocol
}

// String returns the listener as written in a file.
func (l Listener) String() string {
	return fmt.Sprintf("%s://%s:%d", l.Name, bracketed(l.Host), l.Port)
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// ConfigPrefix returns the prefix of the listener's own settings.
func (l Listener) ConfigPrefix() string { return listenerPrefix(l.Name) }

func listenerPrefix(name string) string {
	return "listener.name." + strings.ToLower(name) + "."
}

// ListenerSetting returns the effective value of a setting for a listener: its own, with the listener's prefix,
// otherwise that for all, otherwise the default. as is the name under which it was set. set is false if it has neither
// a value nor a default.
func (b *Broker) ListenerSetting(l Listener, key string) (as, value string, set bool) {
	as = l.ConfigPrefix() + key
	if value, set = b.given[as]; set {
		return as, trimmed(key, value), true
	}
	value, set = b.Setting(key)
	return key, value, set
}

// Setting returns a setting as written in the file, or its default; set is false if it has neither.
func (b *Broker) Setting(key string) (value string, set bool) {
	if value, set = b.given[key]; set {
		return trimmed(key, value), true
	}
	if k := brokerKey(key); k != nil {
		if value, set = k.Default(); set {
			return value, true
		}
	}
	return "", false
}

// trimmed removes blanks around a value, unless they may be part of it.
func trimmed(key, value string) string {
	if k := brokerKey(key); k != nil && k.Type == Password {
		return value
	}
	return strings.TrimFunc(value, isJavaBlank)
}

// listenerForm matches NAME://host:port; the host may be empty or an IPv6 address in brackets.
var listenerForm = regexp.MustCompile(`^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$`)

// parseListeners parses a list such as PLAINTEXT://:9092,SSL://h:9093. Names must be unique and, with distinctPorts,
// ports too, except 0 and the pair of an IPv4 and an IPv6 address.
func parseListeners(key, text string, protocols map[string]SecurityProtocol, distinctPorts bool) ([]Listener, error) {
	refuse := func(reason string, args ...any) error {
		return &Error{Key: key, Value: text, Reason: fmt.Sprintf(reason, args...)}
	}
	var listeners []Listener
	for _, item := range splitCSV(text) {
		parts := listenerForm.FindStringSubmatch(item)
		if parts == nil {
			return nil, refuse("%q is not of the form NAME://host:port", item)
		}
		port, err := strconv.ParseInt(parts[3], 10, 32)
		if err != nil {
			return nil, refuse("%q is not a port", parts[3])
		}
		name := strings.ToUpper(parts[1])
		protocol, ok := protocols[name]
		if !ok {
			return nil, refuse("listener.security.protocol.map has no entry for %s", name)
		}
		if slices.ContainsFunc(listeners, func(l Listener) bool { return l.Name == name }) {
			return nil, refuse("%s appears twice", name)
		}
		listeners = append(listeners, Listener{Name: name, Host: parts[2], Port: int(port), Protocol: protocol})
	}
	if distinctPorts {
		if port, twice := sharedPort(listeners); twice {
			return nil, refuse("port %d appears twice, and not with one IPv4 and one IPv6 address", port)
		}
	}
	return listeners, nil
}

// splitCSV splits at commas, trims the items and drops empty ones.
func splitCSV(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// sharedPort finds a port that listeners must not share.
func sharedPort(listeners []Listener) (int, bool) {
	byPort := map[int][]Listener{}
	for _, l := range listeners {
		if l.Port != 0 {
			byPort[l.Port] = append(byPort[l.Port], l)
		}
	}
	for port, same := range byPort {
		if len(same) > 2 || len(same) == 2 && !bothFamilies(same[0].Host, same[1].Host) {
			return port, true
		}
	}
	return 0, false
}

func bothFamilies(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Is4() != y.Is4()
}

// parseMap parses comma-separated key:value pairs; the last colon separates, so that a key may be an IPv6 address.
func parseMap(key, text string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, item := range splitCSV(text) {
		i := strings.LastIndexByte(item, ':')
		if i < 0 {
			return nil, &Error{Key: key, Value: text, Reason: fmt.Sprintf("%q is not of the form name:value", item)}
		}
		pairs[strings.TrimSpace(item[:i])] = strings.TrimSpace(item[i+1:])
	}
	return pairs, nil
}

func parseProtocolMap(key, text string) (map[string]SecurityProtocol, error) {
	pairs, err := parseMap(key, text)
	if err != nil {
		return nil, err
	}
	protocols := make(map[string]SecurityProtocol, len(pairs))
	for name, value := range pairs {
		p, ok := parseSecurityProtocol(value)
		if !ok {
			return nil, &Error{Key: key, Value: text, Reason: fmt.Sprintf("%q is not a security protocol", value)}
		}
		protocols[strings.ToUpper(name)] = p
	}
	return protocols, nil
}

// hostPattern matches keys of max.connections.per.ip.overrides.
var hostPattern = regexp.MustCompile(`^[0-9a-zA-Z\-%._:]*$`)

func parseIPLimits(key, text string) (map[string]int, error) {
	pairs, err := parseMap(key, text)
	if err != nil {
		return nil, err
	}
	limits := make(map[string]int, len(pairs))
	for host, value := range pairs {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return nil, &Error{Key: key, Value: text, Reason: fmt.Sprintf("%q is not a number", value)}
		}
		if !hostPattern.MatchString(host) {
			return nil, &Error{Key: key, Value: text, Reason: fmt.Sprintf("%q is not a host", host)}
		}
		limits[host] = int(n)
	}
	return limits, nil
}

// listenerBase removes the prefix from a listener's own setting: it returns the base key of listener.name.NAME.KEY, or
// of listener.name.NAME.MECHANISM.KEY if KEY may be set for each SASL mechanism.
func listenerBase(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return "", false
	}
	_, base, ok := strings.Cut(rest, ".")
	if !ok {
		return "", false
	}
	for _, perMechanism := range []string{"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
		"sasl.server.callback.handler.class", "connections.max.reauth.ms"} {
		if strings.HasSuffix(base, perMechanism) {
			return perMechanism, true
		}
	}
	return base, true
}

package zkcoord

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"

	"github.com/go-zookeeper/zk"
)

// Endpoint is an address that a broker advertises on one of its listeners.
type Endpoint struct {
	Name     string // the listener's name
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host     string
	Port     int32
}

func (e Endpoint) text() string {
	return e.Name + "://" + net.JoinHostPort(e.Host, itoa(e.Port))
}

// BrokerInfo is a broker's registration.
type BrokerInfo struct {
	ID        int32
	Endpoints []Endpoint
	Rack      *string // broker.rack
	JMXPort   int32   // -1: none
	Features  map[string]FeatureRange
	Format    int   // of the JSON: 5, or 4 with inter.broker.protocol.version before 2.7; 0 means 5
	Epoch     int64 // the registration's czxid, when read; ignored by RegisterBroker
}

// FeatureRange is the range of a feature's levels that a broker supports.
type FeatureRange struct {
	Min int16 `json:"min_version"`
	Max int16 `json:"max_version"`
}

// Endpoint returns the address of the named listener.
func (b BrokerInfo) Endpoint(listener string) (Endpoint, bool) {
	i := slices.IndexFunc(b.Endpoints, func(e Endpoint) bool { return e.Name == listener })
	if i < 0 {
		return Endpoint{}, false
	}
	return b.Endpoints[i], true
}

func (b BrokerInfo) endpointsText() string {
	texts := make([]string, len(b.Endpoints))
	for i, e := range b.Endpoints {
		texts[i] = e.text()
	}
	return strings.Join(texts, ",")
}

// endpointProtocols is a JSON object of security protocols by listener name, in the order of the listeners.
type endpointProtocols []Endpoint

// MarshalJSON implements json.Marshaler.
func (p endpointProtocols) MarshalJSON() ([]byte, error) {
	buf := []byte{'{'}
	seen := map[string]bool{}
	for _, e := range p {
		if seen[e.Name] {
			continue
		}
		if len(seen) > 0 {
			buf = append(buf, ',')
		}
		seen[e.Name] = true
		buf = append(buf, marshal(e.Name)...)
		buf = append(buf, ':')
		buf = append(buf, marshal(e.Protocol)...)
	}
	return append(buf, '}'), nil
}

// The fields of brokerOut are in the order of Apache Kafka's nodes.
type brokerOut struct {
	Features  *map[string]FeatureRange `json:"features,omitempty"`
	Protocols endpointProtocols        `json:"listener_security_protocol_map"`
	Endpoints []string                 `json:"endpoints"`
	Rack      *string                  `json:"rack,omitempty"`
	JMXPort   int32                    `json:"jmx_port"`
	Port      int32                    `json:"port"`
	Host      *string                  `json:"host"`
	Version   int                      `json:"version"`
	Timestamp numberText               `json:"timestamp"`
}

type brokerIn struct {
	Version   int                     `json:"version"`
	Host      *string                 `json:"host"`
	Port      int32                   `json:"port"`
	JMXPort   *int32                  `json:"jmx_port"`
	Endpoints []string                `json:"endpoints"`
	Protocols map[string]string       `json:"listener_security_protocol_map"`
	Rack      *string                 `json:"rack"`
	Features  map[string]FeatureRange `json:"features"`
}

const (
	brokerFormat           = 5
	brokerFormatNoFeatures = 4
)

func encodeBroker(b BrokerInfo, nowMs int64) []byte {
	out := brokerOut{
		Protocols: b.Endpoints,
		Endpoints: make([]string, len(b.Endpoints)),
		Rack:      b.Rack,
		JMXPort:   b.JMXPort,
		Port:      -1,
		Version:   brokerFormat,
		Timestamp: numberText(nowMs),
	}
	if b.Format != 0 {
		out.Version = b.Format
	}
	if out.Version > brokerFormatNoFeatures {
		features := b.Features
		if features == nil {
			features = map[string]FeatureRange{}
		}
		out.Features = &features
	}
	for i, e := range b.Endpoints {
		out.Endpoints[i] = e.text()
		if out.Host == nil && e.Protocol == "PLAINTEXT" {
			out.Host, out.Port = &e.Host, e.Port
		}
	}
	return marshal(out)
}

// DecodeBroker decodes versions 1 to 5 of a registration; later ones as 5.
func DecodeBroker(id int32, data []byte) (BrokerInfo, error) {
	var in brokerIn
	if err := json.Unmarshal(data, &in); err != nil {
		return BrokerInfo{}, fmt.Errorf("registration of broker %d: %w", id, err)
	}
	b := BrokerInfo{ID: id, Rack: in.Rack, JMXPort: -1, Features: in.Features, Format: in.Version}
	if in.JMXPort != nil {
		b.JMXPort = *in.JMXPort
	}
	switch {
	case in.Version < 1:
		return BrokerInfo{}, fmt.Errorf("registration of broker %d: version %d", id, in.Version)
	case in.Version == 1:
		if in.Host == nil {
			return BrokerInfo{}, fmt.Errorf("registration of broker %d: no host", id)
		}
		b.Endpoints = []Endpoint{{"PLAINTEXT", "PLAINTEXT", *in.Host, in.Port}}
		return b, nil
	}
	for _, text := range in.Endpoints {
		e, err := parseEndpoint(text, in.Protocols)
		if err != nil {
			return BrokerInfo{}, fmt.Errorf("registration of broker %d: %w", id, err)
		}
		b.Endpoints = append(b.Endpoints, e)
	}
	return b, nil
}

// parseEndpoint parses NAME://host:port. If a name has no protocol assigned, the name itself is the protocol.
func parseEndpoint(text string, protocols map[string]string) (Endpoint, error) {
	name, address, ok := strings.Cut(text, "://")
	if !ok {
		return Endpoint{}, fmt.Errorf("endpoint %q has no listener name", text)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q: %w", text, err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint %q: %w", text, err)
	}
	protocol, ok := protocols[name]
	if !ok {
		protocol = name
	}
	return Endpoint{Name: name, Protocol: protocol, Host: host, Port: int32(n)}, nil
}

// RegisterBroker registers a broker for the lifetime of the session, and returns the broker epoch. It waits for the
// disappearance of a node that an earlier process of the same broker has left behind (kill -9 and immediate restart),
// where Apache Kafka exits. If the node belongs to another living broker, the error is *ErrBrokerIDInUse.
func (c *Client) RegisterBroker(ctx context.Context, b BrokerInfo) (epoch int64, err error) {
	var wait staleRegistration
	for {
		epoch, err := c.tryRegister(ctx, b)
		if !isNodeExists(err) {
			if err == nil {
				c.log.WithField(logx.Broker, b.ID).Info("broker registered")
			}
			return epoch, err
		}
		n, err := c.get(ctx, brokerPath(b.ID))
		switch {
		case isNoNode(err):
			continue
		case err != nil:
			return 0, err
		}
		switch c.session.owns(n.stat.EphemeralOwner) {
		case ownerCurrent: // the response to our own attempt was lost
			return n.stat.Czxid, c.UpdateBroker(ctx, b)
		case ownerEarlier:
			if _, _, err := c.try(ctx, c.opDeleteIf(brokerPath(b.ID), n.stat.Version)); err != nil {
				return 0, err
			}
		case ownerOther:
			if err := wait.next(ctx, c, b, n); err != nil {
				return 0, err
			}
		}
	}
}

// AwaitVacancy waits for the disappearance of a registration that an earlier process of the broker has left behind.
// Called before the broker listens, it prevents clients from connecting to a port that is not served yet. Errors are
// those of RegisterBroker.
func (c *Client) AwaitVacancy(ctx context.Context, id int32) error {
	var wait staleRegistration
	for {
		n, err := c.get(ctx, brokerPath(id))
		if err != nil {
			return ignoreNoNode(err)
		}
		if c.session.owns(n.stat.EphemeralOwner) != ownerOther {
			return nil
		}
		if err := wait.next(ctx, c, BrokerInfo{ID: id}, n); err != nil {
			return err
		}
	}
}

func (c *Client) tryRegister(ctx context.Context, b BrokerInfo) (epoch int64, err error) {
	path := brokerPath(b.ID)
	results, err := c.multi(ctx,
		c.opCreate(path, nil, zk.FlagEphemeral),
		c.opSet(path, encodeBroker(b, time.Now().UnixMilli()), 0))
	if isNoNode(err) { // somebody has removed the parent, which every start creates
		if err := c.ensurePath(ctx, brokerIDsPath); err != nil {
			return 0, err
		}
		return c.tryRegister(ctx, b)
	}
	if err != nil {
		return 0, err
	}
	return results[1].Stat.Czxid, nil
}

// Registered reports whether a broker is registered by this session.
func (c *Client) Registered(ctx context.Context, id int32) (bool, error) {
	n, found, err := c.find(ctx, brokerPath(id))
	return found && c.session.owns(n.stat.EphemeralOwner) == ownerCurrent, err
}

// staleRegistration waits for the registration of an earlier session of the same broker to vanish.
type staleRegistration struct {
	owner    int64
	deadline time.Time
}

// staleRegistrationPoll is the interval between checks of the node.
const staleRegistrationPoll = 100 * time.Millisecond

// next waits a little, or returns why waiting is pointless.
func (w *staleRegistration) next(ctx context.Context, c *Client, b BrokerInfo, n node) error {
	other, err := DecodeBroker(b.ID, n.data)
	if err != nil {
		return err
	}
	log := c.log.WithField(logx.Broker, b.ID)
	switch {
	case w.owner == 0:
		if !sameEndpoints(b, other) && answers(ctx, other) {
			return &ErrBrokerIDInUse{b.ID, other, "it answers there"}
		}
		w.owner = n.stat.EphemeralOwner
		w.deadline = time.Now().Add(c.cfg.SessionTimeout * 3 / 2) // with the server's rounding up
		log.WithField(logx.Session, fmt.Sprintf("%#x", w.owner)).
			Warnf("the broker's registration from before its restart is still there: waiting up to %v for its session to expire",
				c.cfg.SessionTimeout)
	case w.owner != n.stat.EphemeralOwner:
		return &ErrBrokerIDInUse{b.ID, other, "it has registered again just now"}
	case time.Now().After(w.deadline):
		return &ErrBrokerIDInUse{b.ID, other, fmt.Sprintf("its registration outlives the session timeout of %v", c.cfg.SessionTimeout)}
	}
	return await.Pause(ctx, staleRegistrationPoll)
}

func sameEndpoints(a, b BrokerInfo) bool {
	return slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y Endpoint) bool {
		return x.Name == y.Name && x.Host == y.Host && x.Port == y.Port
	})
}

// answers reports whether a process accepts connections at one of the broker's addresses.
func answers(ctx context.Context, b BrokerInfo) bool {
	dialer := net.Dialer{Timeout: time.Second}
	for _, e := range b.Endpoints {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(e.Host, itoa(e.Port)))
		if err == nil {
			conn.Close()
			return true
		}
	}
	return false
}

// UpdateBroker rewrites the registration of this session's broker, for example when its listeners have changed. Without
// a registration it does nothing: the session has expired, and the broker will register again.
func (c *Client) UpdateBroker(ctx context.Context, b BrokerInfo) error {
	data := encodeBroker(b, time.Now().UnixMilli())
	for {
		n, found, err := c.find(ctx, brokerPath(b.ID))
		if err != nil || !found || c.session.owns(n.stat.EphemeralOwner) != ownerCurrent {
			return err
		}
		if _, done, err := c.setIf(ctx, brokerPath(b.ID), data, n.stat.Version); err != nil || done {
			return ignoreNoNode(err)
		}
	}
}

// Brokers reads all registrations, ordered by id. One that cannot be decoded is logged and left out.
func (c *Client) Brokers(ctx context.Context) ([]BrokerInfo, error) {
	names, err := c.children(ctx, brokerIDsPath)
	if err != nil {
		return nil, ignoreNoNode(err)
	}
	return c.brokers(ctx, names, c.get)
}

// WatchBrokers is Brokers, and watches for brokers that come, go or change their registration.
func (c *Client) WatchBrokers(ctx context.Context) ([]BrokerInfo, error) {
	names, err := c.watchChildren(ctx, brokerIDsPath)
	if err != nil {
		return nil, err
	}
	return c.brokers(ctx, names, c.watchData)
}

func (c *Client) brokers(ctx context.Context, names []string, read func(context.Context, string) (node, error)) ([]BrokerInfo, error) {
	var ids []int32
	var paths []string
	for _, name := range names {
		if id, err := strconv.ParseInt(name, 10, 32); err == nil { // otherwise it is not a broker's node
			ids, paths = append(ids, int32(id)), append(paths, brokerPath(int32(id)))
		}
	}
	found, err := readAll(ctx, c, paths, read, func(i int, n node) (BrokerInfo, error) {
		b, err := DecodeBroker(ids[i], n.data)
		b.Epoch = n.stat.Czxid
		return b, err
	})
	if err != nil {
		return nil, err
	}
	brokers := present(found)
	slices.SortFunc(brokers, func(a, b BrokerInfo) int { return int(a.ID) - int(b.ID) })
	return brokers, nil
}

package broker

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"barnabas/broker/metadata"
	"barnabas/broker/replica"
	"barnabas/internal/await"
	"barnabas/network"
	"barnabas/network/ssl"
	"barnabas/zkcoord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// peers sends requests to other brokers, on behalf of the controller, followers and callers that need the controller.
// Requests to this broker itself are delivered within the process, through the same handlers.
type peers struct {
	server *Server

	mu struct {
		sync.Mutex
		conns    map[connKey]*peerConn
		failures failures
	}
	toController peerConn
}

// connKey says what a connection is for: what one kind of request waits for must not delay the others.
type connKey struct {
	broker int32
	api    int16 // fromController for everything that the controller sends
}

const fromController = -1

// peerConn is a connection that is opened on demand. It carries one request at a time.
type peerConn struct {
	mu struct {
		sync.Mutex // held during a request: a connection serves one goroutine at a time
		addr       string
		client     *network.Client
		closed     bool
	}
}

func newPeers(s *Server) *peers {
	p := &peers{server: s}
	p.mu.conns, p.mu.failures = make(map[connKey]*peerConn), make(failures)
	return p
}

func (p *peers) close() {
	p.mu.Lock()
	conns := append(slices.Collect(maps.Values(p.mu.conns)), &p.toController)
	p.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// close closes the connection for good, after the current request.
func (c *peerConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	if c.mu.client != nil {
		c.mu.client.Close()
		c.mu.client = nil
	}
}

// do sends a request, over a new connection if there is none to that address.
func (c *peerConn) do(ctx context.Context, addr string, dial dialer, req kmsg.Request) (kmsg.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doLocked(ctx, addr, dial, req)
}

// repeat is do for a request that may be sent twice: if it fails on an existing connection, whose broker may have been
// restarted since, it is sent again on a new one.
func (c *peerConn) repeat(ctx context.Context, addr string, dial dialer, req kmsg.Request) (kmsg.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.mu.client
	resp, err := c.doLocked(ctx, addr, dial, req)
	if err == nil || old == nil || ctx.Err() != nil {
		return resp, err
	}
	return c.doLocked(ctx, addr, dial, req)
}

func (c *peerConn) doLocked(ctx context.Context, addr string, dial dialer, req kmsg.Request) (kmsg.Response, error) {
	if c.mu.closed {
		return nil, net.ErrClosed
	}
	if c.mu.client != nil && c.mu.addr != addr {
		c.mu.client.Close()
		c.mu.client = nil
	}
	if c.mu.client == nil {
		client, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		c.mu.client, c.mu.addr = client, addr
	}
	resp, err := c.mu.client.Do(ctx, req)
	if err != nil {
		c.mu.client.Close()
		c.mu.client = nil
	}
	return resp, err
}

// dialer opens a connection.
type dialer func(ctx context.Context, addr string) (*network.Client, error)

// dial returns a dialer for a listener of that name.
func (p *peers) dial(listener string) dialer {
	return func(ctx context.Context, addr string) (*network.Client, error) {
		return p.dialAs(ctx, network.Dialer{}, listener, addr, "broker-"+strconv.Itoa(int(p.server.id)))
	}
}

// dialAs connects, within socket.connection.setup.timeout.ms, or longer after each failure, and logs in if the listener
// requires it.
func (p *peers) dialAs(ctx context.Context, d network.Dialer, listener, addr, clientID string) (*network.Client, error) {
	c := p.server.static
	var err error
	if d.SASL, err = p.server.saslClient(listener); err != nil {
		return nil, err
	}
	d.TLS = p.server.secured.client(listener)
	if d.TLS == nil && c.ListenerSecurityProtocolMap[listener].TLS() { // rather fail than send plaintext
		return nil, fmt.Errorf("listener %s of other brokers needs TLS, but this broker has no listener of that name to take the settings from", listener)
	}
	p.mu.Lock()
	d.Timeout = setupTimeout(c.ConnectionSetupTimeout, c.ConnectionSetupTimeoutMax, p.mu.failures[addr].times, rand.Float64())
	p.mu.Unlock()
	client, err := d.Dial(ctx, addr, clientID)
	if hint := ssl.Hint(err); err != nil && hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.mu.failures, addr)
	} else {
		p.mu.failures.add(addr, time.Now())
	}
	return client, err
}

// failures counts failed attempts to connect, by address, since the last success.
type failures map[string]failure

type failure struct {
	times int
	last  time.Time
}

// forgetFailures is the time without attempts after which an address is forgotten, since no broker has it any more.
const forgetFailures = time.Hour

// add counts a failure, and forgets addresses that have not been tried for long.
func (f failures) add(addr string, now time.Time) {
	maps.DeleteFunc(f, func(_ string, old failure) bool { return now.Sub(old.last) > forgetFailures })
	f[addr] = failure{f[addr].times + 1, now}
}

// setupTimeout doubles with each failure up to the longest. It is varied by up to a fifth in either direction, as
// random from 0 to 1 says, so that brokers do not try at the same time (KIP-601).
func setupTimeout(first, longest time.Duration, failures int, random float64) time.Duration {
	timeout := first
	for range failures {
		if timeout *= 2; timeout >= longest {
			timeout = longest
			break
		}
	}
	return time.Duration(float64(timeout) * (0.8 + 0.4*random))
}

// Send delivers a request of this broker's controller.
func (p *peers) Send(ctx context.Context, to zkcoord.BrokerInfo, req kmsg.Request) (kmsg.Response, error) {
	if to.ID == p.server.id {
		return p.server.handlers.Control(ctx, req)
	}
	addr, listener, err := p.controlAddress(to.ID, func(listener string) string {
		if e, ok := to.Endpoint(listener); ok {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
		return ""
	})
	if err != nil {
		return nil, err
	}
	c := p.conn(connKey{to.ID, fromController})
	ctx, cancel := context.WithTimeout(ctx, p.server.static.ControllerSocketTimeout)
	defer cancel()
	return c.do(ctx, addr, p.dial(listener), req)
}

func (p *peers) conn(key connKey) *peerConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.mu.conns[key]
	if c == nil {
		c = &peerConn{}
		p.mu.conns[key] = c
	}
	return c
}

// SendTo delivers a request of one of this broker's coordinators to a broker, which may be this one. It may arrive
// twice.
func (p *peers) SendTo(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	s := p.server
	if broker == s.id {
		return s.handlers.Control(ctx, req)
	}
	b := s.metadata.Current().Brokers[broker]
	if b == nil {
		return nil, fmt.Errorf("broker %d is not available: %w", broker, kerr.BrokerNotAvailable)
	}
	addr := b.Address(s.static.InterBrokerListener)
	if addr == "" {
		return nil, fmt.Errorf("broker %d has no listener %s", broker, s.static.InterBrokerListener)
	}
	ctx, cancel := context.WithTimeout(ctx, s.static.RequestTimeout)
	defer cancel()
	ctx, end := whileItHolds(ctx, s.metadata, isLive(broker))
	defer end()
	return p.conn(connKey{broker, req.Key()}).repeat(ctx, addr, p.dial(s.static.InterBrokerListener), req)
}

// controlAddress returns where requests between a controller and a broker go: control.plane.listener.name if it is set,
// so that they do not wait behind data (KIP-291). While that setting is being rolled out, a broker that does not have
// the listener yet is reached at the inter-broker listener. address returns an empty string for a listener that does
// not exist.
func (p *peers) controlAddress(id int32, address func(listener string) string) (addr, listener string, err error) {
	control, all := p.server.static.ControlPlaneListener, p.server.static.InterBrokerListener
	if addr := address(control); addr != "" {
		return addr, control, nil
	}
	if addr := address(all); addr != "" {
		return addr, all, nil
	}
	return "", "", fmt.Errorf("broker %d has no listener %s", id, all)
}

// ToController sends a request to the controller, which may be this broker's own.
func (p *peers) ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	s := p.server
	if s.controller.Active() {
		return s.handlers.Control(ctx, req)
	}
	snapshot := s.metadata.Current()
	b := snapshot.Brokers[snapshot.Controller]
	if b == nil {
		return nil, fmt.Errorf("the controller is not known: %w", kerr.NotController)
	}
	addr, listener, err := p.controlAddress(b.ID, b.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the controller: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.static.RequestTimeout)
	defer cancel()
	ctx, end := whileItHolds(ctx, s.metadata, isController(b.ID))
	defer end()
	return p.toController.do(ctx, addr, p.dial(listener), req)
}

// whileItHolds returns a context that ends with the cause that holds returns, when it returns one for the metadata of
// the cluster. A broker whose host has died without a word is not waited for once others have taken its place.
func whileItHolds(ctx context.Context, m *metadata.Cache, holds func(*metadata.Snapshot) error) (during context.Context, end context.CancelFunc) {
	during, cancel := context.WithCancelCause(ctx)
	go func() {
		err := await.Until(during, func() (bool, error) { return false, holds(m.Current()) }, &m.Changed)
		cancel(err)
	}()
	return during, func() { cancel(nil) }
}

// isController is true of metadata that name a broker as the controller.
func isController(id int32) func(*metadata.Snapshot) error {
	return func(sn *metadata.Snapshot) error {
		if sn.Controller != id {
			return fmt.Errorf("broker %d is no longer the controller: %w", id, kerr.NotController)
		}
		return nil
	}
}

// isLive is true of metadata that have a live broker.
func isLive(id int32) func(*metadata.Snapshot) error {
	return func(sn *metadata.Snapshot) error {
		if sn.Brokers[id] == nil {
			return fmt.Errorf("broker %d is gone: %w", id, kerr.BrokerNotAvailable)
		}
		return nil
	}
}

func (p *peers) dialReplica(ctx context.Context, to replica.BrokerAddress) (replica.Requester, error) {
	ctx, cancel := context.WithTimeout(ctx, p.server.static.ReplicaSocketTimeout)
	defer cancel()
	var d network.Dialer
	if p.server.static.Set("replica.socket.receive.buffer.bytes") { // its default dates from before kernels tuned buffers
		d.ReceiveBuffer = max(p.server.static.ReplicaSocketReceiveBufferBytes, 0)
	}
	client, err := p.dialAs(ctx, d, p.server.static.InterBrokerListener, to.Addr, fmt.Sprintf("broker-%d-fetcher-0", p.server.id))
	if err != nil {
		return nil, err // rather than a nil client in the interface
	}
	return client, nil
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"strconv"
	"time"

	"barnabas/broker/quota"
	"barnabas/config"
	"barnabas/network"
)

func (s *Server) networkConfig(c *config.Broker) network.Config {
	n := network.Config{
		RequestMaxBytes: int32(c.SocketRequestMaxBytes), QueuedMaxBytes: c.QueuedMaxRequestBytes,
		MaxIdle: c.ConnectionsMaxIdle, HoldBack: s.holdBack, Pace: s.pace,
		SendBuffer: max(c.SocketSendBufferBytes, 0),
	}
	// The defaults of these date from before kernels tuned buffers: they apply only if they are set.
	if c.Set("socket.listen.backlog.size") {
		n.Backlog = c.SocketListenBacklog
	}
	if c.Set("socket.receive.buffer.bytes") {
		n.ReceiveBuffer = max(c.SocketReceiveBufferBytes, 0)
	}
	return n
}

// limitConnections applies the limits on connections. The error tells that some hosts could not be found.
func (s *Server) limitConnections() error {
	limits, err := s.connectionLimits(s.config.Current())
	s.network.SetLimits(limits)
	return err
}

func (s *Server) connectionLimits(c *config.Broker) (network.Limits, error) {
	overrides, err := s.limited.byAddress(s.ctx, c.MaxConnectionsPerIPOverride)
	l := network.Limits{
		Max: c.MaxConnections, MaxPerIP: c.MaxConnectionsPerIP, MaxPerIPOver: overrides,
		MaxListener: make(map[string]int),
	}
	if len(c.Listeners) > 1 {
		l.Protected = c.InterBrokerListener
	}
	for _, listener := range c.Listeners {
		_, most, _ := c.ListenerSetting(listener, "max.connections")
		if n, err := strconv.Atoi(most); err == nil {
			l.MaxListener[listener.Name] = n
		}
	}
	return l, err
}

// limitedHosts are the addresses of the hosts in max.connections.per.ip.overrides. It is owned by the start, then by who
// holds pendingChanges.
type limitedHosts struct {
	lookUp func(ctx context.Context, host string) (address string, err error)
	asked  map[string]int // the setting of which all hosts were found last; nil: some were not
	known  map[string]string
}

// hostPatience bounds the search for the hosts, during which no other setting takes effect.
const hostPatience = 5 * time.Second

// byAddress returns the limits by address. The hosts are looked up if the setting has changed, or if some could not be
// found, which the error tells: those have the addresses that they had before, if any.
func (h *limitedHosts) byAddress(ctx context.Context, byHost map[string]int) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	found := make(map[string]string, len(byHost))
	var missing []error
	for host := range byHost {
		if ip, known := h.known[host]; known {
			found[host] = ip
		}
		if h.asked != nil && maps.Equal(h.asked, byHost) {
			continue
		}
		ip, err := h.lookUp(ctx, host)
		if err != nil {
			missing = append(missing, fmt.Errorf("max.connections.per.ip.overrides: the connections of %s: %w", host, err))
			continue
		}
		found[host] = ip
	}
	h.known, h.asked = found, nil
	if len(missing) == 0 {
		h.asked = byHost
	}
	limits := make(map[string]int, len(byHost))
	for host, ip := range found {
		if _, taken := limits[ip]; !taken || ip == host {
			limits[ip] = byHost[host]
		}
	}
	return limits, errors.Join(missing...)
}

// pace counts a new connection to a listener and returns how long it must wait.
func (s *Server) pace(listener string) time.Duration {
	ofBroker, ofListener := creationRates(s.config.Current(), listener)
	return s.quotas.Accepted(listener, ofBroker, ofListener)
}

// creationRates returns how many connections per second may be opened to all listeners together and to one of them. The
// listener between brokers, if it is not the only one, is exempt from the former (ConnectionQuotas.protectedListener,
// 3.9).
func creationRates(c *config.Broker, listener string) (ofBroker, ofListener float64) {
	ofBroker, ofListener = rateOf(c.MaxConnectionCreationRate), quota.Unlimited
	if len(c.Listeners) > 1 && listener == c.InterBrokerListener {
		ofBroker = quota.Unlimited
	}
	for _, l := range c.Listeners {
		if l.Name != listener {
			continue
		}
		_, text, _ := c.ListenerSetting(l, "max.connection.creation.rate")
		if own, err := strconv.Atoi(text); err == nil {
			ofListener = rateOf(own)
		}
	}
	return ofBroker, ofListener
}

// rateOf returns a limit; the default of such settings is the largest number.
func rateOf(setting int) float64 {
	if setting >= math.MaxInt32 {
		return quota.Unlimited
	}
	return float64(setting)
}

func (s *Server) holdBack(ip net.IP) time.Duration { return s.quotas.Connected(ip.String()) }

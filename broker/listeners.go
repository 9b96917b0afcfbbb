package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network"
	"barnabas/network/sasl"
	"barnabas/zkcoord"

	"github.com/sirupsen/logrus"
)

// listening is what this broker listens on, and the addresses that it advertises.
type listening struct {
	bound      map[string]boundListener // by name; owned by the start, then by the goroutine that is notified of settings
	advertised atomic.Pointer[[]zkcoord.Endpoint]
	stale      bool // the registration does not have what is advertised; owned as bound is
}

// boundListener is a listener with its actual port.
type boundListener struct {
	config.Listener
	port int
	sasl *sasl.Server // how its clients authenticate at present; nil: without SASL
}

// endpoints returns what is advertised.
func (l *listening) endpoints() []zkcoord.Endpoint {
	if e := l.advertised.Load(); e != nil {
		return *e
	}
	return nil
}

// listen opens a listener's socket.
func (s *Server) listen(l config.Listener) error {
	authentication, err := s.saslServer(s.config.Current(), l, nil)
	if err != nil {
		return err
	}
	encryption, err := s.secured.server(s.config.Current(), l)
	if err != nil {
		return err
	}
	addr, err := s.network.Bind(network.Listener{
		Name: l.Name, Addr: net.JoinHostPort(l.Host, strconv.Itoa(l.Port)), SASL: authentication, TLS: encryption,
	})
	if err != nil {
		return err
	}
	if s.listening.bound == nil {
		s.listening.bound = make(map[string]boundListener)
	}
	s.listening.bound[l.Name] = boundListener{l, addr.Port, authentication}
	s.log.WithField(logx.Listener, l.Name).Infof("listening on %s", addr)
	s.warnOfUnsecured(l, authentication)
	return nil
}

// advertise determines the addresses that clients and brokers are given: advertised.listeners, with this machine's name
// for an empty host and the bound port for port 0. A listener that could not be bound is left out.
func (s *Server) advertise(ctx context.Context, c *config.Broker) ([]zkcoord.Endpoint, error) {
	var endpoints []zkcoord.Endpoint
	for _, l := range c.AdvertisedListeners {
		bound, ok := s.listening.bound[l.Name]
		if !ok {
			continue
		}
		host, err := advertisedHost(l)
		if err != nil {
			return nil, err
		}
		port := l.Port
		if port == 0 {
			port = bound.port
		}
		e := zkcoord.Endpoint{Name: l.Name, Protocol: l.Protocol.String(), Host: host, Port: int32(port)}
		endpoints = append(endpoints, e)
		if !slices.Contains(s.listening.endpoints(), e) {
			s.warnOfUnreachable(ctx, l, host)
		}
	}
	return endpoints, nil
}

// advertisedHost returns a listener's host, or this machine's name.
func advertisedHost(l config.Listener) (string, error) {
	if l.Host != "" {
		return l.Host, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("advertised.listeners: %s has no host, and the name of this machine cannot be determined: %w", l, err)
	}
	return name, nil
}

// refuseListeners refuses a change of settings that would make the next start fail: listeners that cannot be opened,
// files that logins need and that cannot be read, and addresses that another broker advertises.
func (s *Server) refuseListeners(now, next *config.Broker) error {
	if err := s.secured.refuse(next); err != nil {
		return err
	}
	if err := s.refuseMechanisms(now, next); err != nil {
		return err
	}
	if err := refuseUnopenable(now, next); err != nil {
		return err
	}
	return s.refuseAdvertised(now, next)
}

// refuseAdvertised refuses addresses that another live broker advertises.
func (s *Server) refuseAdvertised(now, next *config.Broker) error {
	for _, l := range next.AdvertisedListeners {
		if slices.Contains(now.AdvertisedListeners, l) {
			continue
		}
		host, err := advertisedHost(l)
		if err != nil {
			return err
		}
		if id, taken := s.advertiser(host, l.Port); taken {
			return &config.Error{Key: "advertised.listeners", Value: l.String(), Reason: fmt.Sprintf("is advertised by broker %d already", id)}
		}
	}
	return nil
}

// advertiser returns which other live broker advertises an address, if one does.
func (s *Server) advertiser(host string, port int) (id int32, taken bool) {
	for _, b := range s.metadata.Current().Brokers {
		for _, e := range b.Endpoints {
			if b.ID != s.id && e.Host == host && int(e.Port) == port {
				return b.ID, true
			}
		}
	}
	return 0, false
}

// refuseUnopenable tries to open the ports of new listeners, except those that this broker itself has open until the
// change.
func refuseUnopenable(now, next *config.Broker) error {
	ours := make(map[int]bool, len(now.Listeners))
	for _, l := range now.Listeners {
		ours[l.Port] = true
	}
	for _, l := range next.Listeners {
		if slices.Contains(now.Listeners, l) || ours[l.Port] {
			continue
		}
		socket, err := net.Listen("tcp", net.JoinHostPort(l.Host, strconv.Itoa(l.Port)))
		if err != nil {
			return &config.Error{Key: "listeners", Value: l.String(), Reason: fmt.Sprintf("cannot be opened: %v", err)}
		}
		_ = socket.Close()
	}
	return nil
}

// listenersChanged opens and closes listeners according to the current settings and registers the advertised addresses
// (DynamicListenerConfig.reconfigure, 3.9). The error names the listeners that cannot be opened.
func (s *Server) listenersChanged(ctx context.Context, now *config.Broker) error {
	for name, b := range s.listening.bound {
		if !slices.Contains(now.Listeners, b.Listener) {
			s.network.Unbind(name)
			s.secured.drop(name)
			delete(s.listening.bound, name)
			s.log.WithField(logx.Listener, name).Info("closed a listener and its connections")
		}
	}
	var failed []error
	for _, l := range now.Listeners {
		if _, ok := s.listening.bound[l.Name]; ok {
			continue
		}
		if err := s.listen(l); err != nil {
			failed = append(failed, fmt.Errorf("listener %s: %w", l.Name, err))
		}
	}
	if err := s.advertiseAgain(ctx, now); err != nil {
		failed = append(failed, fmt.Errorf("register the listeners: %w", err))
	}
	return errors.Join(failed...)
}

// advertiseAgain updates this broker's registration, of which the controller and through it all brokers are notified.
func (s *Server) advertiseAgain(ctx context.Context, c *config.Broker) error {
	endpoints, err := s.advertise(ctx, c)
	if err != nil || slices.Equal(endpoints, s.listening.endpoints()) && !s.listening.stale {
		return err
	}
	if err := s.checkEndpoints(ctx, endpoints); err != nil {
		return err
	}
	s.listening.advertised.Store(&endpoints) // also for a registration after the session has expired
	if s.epoch.Load() == 0 {
		return nil // not registered yet
	}
	err = s.zk.UpdateBroker(ctx, s.registration(endpoints))
	s.listening.stale = err != nil
	return err
}

// bind opens the listening sockets, so that ports chosen by the system can be registered.
func (s *Server) bind(ctx context.Context) error {
	c := s.config.Current()
	s.network = network.NewServer(s.networkConfig(c), s.handlers, s.loggers.Entry(config.NetworkLogger))
	s.onStop(s.network.Close)
	s.pending.Lock()
	s.applyLocked("limits of connections", s.limitConnections)
	s.pending.Unlock()
	for _, l := range c.Listeners {
		if err := s.listen(l); err != nil {
			return s.withOrigin(err, "listeners")
		}
	}
	s.config.RefuseWhen(s.refuseListeners)
	if s.collector != nil {
		s.collector.complete.Store(true)
	}
	endpoints, err := s.advertise(ctx, c)
	s.listening.advertised.Store(&endpoints)
	return s.withOrigin(err, "advertised.listeners", "listeners")
}

// withOrigin adds to an error about settings that one of them was set at run time, since it is not in the properties
// file.
func (s *Server) withOrigin(err error, settings ...string) error {
	if err == nil {
		return nil
	}
	for _, name := range settings {
		if znode := s.config.Origin(name); znode != "" {
			return fmt.Errorf("%w (ZooKeeper has %s in %s)", err, name, znode)
		}
	}
	return err
}

// warnOfUnreachable warns of common mistakes: a name that cannot be resolved, or a loopback address when clients may be
// on other machines.
func (s *Server) warnOfUnreachable(ctx context.Context, l config.Listener, host string) {
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if ctx.Err() != nil {
		return
	}
	entry := s.log.WithFields(logrus.Fields{logx.Listener: l.Name, logx.Setting: "advertised.listeners", logx.Value: host})
	if err != nil {
		entry.Warn("the advertised host does not resolve on this machine: clients may not be able to connect")
		return
	}
	for _, ip := range ips {
		if !ip.IP.IsLoopback() {
			return
		}
	}
	if bound := s.boundHost(l.Name); bound == "" || !isLoopback(bound) {
		entry.Warn("the advertised host is a loopback address but the listener is not: clients on other machines cannot connect")
	}
}

func (s *Server) boundHost(listener string) string { return s.listening.bound[listener].Host }

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"barnabas/config"
	"barnabas/internal/logx"
	"barnabas/network"
	"barnabas/network/ssl"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// secured holds TLS for this broker's listeners, according to their current settings and keystores.
type secured struct {
	log       *logrus.Entry
	replacing sync.Mutex // held while contexts are replaced, so that the newest ones remain; before mu
	mu        struct {
		sync.Mutex // leaf
		listeners  map[string]*securedListener
	}
}

// securedListener belongs to one listener. Its context is replaced as a whole when keystores change.
type securedListener struct {
	context atomic.Pointer[ssl.Context]
	base    *config.Broker // settings when the listener was opened, which apply except for the keystores
	stores  []string       // values of storeKeys that the context was created from; guarded by secured.mu
	failed  []string       // those that could not be applied since; guarded by secured.replacing
}

func newSecured(log *logrus.Entry) *secured {
	s := &secured{log: log}
	s.mu.listeners = make(map[string]*securedListener)
	return s
}

// storeKeys are the settings that may change while a listener is open (SslConfigs.RECONFIGURABLE_CONFIGS, 3.9).
var storeKeys = []string{"ssl.key.password", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key",
	"ssl.keystore.certificate.chain", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.truststore.certificates"}

// tlsSettings returns a listener's settings: those of its keystores from one configuration, the others from another.
func tlsSettings(base, stores *config.Broker, l config.Listener) ssl.Settings {
	return ssl.Settings{Get: func(name string) (as, value string, set bool) {
		if slices.Contains(storeKeys, name) {
			return stores.ListenerSetting(l, name)
		}
		return base.ListenerSetting(l, name)
	}}
}

func storeValues(c *config.Broker, l config.Listener) []string {
	var values []string
	for _, key := range storeKeys {
		_, value, set := c.ListenerSetting(l, key)
		values = append(values, fmt.Sprint(set)+value)
	}
	return values
}

// newContext creates a listener's context and checks that it is usable. before is the context it replaces, or nil.
func newContext(base, c *config.Broker, l config.Listener, before *ssl.Context) (*ssl.Context, error) {
	made, err := ssl.ForListener(tlsSettings(base, c, l), ssl.Listener{
		Name: l.Name, Protocol: l.Protocol.String(), Prefix: l.ConfigPrefix(), Logins: l.Protocol.SASL(), Brokers: l.Name == c.InterBrokerListener,
	}, before)
	if err != nil {
		return nil, refusedTLS(err)
	}
	return made, nil
}

// refusedTLS converts an error about a TLS setting to a configuration error.
func refusedTLS(err error) error {
	if refused := (*ssl.Error)(nil); errors.As(err, &refused) {
		return &config.Error{Key: refused.Setting, Value: refused.Value, Reason: refused.Err.Error()}
	}
	return err
}

// openStores creates the contexts of all listeners, before anything is opened for clients.
func (s *Server) openStores(context.Context) error {
	c := s.config.Current()
	for _, l := range c.Listeners {
		if !l.Protocol.TLS() {
			continue
		}
		if err := s.secured.open(c, l); err != nil {
			return s.withOrigin(err, "listeners")
		}
	}
	return nil
}

// open creates a listener's context.
func (s *secured) open(c *config.Broker, l config.Listener) error {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	made, err := newContext(c, c, l, nil)
	if err != nil {
		return err
	}
	entry := &securedListener{base: c}
	s.put(l, entry, made, storeValues(c, l))
	return nil
}

// put installs a context for a listener, which may be new.
func (s *secured) put(l config.Listener, entry *securedListener, made *ssl.Context, stores []string) {
	log := s.log.WithField(logx.Listener, l.Name)
	for _, warning := range made.Warnings() {
		log.WithField(logx.Setting, warning).Warn("a TLS setting cannot be applied exactly")
	}
	if name, end := made.Expires(); time.Now().After(end) {
		log.WithField(logx.Principal, name).Warn("the certificate has expired: clients will reject it")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.listeners[l.Name] = entry
	entry.stores = stores
	entry.context.Store(made)
}

// get returns a listener's entry and the settings of its keystores, or nil if it has no TLS.
func (s *secured) get(listener string) (*securedListener, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.mu.listeners[listener]
	if entry == nil {
		return nil, nil
	}
	return entry, entry.stores
}

// expires returns when a listener's certificate expires; zero if it has none.
func (s *secured) expires(listener string) time.Time {
	entry, _ := s.get(listener)
	if entry == nil {
		return time.Time{}
	}
	_, end := entry.context.Load().Expires()
	return end
}

func (s *secured) drop(listener string) {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.listeners, listener)
}

// server returns how a listener's connections are encrypted; nil for plaintext.
func (s *secured) server(c *config.Broker, l config.Listener) (*network.TLS, error) {
	if !l.Protocol.TLS() {
		return nil, nil
	}
	entry, _ := s.get(l.Name)
	if entry == nil || entry.base != c { // a listener that is added at run time, perhaps after it could not be bound with other settings
		if err := s.open(c, l); err != nil {
			return nil, err
		}
		entry, _ = s.get(l.Name)
	}
	t := &network.TLS{Config: func() *tls.Config { return entry.context.Load().Server() }, Hint: ssl.Hint}
	if !l.Protocol.SASL() {
		t.Principal = func(cert *x509.Certificate) (string, error) { return entry.context.Load().Principal(cert) }
	}
	return t, nil
}

// client returns how this broker uses TLS at other brokers' listener of that name; nil for plaintext.
func (s *secured) client(listener string) func(host string) *tls.Config {
	entry, _ := s.get(listener)
	if entry == nil {
		return nil
	}
	return func(host string) *tls.Config { return entry.context.Load().Client(host) }
}

// successor creates a listener's context for new settings, provided that they may replace the current ones.
func (s *secured) successor(entry *securedListener, next *config.Broker, l config.Listener) (*ssl.Context, error) {
	before := entry.context.Load()
	made, err := newContext(entry.base, next, l, before)
	if err != nil {
		return nil, err
	}
	allowed := ssl.Changes{Peers: l.Name == next.InterBrokerListener}
	_, names, _ := entry.base.ListenerSetting(l, "ssl.allow.dn.changes")
	_, alternative, _ := entry.base.ListenerSetting(l, "ssl.allow.san.changes")
	allowed.Names, allowed.AlternativeNames = strings.EqualFold(names, "true"), strings.EqualFold(alternative, "true")
	if err := before.CheckSuccessor(made, allowed); err != nil {
		return nil, refusedTLS(err)
	}
	return made, nil
}

// refuse refuses settings that may not replace the current ones (SslFactory.validateReconfiguration, 3.9).
func (s *secured) refuse(next *config.Broker) error {
	for _, l := range next.Listeners {
		if !l.Protocol.TLS() {
			continue
		}
		entry, stores := s.get(l.Name)
		var err error
		switch {
		case entry == nil:
			_, err = newContext(next, next, l, nil)
		case !slices.Equal(stores, storeValues(next, l)):
			_, err = s.successor(entry, next, l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changed applies changed settings. What cannot be applied is left as it was, which the error tells.
func (s *secured) changed(now *config.Broker) error {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	var failed []error
	for _, l := range now.Listeners {
		entry, stores := s.get(l.Name)
		next := storeValues(now, l)
		if !l.Protocol.TLS() || entry == nil {
			continue
		}
		if entry.failed = nil; slices.Equal(stores, next) {
			continue
		}
		if err := s.replaceLocked(entry, now, l, next); err != nil {
			failed = append(failed, fmt.Errorf("listener %s: %w", l.Name, err))
		}
	}
	return errors.Join(failed...)
}

// reload reopens keystores whose files have changed, for listeners whose settings stay the same
// (DynamicBrokerConfig.reloadUpdatedFilesWithoutConfigChange, 3.9), and applies settings that could not be applied when
// they changed.
func (s *secured) reload(next *config.Broker) error {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	for _, l := range next.Listeners {
		entry, stores := s.get(l.Name)
		if !l.Protocol.TLS() || entry == nil {
			continue
		}
		values := storeValues(next, l)
		missed := entry.failed != nil && slices.Equal(entry.failed, values)
		if !missed && (!slices.Equal(stores, values) || !entry.context.Load().Modified()) {
			continue
		}
		err := s.replaceLocked(entry, next, l, values)
		if refused := (*config.Error)(nil); errors.As(err, &refused) {
			coded := *refused
			coded.Code = kerr.InvalidRequest
			return &coded
		} else if err != nil {
			return fmt.Errorf("%w: %w", err, kerr.InvalidRequest)
		}
	}
	return nil
}

// replaceLocked gives a listener a new context. The lock is replacing.
func (s *secured) replaceLocked(entry *securedListener, now *config.Broker, l config.Listener, stores []string) error {
	made, err := s.successor(entry, now, l)
	if err != nil {
		entry.failed = stores
		return err
	}
	entry.failed = nil
	s.put(l, entry, made, stores)
	s.log.WithField(logx.Listener, l.Name).Info("applied new TLS settings or keystores to new connections")
	return nil
}

package tools

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"barnabas/network/ssl"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// connectionMonitor watches the first exchanges between a client and its brokers. The library retries for as long as it
// may, but a wrong port, a wrong security.protocol or an untrusted certificate will not get better. Once that is
// certain for all of bootstrap.servers, or if a login is refused to a tool that has only this one, it ends the tool
// with the remedy. Safe for concurrent use; the library calls it on the goroutines of its connections, which meanwhile
// do not reconnect.
type connectionMonitor struct {
	ctx   context.Context // of the tool
	env   *Env
	seeds []string // bootstrap.servers
	p     properties
	log   *clientLog

	mu struct {
		sync.Mutex
		answered  bool                 // a broker has, and named the others
		looked    map[string]time.Time // when an address was last checked
		permanent map[string]error     // by address
	}
}

func newConnectionMonitor(ctx context.Context, env *Env, seeds []string, p properties, log *clientLog) *connectionMonitor {
	w := &connectionMonitor{ctx: ctx, env: env, seeds: seeds, p: p, log: log}
	w.mu.looked, w.mu.permanent = make(map[string]time.Time), make(map[string]error)
	return w
}

// OnBrokerConnect implements kgo.HookBrokerConnect. Versions have been requested and the login is done, or one of these
// has failed.
func (w *connectionMonitor) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil && w.end(broker, err) {
		w.log.forget()
		return
	}
	w.log.release()
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (w *connectionMonitor) OnBrokerRead(broker kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate: // these are answered even if everything else is refused; OnBrokerConnect is told about errors
		return
	}
	if err != nil {
		w.end(broker, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.answered = true
}

// end ends the tool if the error of a connection leaves no hope.
func (w *connectionMonitor) end(broker kgo.BrokerMetadata, err error) bool {
	why := w.permanentFailure(net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))), err)
	if why == nil && w.env.oneLogin && isRefusal(err) {
		why = err
	}
	if why != nil && w.env.giveUp != nil {
		w.env.giveUp(&permanentError{why})
	}
	return why != nil
}

// permanentFailure returns what is wrong with an address and with all others, if nothing has been answered so far.
func (w *connectionMonitor) permanentFailure(addr string, err error) error {
	if isDial(err) || !w.due(addr) {
		return nil
	}
	why := w.wrong(addr, err)
	if why == nil {
		return nil
	}
	for _, other := range w.seeds {
		if w.known(other) == nil && (!w.due(other) || w.wrong(other, nil) == nil) {
			return nil
		}
	}
	return why
}

// due reports whether an address has to be checked: it is in bootstrap.servers and has not been checked for a while.
func (w *connectionMonitor) due(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if last, ok := w.mu.looked[addr]; w.mu.answered || w.ctx.Err() != nil || ok && now.Sub(last) < repeatAfter {
		return false
	}
	w.mu.looked[addr] = now
	return true
}

func (w *connectionMonitor) known(addr string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.permanent[addr]
}

// wrong returns what will not get better at an address, where err occurred.
func (w *connectionMonitor) wrong(addr string, err error) error {
	why := refusedTLS(addr, err)
	if errors.As(err, new(*loginError)) {
		why = err
	}
	if why == nil {
		says, do, _ := checkProtocol(w.ctx, addr, w.p) // the settings were parsed before
		if says == "" {
			return nil
		}
		why = errors.New(strings.TrimSuffix(says, ".") + "; " + do)
		if code := (*kerr.Error)(nil); errors.As(err, &code) {
			why = &brokerError{code: code, text: why.Error()}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.permanent[addr] = why
	return why
}

// refusedTLS returns an error if it concerns certificates, of either side.
func refusedTLS(addr string, err error) error {
	hint := ssl.Hint(err)
	if !errors.As(err, new(*tls.CertificateVerificationError)) && hint == "" {
		return nil
	}
	if hint != "" && !strings.Contains(err.Error(), hint) { // TLS 1.3: the other side checks our certificate after the handshake
		err = fmt.Errorf("%s: %w (%s)", addr, err, hint)
	}
	return err
}

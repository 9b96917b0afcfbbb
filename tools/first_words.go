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

// firstWords watches how the first words between a client and its brokers go. The library tries again for as long as it may; a wrong port, a
// wrong security.protocol or a certificate that nobody vouches for do not get better by that. When it is sure of this for all of
// bootstrap.servers, or a login is refused to a tool that has only this one, it ends the tool with what to do. Safe for concurrent use; the library calls it from its goroutines of connections, which
// it keeps from connecting again meanwhile.
type firstWords struct {
	ctx   context.Context // of the tool
	env   *Env
	seeds []string // bootstrap.servers
	p     properties
	log   *clientLog

	mu struct {
		sync.Mutex
		answered bool                 // a broker has, and told of the others
		looked   map[string]time.Time // when an address was last asked what it wants
		hopeless map[string]error     // by address
	}
}

func newFirstWords(ctx context.Context, env *Env, seeds []string, p properties, log *clientLog) *firstWords {
	w := &firstWords{ctx: ctx, env: env, seeds: seeds, p: p, log: log}
	w.mu.looked, w.mu.hopeless = make(map[string]time.Time), make(map[string]error)
	return w
}

// OnBrokerConnect implements kgo.HookBrokerConnect. Versions have been asked for and the login is done, or one of them has failed.
func (w *firstWords) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil && w.end(broker, err) {
		w.log.forget()
		return
	}
	w.log.release()
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (w *firstWords) OnBrokerRead(broker kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate: // also where all else is refused; OnBrokerConnect hears of errors
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

// end ends the tool if an error of a connection leaves no hope.
func (w *firstWords) end(broker kgo.BrokerMetadata, err error) bool {
	why := w.hopeless(net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))), err)
	if why == nil && w.env.oneLogin && isRefusal(err) {
		why = err
	}
	if why != nil && w.env.giveUp != nil {
		w.env.giveUp(&hopelessError{why})
	}
	return why != nil
}

// hopeless is what is wrong with an address, and with all others, if nothing has been answered so far.
func (w *firstWords) hopeless(addr string, err error) error {
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

// due tells whether an address is to be asked what it wants: one of bootstrap.servers that has not been asked for a while.
func (w *firstWords) due(addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if last, ok := w.mu.looked[addr]; w.mu.answered || w.ctx.Err() != nil || ok && now.Sub(last) < repeatAfter {
		return false
	}
	w.mu.looked[addr] = now
	return true
}

func (w *firstWords) known(addr string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.hopeless[addr]
}

// wrong is what does not get better at an address, of which err is known.
func (w *firstWords) wrong(addr string, err error) error {
	why := refusedTLS(addr, err)
	if why == nil {
		says, do, _ := misunderstood(w.ctx, addr, w.p) // the settings have been read before
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
	w.mu.hopeless[addr] = why
	return why
}

// refusedTLS gives an error if it is of certificates, be it that of the other side or ours.
func refusedTLS(addr string, err error) error {
	hint := ssl.Hint(err)
	if !errors.As(err, new(*tls.CertificateVerificationError)) && hint == "" {
		return nil
	}
	if hint != "" && !strings.Contains(err.Error(), hint) { // TLS 1.3: the other side has looked at our certificate after the handshake
		err = fmt.Errorf("%s: %w (%s)", addr, err, hint)
	}
	return err
}

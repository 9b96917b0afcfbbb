package tools

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"barnabas/network/ssl"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// speech is how a client speaks to brokers, by its settings, or how a listener wants to be spoken to.
type speech struct {
	encrypted  bool
	logins     bool
	mechanisms []string // of logins: the client's one, or those that a listener takes
	unsure     bool     // whether there are logins could not be found out
	web        bool     // a listener that answers HTTP, and so is no broker's
}

// protocol is the security.protocol of a client that speaks so.
func (s speech) protocol() string {
	plain := "PLAINTEXT"
	if s.encrypted {
		plain = "SSL"
	}
	switch {
	case s.unsure:
		return plain + " or SASL_" + plain
	case s.logins:
		return "SASL_" + plain
	}
	return plain
}

// ownSpeech is that of the settings of --command-config.
func ownSpeech(p properties) speech {
	protocol := strings.ToUpper(p["security.protocol"])
	s := speech{encrypted: strings.HasSuffix(protocol, "SSL"), logins: strings.HasPrefix(protocol, "SASL_")}
	if s.logins {
		s.mechanisms = []string{mechanismOf(p)}
	}
	return s
}

// settingsOptions are those that name the file of a client's settings, of one tool or another.
const settingsOptions = "--command-config, --producer.config, --consumer.config"

// misunderstood asks what listens at an address whether a client of these settings speaks to it as it wants to be spoken to, and gives
// what the client meets and what to do about it if not. Where nobody is reached or understood at all it gives nothing: who connects says so.
// An error is one of the settings.
func misunderstood(ctx context.Context, addr string, p properties) (says, do string, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "", err
	}
	own, config := ownSpeech(p), &tls.Config{}
	if own.encrypted {
		secured, err := ssl.ForClient(p)
		if err != nil {
			return "", "", err
		}
		config = secured.Client(host).Clone()
	}
	// Not whether the certificate is any good, but whether there is TLS at all.
	config.InsecureSkipVerify, config.VerifyConnection = true, nil
	wanted, err := listen(ctx, addr, own, config)
	if err != nil {
		return "", "", nil
	}
	says, do = misunderstanding(addr, own, wanted)
	return says, do, nil
}

// misunderstanding is what a client meets that speaks to a listener in another way than this wants; empty where it does not.
func misunderstanding(addr string, own, wanted speech) (says, do string) {
	set := func(more string) string {
		return "set security.protocol=" + wanted.protocol() + more + " in the client's settings (" + settingsOptions + "), or name the port of a listener of " + own.protocol()
	}
	switch taken := strings.Join(wanted.mechanisms, ", "); {
	case wanted.web:
		return addr + " speaks HTTP: no broker listens there.", "name the port of a broker's listener, not that of its metrics or of another server"
	case wanted.encrypted && !own.encrypted:
		return addr + " speaks TLS, and this client does not: it is cut off, or takes the broker's alert for an answer of 352518912 bytes and runs out of memory.",
			set(" and ssl.truststore.*")
	case own.encrypted && !wanted.encrypted:
		return addr + " speaks plaintext, and this client TLS: the handshake fails, for the broker takes the client's hello for a request of 369 MB and closes the connection.",
			set("")
	case wanted.unsure:
		return "", ""
	case wanted.logins && !own.logins:
		return addr + " asks for a login by " + taken + ", and this client has none: it is cut off at its first request.", set(", sasl.mechanism and sasl.jaas.config")
	case own.logins && !wanted.logins:
		return addr + " takes no logins, and this client wants to log in: it is refused, ILLEGAL_SASL_STATE.", set("")
	case own.logins && taken != "" && !slices.Contains(wanted.mechanisms, own.mechanisms[0]):
		return fmt.Sprintf("%s takes logins by %s, and this client's is by %s: it is refused, UNSUPPORTED_SASL_MECHANISM.", addr, taken, own.mechanisms[0]),
			"set sasl.mechanism and sasl.jaas.config in the client's settings, or sasl.enabled.mechanisms on the broker"
	}
	return "", ""
}

// errNoBroker is what listens at an address and speaks neither with TLS nor without.
var errNoBroker = errors.New("no broker answers")

// listen finds out how a listener wants to be spoken to: first as this client does, then the other way. Nobody logs in. Where neither
// is answered it may be that no broker listens there.
func listen(ctx context.Context, addr string, own speech, config *tls.Config) (speech, error) {
	ways := []bool{own.encrypted, !own.encrypted}
	var heard speech
	err := errNoBroker
	for _, encrypted := range ways {
		heard, err = listenBy(ctx, addr, own, encrypted, config)
		if isDial(err) {
			return speech{}, err
		}
		if err == nil {
			break
		}
	}
	if err == nil && !heard.unsure {
		return heard, nil
	}
	for _, encrypted := range ways {
		if answersHTTP(ctx, addr, encrypted, config) {
			return speech{encrypted: encrypted, web: true}, nil
		}
	}
	if err != nil {
		return speech{}, errNoBroker
	}
	return heard, nil
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// reach connects to an address, with TLS or without. What is done there has reachTimeout, too.
func reach(ctx context.Context, addr string, encrypted bool, config *tls.Config) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: reachTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(reachTimeout))
	if err != nil || !encrypted {
		return conn, err
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// listenBy asks for a mechanism of logins, with TLS or without. Where there are none, this is answered too.
func listenBy(ctx context.Context, addr string, own speech, encrypted bool, config *tls.Config) (speech, error) {
	conn, err := reach(ctx, addr, encrypted, config)
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
		return speech{encrypted: true, unsure: true}, nil
	}
	if err != nil {
		return speech{}, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	ask := kmsg.NewPtrSASLHandshakeRequest()
	ask.Version, ask.Mechanism = 1, "PLAIN"
	if own.logins {
		ask.Mechanism = own.mechanisms[0]
	}
	answer, err := handshake(conn, ask)
	switch {
	case err != nil && encrypted: // it may want a certificate that this client does not have
		return speech{encrypted: true, unsure: true}, nil
	case err != nil:
		return speech{}, err
	case answer.ErrorCode == kerr.IllegalSaslState.Code:
		return speech{encrypted: encrypted}, nil
	}
	return speech{encrypted: encrypted, logins: true, mechanisms: answer.SupportedMechanisms}, nil
}

// answersHTTP tells whether what listens at an address is a server of web pages: many of these wait for more when a broker's client speaks.
func answersHTTP(ctx context.Context, addr string, encrypted bool, config *tls.Config) bool {
	conn, err := reach(ctx, addr, encrypted, config)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	const status = "HTTP/"
	answer := make([]byte, len(status))
	if _, err := io.WriteString(conn, "HEAD / HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == status
}

// maxHandshake bounds the answer to a handshake, a few names.
const maxHandshake = 64 << 10

// handshake asks on a new connection.
func handshake(conn io.ReadWriter, req *kmsg.SASLHandshakeRequest) (*kmsg.SASLHandshakeResponse, error) {
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("kafka-doctor")).AppendRequest(nil, req, 0)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxHandshake {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.Version = req.Version
	return resp, resp.ReadFrom(answer[4:]) // after the correlation id
}

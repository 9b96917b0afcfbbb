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

// securityProtocol is the protocol that a client uses according to its settings, or that a listener expects.
type securityProtocol struct {
	encrypted   bool
	logins      bool
	mechanisms  []string // of logins: the client's, or those that a listener accepts
	unsure      bool     // it could not be determined whether there are logins
	otherServer string   // what listens, if it is not a broker
}

// protocol returns the security.protocol of such a client.
func (s securityProtocol) protocol() string {
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

// clientProtocol returns that of the settings in --command-config.
func clientProtocol(p properties) securityProtocol {
	protocol := strings.ToUpper(p["security.protocol"])
	s := securityProtocol{encrypted: strings.HasSuffix(protocol, "SSL"), logins: strings.HasPrefix(protocol, "SASL_")}
	if s.logins {
		s.mechanisms = []string{mechanismOf(p)}
	}
	return s
}

// settingsOptions are the options for the file of client settings in the various tools.
const settingsOptions = "--command-config, --producer.config, --consumer.config"

// checkProtocol checks whether the listener at an address expects the protocol of a client with these settings, and
// otherwise returns what the client sees and the remedy. If the address cannot be reached or does not respond at all it
// returns nothing, since connecting reports that. An error concerns the settings.
func checkProtocol(ctx context.Context, addr string, p properties) (says, do string, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "", err
	}
	own, config := clientProtocol(p), &tls.Config{}
	if own.encrypted {
		secured, err := ssl.ForClient(p)
		if err != nil {
			return "", "", err
		}
		config = secured.Client(host).Clone()
	}
	// Not whether the certificate is valid, but whether there is TLS at all.
	config.InsecureSkipVerify, config.VerifyConnection = true, nil
	wanted, err := probeListener(ctx, addr, own, config)
	if err != nil {
		return "", "", nil
	}
	says, do = protocolMismatch(addr, own, wanted)
	return says, do, nil
}

// protocolMismatch returns what a client sees that uses another protocol than a listener expects; empty if they match.
func protocolMismatch(addr string, own, wanted securityProtocol) (says, do string) {
	set := func(more string) string {
		return "set security.protocol=" + wanted.protocol() + more + " in the client's settings (" + settingsOptions + "), or use the port of a listener with " + own.protocol()
	}
	switch taken := strings.Join(wanted.mechanisms, ", "); {
	case wanted.otherServer != "":
		return addr + " speaks " + wanted.otherServer + ": no broker listens there.", "use the port of a broker's listener, not that of its metrics, of ZooKeeper or of another server"
	case wanted.encrypted && !own.encrypted:
		return addr + " speaks TLS, and this client does not: it is disconnected, or takes the broker's alert for a response of 352518912 bytes and runs out of memory.",
			set(" and ssl.truststore.*")
	case own.encrypted && !wanted.encrypted:
		return addr + " speaks plaintext, and this client uses TLS: the handshake fails, since the broker takes the client's hello for a request of 369 MB and closes the connection.",
			set("")
	case wanted.unsure:
		return "", ""
	case wanted.logins && !own.logins:
		return addr + " requires a login with " + taken + ", and this client has none: it is disconnected at its first request.", set(", sasl.mechanism and sasl.jaas.config")
	case own.logins && !wanted.logins:
		return addr + " accepts no logins, and this client wants to log in: it is rejected with ILLEGAL_SASL_STATE.", set("")
	case own.logins && taken != "" && !slices.Contains(wanted.mechanisms, own.mechanisms[0]):
		return fmt.Sprintf("%s accepts logins with %s, and this client uses %s: it is rejected with UNSUPPORTED_SASL_MECHANISM.", addr, taken, own.mechanisms[0]),
			"set sasl.mechanism and sasl.jaas.config in the client's settings, or sasl.enabled.mechanisms on the broker"
	}
	return "", ""
}

// errNoBroker reports that a listener responds neither with TLS nor without.
var errNoBroker = errors.New("no broker answers")

// probeListener determines the protocol that a listener expects: first it tries that of this client, then the other. It
// does not log in. If neither is answered, it may not be a broker.
func probeListener(ctx context.Context, addr string, own securityProtocol, config *tls.Config) (securityProtocol, error) {
	ways := []bool{own.encrypted, !own.encrypted}
	var heard securityProtocol
	err := errNoBroker
	for _, encrypted := range ways {
		heard, err = probeListenerWith(ctx, addr, own, encrypted, config)
		if isDial(err) {
			return securityProtocol{}, err
		}
		if err == nil {
			break
		}
	}
	if err == nil && !heard.unsure {
		return heard, nil
	}
	for _, encrypted := range ways {
		for _, s := range otherServers {
			if s.isAt(ctx, addr, encrypted, config) {
				return securityProtocol{encrypted: encrypted, otherServer: s.name}, nil
			}
		}
	}
	if err != nil {
		return securityProtocol{}, errNoBroker
	}
	return heard, nil
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// reach connects to an address, with TLS or without. What is done with the connection is also bounded by reachTimeout.
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

// probeListenerWith asks for a login mechanism, with TLS or without. This is answered even without logins.
func probeListenerWith(ctx context.Context, addr string, own securityProtocol, encrypted bool, config *tls.Config) (securityProtocol, error) {
	conn, err := reach(ctx, addr, encrypted, config)
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
		return securityProtocol{encrypted: true, unsure: true}, nil
	}
	if err != nil {
		return securityProtocol{}, err
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
	case err != nil && encrypted: // it may require a certificate that this client does not have
		return securityProtocol{encrypted: true, unsure: true}, nil
	case err != nil:
		return securityProtocol{}, err
	case answer.ErrorCode == kerr.IllegalSaslState.Code:
		return securityProtocol{encrypted: encrypted}, nil
	}
	return securityProtocol{encrypted: encrypted, logins: true, mechanisms: answer.SupportedMechanisms}, nil
}

// otherServer is a kind of server whose port may be mistaken for a broker's. Many wait for more when a broker's client
// speaks.
type otherServer struct {
	name, question string
	answers        []string // how they begin
}

var otherServers = []otherServer{
	{"HTTP", "HEAD / HTTP/1.0\r\n\r\n", []string{"HTTP/"}},
	{"ZooKeeper's protocol", "srvr", []string{"Zookeeper version", "srvr is not executed"}}, // the latter by 4lw.commands.whitelist
}

// isAt reports whether such a server is at an address.
func (s otherServer) isAt(ctx context.Context, addr string, encrypted bool, config *tls.Config) bool {
	conn, err := reach(ctx, addr, encrypted, config)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if _, err := io.WriteString(conn, s.question); err != nil {
		return false
	}
	begin := make([]byte, 64)
	n, _ := conn.Read(begin)
	return slices.ContainsFunc(s.answers, func(a string) bool { return strings.HasPrefix(string(begin[:n]), a) })
}

// maxHandshake bounds the response to a handshake, a few names.
const maxHandshake = 64 << 10

// handshake sends the request on a new connection.
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

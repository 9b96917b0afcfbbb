// Package zklogin lets a ZooKeeper client log in with SASL, with DIGEST-MD5 as in ZooKeeper's DigestLoginModule or with
// Kerberos, so that nodes can be restricted to one user by ACLs of the scheme sasl. The ZooKeeper library does not
// support SASL, so the login takes place on the connection, between the opening of the session and the library's first
// request.
package zklogin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"barnabas/internal/jaas"
	"barnabas/network/kerberos"
)

// Section is the default section in a file of login configurations (system property zookeeper.sasl.clientconfig).
const Section = "Client"

const digestModule = "org.apache.zookeeper.server.auth.DigestLoginModule"

// Service is the default first part of the servers' principals (zookeeper.sasl.client.username, 3.8).
const Service = "zookeeper"

// ErrNoSASL reports that a server does not support SASL: connections to it have no user.
var ErrNoSASL = errors.New("the server does not ask for logins: it has no login configuration of its own")

// Login is the user of a session.
type Login struct {
	Username, Password string

	// Optional lets a session continue without a user if the server does not support SASL, as in Apache Kafka.
	Optional bool

	kerberos *kerberos.User // nil: log in with the password
	servers  servers
}

// Config says where the login configuration is.
type Config struct {
	File    string // of login configurations; empty: none
	Section string // empty: Section
	Krb5    kerberos.Source
	Service string // the first part of the servers' principals in Kerberos; empty: Service

	// Principal is the Kerberos principal of all servers, SERVICE/HOST or SERVICE/HOST@REALM (the system property
	// zookeeper.server.principal). If empty, each server has its own, made of Service and its host.
	Principal string

	// Aliases makes principals of the host names that servers are reached by. Otherwise they are made of the names of
	// the servers' addresses, as in ZooKeeper's client unless zookeeper.sasl.client.canonicalize.hostname=false.
	Aliases bool

	// Failed is called when a Kerberos ticket that is still valid could not be replaced by a newer one; may be nil.
	Failed func(error)
}

// Read finds the login in a section of a file of login configurations; nil if there is none.
func Read(c Config) (*Login, error) {
	if c.File == "" {
		return nil, nil
	}
	sections, err := jaas.ReadFile(c.File)
	if err != nil {
		return nil, err
	}
	section := cmp.Or(c.Section, Section)
	logins, found := sections[section]
	if !found {
		return nil, nil
	}
	if len(logins) != 1 {
		return nil, fmt.Errorf("section %s: exactly one login module is expected", section)
	}
	login, err := fromModule(logins[0], c)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", section, err)
	}
	return login, nil
}

func fromModule(l jaas.Login, c Config) (*Login, error) {
	switch l.Module {
	case digestModule:
		login := &Login{Username: l.Options["username"], Password: l.Options["password"]}
		if login.Username == "" || login.Password == "" {
			return nil, errors.New("username and password must be given")
		}
		return login, nil
	case jaas.Krb5Module:
		named, err := serversOf(c)
		if err != nil {
			return nil, err
		}
		user, err := kerberos.OpenUser(c.Krb5, l.Options, c.Failed)
		if err != nil {
			return nil, err
		}
		return &Login{Username: user.Name(), kerberos: user, servers: named}, nil
	}
	return nil, fmt.Errorf("the login module %s is not supported, only %s and %s", l.Module, digestModule, jaas.Krb5Module)
}

// Close ends the renewal of tickets. It may be called on nil.
func (l *Login) Close() {
	if l != nil && l.kerberos != nil {
		l.kerberos.Close()
	}
}

// Over returns a connection to a server on a host that logs in by itself: after the response that opens the session and
// before anything else, within timeout. report is called with the reason why there was no login, nil if there was one.
// Without a login the connection is closed, unless the login is optional and the reason is ErrNoSASL.
func (l *Login) Over(conn net.Conn, host string, timeout time.Duration, report func(error)) net.Conn {
	return &loginConn{Conn: conn, login: l, host: host, timeout: timeout, report: report}
}

// loginConn is such a connection. Only its reader uses the fields: the library writes nothing between its request for a
// session and the response.
type loginConn struct {
	net.Conn
	login   *Login
	host    string
	timeout time.Duration
	report  func(error)

	opened bool         // the session is open, and logged in
	answer bytes.Buffer // the rest of the response that opened it, for the library to read
}

// Read implements net.Conn.
func (c *loginConn) Read(p []byte) (int, error) {
	if !c.opened {
		if err := c.open(); err != nil {
			return 0, err
		}
		c.opened = true
	}
	if c.answer.Len() > 0 {
		return c.answer.Read(p)
	}
	return c.Conn.Read(p)
}

// open reads the response to the request for a session, and logs in if the session was opened.
func (c *loginConn) open() error {
	frame, err := readFrame(c.Conn)
	if err != nil {
		return err
	}
	c.answer.Write(binary.BigEndian.AppendUint32(nil, uint32(len(frame))))
	c.answer.Write(frame)
	if expired(frame) {
		return nil
	}
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	err = c.login.exchange(c.Conn, c.host, c.timeout)
	if err != nil {
		err = fmt.Errorf("log in as %s to ZooKeeper at %s: %w", c.login.Username, c.RemoteAddr(), err)
	}
	c.report(err)
	if err != nil && (!c.login.Optional || !errors.Is(err, ErrNoSASL)) {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// expired reports whether the response to a request for a session (protocol version, timeout, session id ...) refuses
// it.
func expired(frame []byte) bool {
	return len(frame) < 16 || binary.BigEndian.Uint64(frame[8:]) == 0
}

// exchange logs in on a connection with an open session, with the timeout as its deadline.
func (l *Login) exchange(conn net.Conn, host string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	next, err := l.dialog(ctx, host, conn.RemoteAddr())
	if err != nil {
		return err
	}
	return l.converse(conn, next)
}

// converse passes messages between a dialog and the server.
func (l *Login) converse(conn net.Conn, next func(message []byte) ([]byte, error)) error {
	token, err := next(nil)
	for xid := uint32(1); err == nil && token != nil; xid++ {
		var challenge []byte
		challenge, err = step(conn, xid, token)
		switch {
		case errors.Is(err, errRefused) && l.kerberos != nil:
			return errTicketRefused
		case err != nil:
			return err
		case xid == 1 && len(challenge) == 0:
			return ErrNoSASL
		case l.kerberos != nil && bytes.HasPrefix(challenge, passwordWanted):
			return errNoTickets
		}
		token, err = next(challenge)
	}
	return err
}

// dialog returns the client's side of a login: it takes the server's message (nil at first) and returns the answer to
// it, nil when there is none, since the login is complete.
func (l *Login) dialog(ctx context.Context, host string, addr net.Addr) (func(message []byte) ([]byte, error), error) {
	if l.kerberos != nil {
		service, host := l.servers.principal(ctx, host, addr)
		return l.kerberos.Start(ctx, service, host)
	}
	return newDigest(l.Username, l.Password).step, nil
}

// The ZooKeeper protocol.
const (
	opSASL           = 102
	answerHeader     = 4 + 8 + 4 // xid, zxid, error
	codeUnimplement  = -6
	codeAuthFailed   = -115
	largestChallenge = 64 << 10 // bytes
)

// step sends a token and returns the one in the server's response.
func step(conn net.Conn, xid uint32, token []byte) ([]byte, error) {
	request := binary.BigEndian.AppendUint32(nil, uint32(12+len(token)))
	request = binary.BigEndian.AppendUint32(request, xid)
	request = binary.BigEndian.AppendUint32(request, opSASL)
	request = binary.BigEndian.AppendUint32(request, uint32(len(token)))
	if _, err := conn.Write(append(request, token...)); err != nil {
		return nil, err
	}
	frame, err := readFrame(conn)
	if errors.Is(err, io.EOF) && len(token) > 0 {
		return nil, errRefused
	}
	if err != nil {
		return nil, err
	}
	return answeredToken(frame)
}

var (
	errRefused       = errors.New("the server refuses the user or the password")
	errTicketRefused = errors.New("the server refuses the ticket")
	errNoTickets     = errors.New("the server asks for a password (DIGEST-MD5): it does not accept tickets, or has no login of its own at the moment")
)

// passwordWanted is the beginning of the challenge from a server without a Kerberos login, because it never had one or
// could not renew its own ticket. It sends it whatever the client presents.
var passwordWanted = []byte("realm=")

// answeredToken returns the token in a response.
func answeredToken(frame []byte) ([]byte, error) {
	if len(frame) < answerHeader {
		return nil, errors.New("a response is truncated")
	}
	switch code := int32(binary.BigEndian.Uint32(frame[12:])); code {
	case 0:
	case codeUnimplement:
		return nil, ErrNoSASL
	case codeAuthFailed:
		return nil, errRefused
	default:
		return nil, fmt.Errorf("the server responds with error %d", code)
	}
	body := frame[answerHeader:]
	if len(body) < 4 {
		return nil, nil
	}
	size := int32(binary.BigEndian.Uint32(body))
	if size < 0 {
		return nil, nil
	}
	if int(size) > len(body)-4 {
		return nil, errors.New("a response is truncated")
	}
	return body[4 : 4+size], nil
}

func readFrame(conn net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 0 || n > largestChallenge {
		return nil, fmt.Errorf("a response of %d bytes, which no ZooKeeper server sends here", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(conn, frame); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return frame, nil
}

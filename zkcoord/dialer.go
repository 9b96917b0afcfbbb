package zkcoord

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"barnabas/zkcoord/zklogin"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

const loginTimeout = 5 * time.Second

// Patience returns how long each of several servers may take to open a session, so that there is time to try all of
// them before the session ends. Apache Kafka's client divides the session's timeout in the same way.
func Patience(session time.Duration, servers int) time.Duration {
	return session / time.Duration(max(servers, 1))
}

// AnswersWithin returns a connection for the library whose first read takes at most limit. The library would wait for
// several times the session's timeout, while a server that accepts connections but does not answer keeps it from trying
// another one.
func AnswersWithin(conn net.Conn, limit time.Duration) net.Conn {
	return &firstAnswer{Conn: conn, limit: limit}
}

// firstAnswer is such a connection. Only its reader uses the field.
type firstAnswer struct {
	net.Conn
	limit    time.Duration
	answered bool
}

// Read implements net.Conn.
func (c *firstAnswer) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.answered = c.answered || n > 0
	return n, err
}

// SetReadDeadline implements net.Conn.
func (c *firstAnswer) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(c.limit); !c.answered && t.After(latest) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// dialer connects to servers for the library, which does not report why connecting fails.
type dialer struct {
	tls      func(host string) *tls.Config // nil: plaintext
	login    *zklogin.Login                // nil: connections without a user
	patience time.Duration                 // how long a server may take to open a session
	log      *logrus.Entry
	failed   atomic.Pointer[error] // why the last attempt failed
}

// dial is called by the library.
func (d *dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := d.connect(network, address, timeout)
	if err != nil {
		d.failed.Store(&err)
		return nil, err
	}
	conn = AnswersWithin(conn, d.patience)
	if d.login != nil {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = d.login.Over(conn, host, loginTimeout, d.loggedIn)
	} else {
		d.failed.Store(nil)
	}
	return &libraryConn{Conn: conn, in: bufio.NewReaderSize(conn, readBuffer)}, nil
}

// loggedIn logs why a connection has no user, once as long as the reason stays the same; with nil, it has one.
func (d *dialer) loggedIn(err error) {
	if err == nil {
		d.failed.Store(nil)
		return
	}
	if before := d.failed.Swap(&err); before == nil || (*before).Error() != err.Error() {
		d.log.WithError(err).Warn("no login to ZooKeeper")
	}
}

func (d *dialer) connect(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil || d.tls == nil {
		return conn, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	secured := tls.Client(conn, d.tls(host))
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if err := secured.Handshake(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return secured, nil
}

// because adds to an error why no server could be connected to, if that is known.
func (d *dialer) because(err error) error {
	if failed := d.failed.Load(); failed != nil {
		return fmt.Errorf("%w: %w", err, *failed)
	}
	return err
}

// readBuffer holds the responses to a full pipeline, in bytes.
const readBuffer = 32 << 10

// libraryConn is the connection that the library gets. Reads are buffered, since it makes two for each response.
type libraryConn struct {
	net.Conn
	in *bufio.Reader

	opened    bool  // the request for the session was written
	continues bool  // of a session that there was before
	seen      int64 // the last zxid that the library had seen then
}

// Read implements net.Conn.
func (c *libraryConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write implements net.Conn. The library writes each request with one call, one after the other. It passes an error to
// the caller whose request could not be written, who must learn only that there was no response: isLost.
func (c *libraryConn) Write(p []byte) (int, error) {
	if !c.opened {
		c.opened = true
		c.seen, c.continues = sessionRequest(p)
	} else if c.continues {
		p = watchedFrom(p, c.seen)
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
	}
	return n, err
}

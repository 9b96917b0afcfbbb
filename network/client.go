package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"barnabas/network/sasl"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswerBytes bounds what a Client reads, so that a broken peer cannot make it allocate at will.
const maxAnswerBytes = 1 << 30

// clientReadSize is the size in bytes of a Client's buffer. Whatever exceeds it is read to where it belongs at once.
const clientReadSize = 4 << 10

// Client is a connection to another broker. It sends one request at a time, and must be used by one goroutine at a
// time.
type Client struct {
	conn        net.Conn
	in          *bufio.Reader // of conn, so that a small response takes one read(2)
	format      *kmsg.RequestFormatter
	correlation int32
	buf         []byte
	sasl        *sasl.Client // nil: no login
	host        string       // whose name is used in logins
	again       time.Time    // when to re-authenticate; zero: never
}

// Dialer connects to brokers. The zero value is ready to use.
type Dialer struct {
	Timeout       time.Duration // for connecting only; 0: as long as the context lasts
	ReceiveBuffer int           // of the socket, bytes; 0: the system's choice

	TLS  func(host string) *tls.Config // for connections to that host; nil: plaintext
	SASL *sasl.Client                  // how to log in; nil: no login
}

// Dial connects to a broker and logs in, within the lifetime of the context.
func (d Dialer) Dial(ctx context.Context, addr, clientID string) (*Client, error) {
	dialer := net.Dialer{Timeout: d.Timeout, Control: receiveBuffer(d.ReceiveBuffer)}
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn, err := newUnblocked(tcp.(*net.TCPConn))
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	if d.TLS != nil {
		if conn, err = d.secure(ctx, conn, addr); err != nil {
			return nil, err
		}
	}
	c := &Client{
		conn: conn, in: bufio.NewReaderSize(conn, clientReadSize),
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)), sasl: d.SASL,
	}
	if d.SASL == nil {
		return c, nil
	}
	if c.host, _, err = net.SplitHostPort(addr); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.within(ctx, func() error { return c.logIn(ctx) }); err != nil {
		c.Close()
		return nil, fmt.Errorf("login at %s: %w", addr, err)
	}
	return c, nil
}

// secure establishes TLS on a connection, which is closed if that fails. It may take the timeout once more.
func (d Dialer) secure(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	secured := tls.Client(conn, d.TLS(host))
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
	}
	return secured, nil
}

// Close closes the connection without TLS's close notification, which might block.
func (c *Client) Close() {
	if secured, ok := c.conn.(*tls.Conn); ok {
		_ = secured.NetConn().Close()
		return
	}
	_ = c.conn.Close()
}

// Do sends a request and returns its response, whose byte slices are valid until the next call. After an error the
// connection is unusable.
func (c *Client) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	var resp kmsg.Response
	err := c.within(ctx, func() (err error) {
		if !c.again.IsZero() && time.Now().After(c.again) {
			if err := c.logIn(ctx); err != nil {
				return fmt.Errorf("re-authentication: %w", err)
			}
		}
		resp, err = c.do(req)
		return err
	})
	return resp, err
}

// within calls f and interrupts it when the context ends.
func (c *Client) within(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(longAgo) })
	defer stop()
	err := f()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c *Client) do(req kmsg.Request) (kmsg.Response, error) {
	c.correlation++
	c.buf = c.format.AppendRequest(c.buf[:0], LaidOut(req), c.correlation)
	if _, err := c.conn.Write(c.buf); err != nil {
		return nil, err
	}
	answer, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	if len(answer) < 4 || int32(binary.BigEndian.Uint32(answer)) != c.correlation {
		return nil, fmt.Errorf("%s: the response's correlation id is not %d", kmsg.NameForKey(req.Key()), c.correlation)
	}
	answer = answer[4:]
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if answer, err = skipTags(answer); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(answer); err != nil {
		return nil, fmt.Errorf("%s: the response cannot be read: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

func (c *Client) readFrame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 0 || size > maxAnswerBytes {
		return nil, fmt.Errorf("invalid response size: %d bytes", size)
	}
	if cap(c.buf) < size {
		c.buf = make([]byte, size)
	}
	c.buf = c.buf[:size]
	_, err := io.ReadFull(c.in, c.buf)
	return c.buf, err
}

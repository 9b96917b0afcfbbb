package network

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"barnabas/internal/logx"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// TLS says how a listener's connections are encrypted. Its functions are called concurrently by many connections.
type TLS struct {
	Config func() *tls.Config // for a new connection
	// Principal returns the principal for a client's certificate. It is nil if certificates do not identify clients,
	// since there is SASL.
	Principal func(*x509.Certificate) (string, error)
	Hint      func(error) string // what to check when a handshake has failed; may be empty
}

// transport is the TLS layer of one connection, above its socket. Plaintext connections have none.
type transport struct {
	settings *TLS
	counts   *AuthenticationCounts // of the listener
	conn     *tls.Conn
	wire     wire    // below conn
	first    [4]byte // receives the first bytes of a request, so that an idle connection holds no buffer
}

// wire is the socket below TLS; it counts the bytes that pass. While it holds, TLS records are collected, since TLS
// writes each of them separately, 64 calls per MiB.
type wire struct {
	*net.TCPConn
	alive func()
	need  func(bytes int) error // requests memory during the handshake; nil: the handshake is over
	read  int                   // bytes of the handshake
	out   struct {
		sync.Mutex // TLS may also write during a Read
		held       *buffer
		used       int
		failed     error // a record may have been sent in part: nothing can follow
	}
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.TCPConn.Read(b)
	if n > 0 {
		w.alive()
	}
	if w.need != nil && err == nil {
		w.read += n
		err = w.need(handshakeCost * w.read)
	}
	return n, err
}

// handshakeCost is the maximum number of bytes that TLS holds for each byte of a handshake: it doubles the buffer in
// which it collects a message.
const handshakeCost = 2

func (w *wire) Write(b []byte) (int, error) {
	w.out.Lock()
	defer w.out.Unlock()
	if w.out.failed != nil {
		return 0, w.out.failed
	}
	if w.out.held == nil {
		return w.writeLocked(b)
	}
	if w.out.used+len(b) > len(w.out.held.bytes) {
		if err := w.flushLocked(); err != nil {
			return 0, err
		}
	}
	w.out.used += copy(w.out.held.bytes[w.out.used:], b)
	return len(b), nil
}

func (w *wire) writeLocked(b []byte) (int, error) {
	n, err := w.TCPConn.Write(b)
	if n > 0 {
		w.alive()
	}
	return n, err
}

func (w *wire) flushLocked() error {
	if w.out.used == 0 {
		return nil
	}
	_, w.out.failed = w.writeLocked(w.out.held.bytes[:w.out.used])
	w.out.used = 0
	return w.out.failed
}

// hold collects writes until release.
func (w *wire) hold() {
	w.out.Lock()
	defer w.out.Unlock()
	w.out.held = takeBuffer(heldBytes)
}

// release writes what was collected.
func (w *wire) release() error {
	w.out.Lock()
	defer w.out.Unlock()
	err := w.flushLocked()
	w.out.held.release()
	w.out.held = nil
	return err
}

// heldBytes bounds what is held, in a pooled buffer: a few records more than gatherer has plaintext.
const heldBytes = 4 * bufferSize

var errPlaintext = errors.New("the client does not begin with a TLS handshake: it speaks plaintext to a listener with TLS")

// handshakeError ends a connection whose failure has been logged already.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// handshake establishes TLS if the listener has it. It may take as long as a connection may be idle. Until the client
// begins, nothing is held for it beyond what every connection needs.
func (c *Conn) handshake() error {
	if c.secure == nil {
		return nil
	}
	err := c.beginTLS()
	if err == nil && c.auth == nil { // with SASL, a login is still to come
		c.secure.counts.Succeeded.Add(1)
	}
	if err == nil || c.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	c.secure.counts.Failed.Add(1)
	if entry, ok := c.server.refused.Line("TLS handshake failed", c.log); ok {
		entry = entry.WithError(err).WithFields(logrus.Fields{logx.Conn: c.id, logx.Listener: c.Listener, logx.Client: c.remoteIP().String()})
		if hint := c.secure.settings.Hint(err); hint != "" {
			entry = entry.WithField(logx.Hint, hint)
		}
		entry.Info("TLS handshake failed")
	}
	return handshakeError{err}
}

func (c *Conn) beginTLS() error {
	first, err := peek(c.raw)
	if err != nil {
		return err
	}
	if first != recordHandshake {
		return errPlaintext
	}
	t := c.secure
	t.wire.TCPConn, t.wire.alive, t.wire.need = c.tcp, c.alive, c.hold
	t.conn = tls.Server(&t.wire, t.settings.Config())
	if limit := c.server.cfg.MaxIdle; limit > 0 {
		_ = c.tcp.SetDeadline(time.Now().Add(limit))
	}
	err = t.conn.Handshake()
	t.wire.need = nil
	_ = c.tcp.SetDeadline(time.Time{})
	if c.ctx.Err() != nil { // close may have set a deadline, which was just cleared
		return net.ErrClosed
	}
	if err != nil {
		return err
	}
	if c.server.preAuth.drop(c); c.auth == nil {
		c.releasePreAuth()
	}
	state := t.conn.ConnectionState()
	c.encryption.Store(encryptionOf(state))
	if certs := state.PeerCertificates; len(certs) > 0 && t.settings.Principal != nil {
		c.Principal, err = t.settings.Principal(certs[0])
	}
	return err
}

// recordHandshake is the first byte of a TLS handshake. No Kafka request begins with it: its size would be too large.
const recordHandshake = 0x16

// peek waits for a first byte without consuming it.
func peek(raw syscall.RawConn) (byte, error) {
	var (
		first  [1]byte
		failed error
	)
	err := raw.Read(func(fd uintptr) bool {
		for {
			n, _, err := unix.Recvfrom(int(fd), first[:], unix.MSG_PEEK)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				return false
			case err != nil:
				failed = err
			case n == 0:
				failed = io.EOF
			}
			return true
		}
	})
	return first[0], closedOver(errors.Join(err, failed))
}

// closedOver converts the error of an expired deadline to that of a closed connection.
func closedOver(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return net.ErrClosed
	}
	return err
}

// interrupt ends whatever the connection's goroutines wait for on the socket. The reader then closes it, and notifies
// the client.
func (t *transport) interrupt(tcp *net.TCPConn) { _ = tcp.SetDeadline(longAgo) }

// close sends TLS's close notification, if there was a handshake, and closes the socket.
func (t *transport) close(tcp *net.TCPConn) {
	if t.conn == nil {
		_ = tcp.Close()
		return
	}
	_ = t.conn.Close()
}

// fill is input.fill with TLS. Bytes that are already decrypted are invisible here, so the first bytes of a request are
// read into a field of the connection, and a buffer is taken when they have arrived.
func (t *transport) fill(in *input) error {
	if in.start != in.end {
		n, err := t.conn.Read(in.buf.bytes[in.end:])
		in.end += n
		if n > 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return closedOver(err)
	}
	in.release()
	n, err := t.conn.Read(t.first[:])
	if n == 0 {
		return closedOver(err)
	}
	in.take()
	in.end = copy(in.buf.bytes, t.first[:n])
	return nil
}

// writeOut sends the content of out and empties it. File ranges pass through one buffer, together with the bytes around
// them.
func (t *transport) writeOut(out *Out) error {
	defer out.reset()
	if len(out.files) == 0 && len(out.Buf) <= recordBytes {
		if len(out.Buf) == 0 {
			return nil
		}
		_, err := t.conn.Write(out.Buf)
		return closedOver(err)
	}
	t.wire.hold()
	err := t.writeParts(out)
	return closedOver(errors.Join(err, t.wire.release()))
}

// recordBytes is the plaintext size of one TLS record.
const recordBytes = 16 << 10

func (t *transport) writeParts(out *Out) error {
	if len(out.files) == 0 {
		_, err := t.conn.Write(out.Buf)
		return err
	}
	b := takeBuffer(bufferSize)
	defer b.release()
	g := gatherer{to: t.conn, buf: b.bytes}
	sent := 0
	for i := range out.files {
		f := &out.files[i]
		if err := g.bytes(out.Buf[sent:f.at]); err != nil {
			return err
		}
		sent = f.at
		if err := g.file(f.after); err != nil {
			return err
		}
		f.after.Close()
		f.after = nil
	}
	if err := g.bytes(out.Buf[sent:]); err != nil {
		return err
	}
	return g.flush()
}

// gatherer collects bytes in a buffer and writes it whenever it is full.
type gatherer struct {
	to   *tls.Conn
	buf  []byte
	used int
}

func (g *gatherer) bytes(b []byte) error {
	for len(b) > 0 {
		n := copy(g.buf[g.used:], b)
		b, g.used = b[n:], g.used+n
		if g.used == len(g.buf) {
			if err := g.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gatherer) file(r FileRange) error {
	position, size := r.Range()
	for size > 0 {
		n, err := unix.Pread(int(r.Fd()), g.buf[g.used:g.used+int(min(size, int64(len(g.buf)-g.used)))], position)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF // the file is shorter than the range
		}
		position, size, g.used = position+int64(n), size-int64(n), g.used+n
		if g.used == len(g.buf) {
			if err := g.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gatherer) flush() error {
	if g.used == 0 {
		return nil
	}
	_, err := g.to.Write(g.buf[:g.used])
	g.used = 0
	return err
}

// tlsToPlaintext reports whether a size is really the beginning of a TLS handshake: a record type and the first byte of
// a version.
func tlsToPlaintext(size int32) bool { return size>>16 == recordHandshake<<8|3 }

var errTLSToPlaintext = errors.New("the client begins with a TLS handshake on a listener without TLS")

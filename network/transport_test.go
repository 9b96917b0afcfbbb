package network

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"barnabas/internal/testcert"
	"barnabas/internal/testwait"

	"github.com/sirupsen/logrus"
)

// secured is a server with a TLS listener, and what its clients need.
type secured struct {
	addr   *net.TCPAddr
	server *Server
	ca     *testcert.Authority
	lines  lockedBuffer // its log
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func startTLS(t *testing.T, e *echo, cfg Config, change func(*tls.Config)) *secured {
	t.Helper()
	s := &secured{ca: testcert.NewAuthority(t, "ca")}
	config := &tls.Config{Certificates: []tls.Certificate{s.ca.Issue("server", "127.0.0.1").TLS()}, ClientCAs: s.ca.Pool()}
	if change != nil {
		change(config)
	}
	if cfg.RequestMaxBytes == 0 {
		cfg.RequestMaxBytes = 1 << 20
	}
	log := logrus.New()
	log.SetOutput(&s.lines)
	s.server = NewServer(cfg, e, logrus.NewEntry(log))
	var err error
	s.addr, err = s.server.Bind(Listener{Name: "SSL", Addr: "127.0.0.1:0", TLS: &TLS{
		Config: func() *tls.Config { return config },
		Principal: func(c *x509.Certificate) (string, error) {
			if c.Subject.CommonName == "nobody" {
				return "", errors.New("no rule matches")
			}
			return "User:" + c.Subject.CommonName, nil
		},
		Hint: func(error) string { return "look there" },
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.server.Serve()
	t.Cleanup(s.server.Close)
	return s
}

func (s *secured) dial(t *testing.T, as ...tls.Certificate) *tls.Conn {
	t.Helper()
	return tls.Client(dial(t, s.addr), &tls.Config{RootCAs: s.ca.Pool(), ServerName: "127.0.0.1", Certificates: as})
}

func (s *secured) awaitLine(t *testing.T, text string) {
	t.Helper()
	testwait.See(t, "a line with "+text, func() (string, bool) {
		lines := s.lines.String()
		return lines, strings.Contains(lines, text)
	})
}

// TestTLSAnswersInOrder sends many requests in one write, with answers smaller and larger than a TLS record and than a
// buffer.
func TestTLSAnswersInOrder(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 10)}
	c := startTLS(t, e, Config{}, nil).dial(t)
	big := strings.Repeat("0123456789abcdef", 20<<10) // 320 KiB
	all := append(frame(echoNow, 0, 1, "one"), frame(echoLater, 0, 2, "two")...)
	all = append(all, frame(echoLater, 1, 3, "")...)
	all = append(all, frame(echoNow, 0, 4, big)...)
	go func() {
		_, _ = c.Write(all)
		first, second := <-e.gates, <-e.gates
		close(second)
		close(first)
	}()
	expect(t, c, 1, "one")
	expect(t, c, 2, "two")
	if got, body := readAnswer(t, c); got != 3 || body != "\x00" { // after the tagged fields of the header
		t.Errorf("answer %d, %q", got, body)
	}
	expect(t, c, 4, big)
}

// TestTLSBytesOneByOne: requests arrive in TLS records of one byte each.
func TestTLSBytesOneByOne(t *testing.T) {
	c := startTLS(t, &echo{}, Config{}, nil).dial(t)
	for _, b := range frame(echoNow, 0, 7, "slow") {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, c, 7, "slow")
}

// TestTLSFileRanges sends file ranges of sizes around that of the buffer that they pass through.
func TestTLSFileRanges(t *testing.T) {
	for _, size := range []int{0, 1, bufferSize - 10, bufferSize - 9, bufferSize, 3*bufferSize + 17} {
		content := bytes.Repeat([]byte("0123456789abcdefg"), size/17+1)[:size]
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, append([]byte("x"), content...), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		c := startTLS(t, &echo{file: file}, Config{}, nil).dial(t)
		_, _ = c.Write(append(frame(echoFile, 0, 1, ""), frame(echoNow, 0, 2, "after")...))
		expect(t, c, 1, "<"+string(content)+">")
		expect(t, c, 2, "after")
		_ = file.Close()
	}
}

// TestTLSPrincipal: the principal is derived from the client's certificate; without one there is none.
func TestTLSPrincipal(t *testing.T) {
	who := make(chan string, 1)
	e := &echo{}
	s := startTLS(t, e, Config{}, func(c *tls.Config) { c.ClientAuth = tls.VerifyClientCertIfGiven })
	s.server.dispatcher = principals{e, who}
	for _, row := range []struct {
		certs []tls.Certificate
		want  string
	}{
		{nil, "User:ANONYMOUS"},
		{[]tls.Certificate{s.ca.Issue("alice").TLS()}, "User:alice"},
	} {
		c := s.dial(t, row.certs...)
		_, _ = c.Write(frame(echoNow, 0, 1, "x"))
		expect(t, c, 1, "x")
		if got := <-who; got != row.want {
			t.Errorf("the principal is %s, want %s", got, row.want)
		}
	}
	c := s.dial(t, s.ca.Issue("nobody").TLS())
	_, _ = c.Write(frame(echoNow, 0, 1, "x"))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a client that no rule knows got %v", err)
	}
	s.awaitLine(t, "no rule matches")
}

// principals returns a connection's principal.
type principals struct {
	*echo
	who chan string
}

func (p principals) Handle(ctx context.Context, r *Request) (Answer, error) {
	p.who <- r.Conn.Principal
	return p.echo.Handle(ctx, r)
}

// TestTLSRefuses: a refused handshake is logged in one line that says what was wrong and where to look.
func TestTLSRefuses(t *testing.T) {
	s := startTLS(t, &echo{}, Config{}, func(c *tls.Config) { c.ClientAuth = tls.RequireAndVerifyClientCert })
	stranger := testcert.NewAuthority(t, "another").Issue("mallory").TLS()
	for _, row := range []struct {
		name string
		do   func(*net.TCPConn)
		line string
	}{
		{"plaintext", func(c *net.TCPConn) { _, _ = c.Write(frame(echoNow, 0, 1, "x")) }, "speaks plaintext to a listener with TLS"},
		{"a stranger", func(c *net.TCPConn) {
			conn := tls.Client(c, &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &stranger, nil
			}})
			_, _ = conn.Write(nil)
		}, "certificate signed by unknown authority"},
		{"no certificate", func(c *net.TCPConn) { _, _ = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Write(nil) }, "didn't provide a certificate"},
		{"broken", func(c *net.TCPConn) { _, _ = c.Write([]byte{0x16, 3, 1, 0, 4, 9, 9, 9, 9}) }, "TLS handshake failed"},
	} {
		s.server.refused.Interval = 0
		c := dial(t, s.addr)
		row.do(c)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", row.name)
		}
		s.awaitLine(t, row.line)
		s.awaitLine(t, "look there")
	}
	if n := s.server.Authentications()["SSL"]; n.Failed.Load() != 4 || n.Succeeded.Load() != 0 {
		t.Errorf("%d handshakes failed, %d succeeded", n.Failed.Load(), n.Succeeded.Load())
	}
}

// TestTLSToPlaintext: a TLS handshake on a plaintext listener is recognized, instead of being taken for a request of
// 369 MB.
func TestTLSToPlaintext(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := dial(t, start(t, &echo{}, Config{RequestMaxBytes: 100 << 20}))
		if err := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: version}).Handshake(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("TLS on a plaintext listener: %v", err)
		}
	}
	if !tlsToPlaintext(0x16030100) || tlsToPlaintext(0x16000000) || tlsToPlaintext(100) {
		t.Error("a TLS handshake is taken for a size")
	}
	conn := &Conn{server: &Server{}}
	if err := conn.sizeError(0x16030102); !errors.Is(err, errTLSToPlaintext) {
		t.Error(err)
	}
}

// TestTLSGoodbye: whichever side closes a connection sends close_notify, so that the client does not take it for an
// attack.
func TestTLSGoodbye(t *testing.T) {
	s := startTLS(t, &echo{}, Config{MaxIdle: time.Second}, nil)
	idle := s.dial(t)
	_, _ = idle.Write(frame(echoNow, 0, 1, "x"))
	expect(t, idle, 1, "x")
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection was closed with %v", err)
	}
	bad := s.dial(t)
	_, _ = bad.Write([]byte{0xff, 0xff, 0xff, 0xff})
	if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a bad frame closes the connection with %v", err)
	}
	last := s.dial(t)
	_, _ = last.Write(frame(echoNow, 0, 1, "x"))
	expect(t, last, 1, "x")
	s.server.Close()
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("closing the server closes the connection with %v", err)
	}
}

// TestTLSSilentClients: clients that send nothing, or stop during the handshake, are closed like idle connections.
func TestTLSSilentClients(t *testing.T) {
	s := startTLS(t, &echo{}, Config{MaxIdle: 100 * time.Millisecond}, nil)
	for _, said := range [][]byte{nil, {0x16}, {0x16, 3, 1, 2, 0, 1}} {
		c := dial(t, s.addr)
		_, _ = c.Write(said)
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %x: %v", said, err)
		}
	}
}

// TestTLSSlowHandshake: a handshake must complete within the idle limit, even if bytes keep arriving.
func TestTLSSlowHandshake(t *testing.T) {
	s := startTLS(t, &echo{}, Config{MaxIdle: 150 * time.Millisecond}, nil)
	c := dial(t, s.addr)
	var ended error
	for i := 0; ended == nil && i < 2000; i++ {
		b := []byte{0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb}
		at := []byte{0}
		if i < len(b) {
			at = b[i : i+1]
		}
		_, ended = c.Write(at)
		time.Sleep(5 * time.Millisecond)
	}
	if ended == nil {
		t.Error("a handshake may take ten seconds")
	}
}

// TestTLSBusyWriterIsInterrupted: a client that does not read does not delay closing the server.
func TestTLSBusyWriterIsInterrupted(t *testing.T) {
	e := &echo{gates: make(chan chan struct{}, 1)}
	s := startTLS(t, e, Config{SendBuffer: 4 << 10}, nil)
	c := s.dial(t)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	go func() {
		request := frame(echoNow, 0, 1, strings.Repeat("x", 512<<10))
		for {
			if _, err := c.Write(request); err != nil {
				return
			}
		}
	}()
	testwait.Until(t, "a connection", func() bool { return len(s.server.Connections()) > 0 })
	closed := make(chan struct{})
	go func() { s.server.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("closing the server waits for a client that does not read")
	}
}

// TestTLSResumes: sessions are resumed with the client's principal, but not under another configuration.
func TestTLSResumes(t *testing.T) {
	var config *tls.Config
	s := startTLS(t, &echo{}, Config{}, func(c *tls.Config) { config, c.ClientAuth = c, tls.VerifyClientCertIfGiven })
	other := config.Clone() // as after a reload: the same certificates, but other session ticket keys
	cache := tls.NewLRUClientSessionCache(1)
	connect := func() bool {
		c := tls.Client(dial(t, s.addr), &tls.Config{RootCAs: s.ca.Pool(), ServerName: "127.0.0.1", ClientSessionCache: cache})
		_, _ = c.Write(frame(echoNow, 0, 1, "x"))
		expect(t, c, 1, "x")
		return c.ConnectionState().DidResume
	}
	if connect() || !connect() {
		t.Error("the second connection does not resume the first one's session")
	}
	s.server.mu.Lock()
	s.server.mu.listeners[0].TLS.Config = func() *tls.Config { return other }
	s.server.mu.Unlock()
	if connect() {
		t.Error("a session was resumed under another configuration")
	}
}

// TestDialerTLS connects to a TLS server, and checks the errors when that fails.
func TestDialerTLS(t *testing.T) {
	s := startTLS(t, &echo{}, Config{}, nil)
	d := Dialer{Timeout: 10 * time.Second, TLS: func(host string) *tls.Config {
		return &tls.Config{RootCAs: s.ca.Pool(), ServerName: host}
	}}
	c, err := d.Dial(context.Background(), s.addr.String(), "me")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	d.TLS = func(host string) *tls.Config { return &tls.Config{ServerName: host} }
	if _, err := d.Dial(context.Background(), s.addr.String(), "me"); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("a server with an untrusted certificate: %v", err)
	}
	plain := start(t, &echo{}, Config{})
	if _, err := d.Dial(context.Background(), plain.String(), "me"); err == nil || !strings.Contains(err.Error(), "TLS handshake with "+plain.String()) {
		t.Errorf("a plaintext server: %v", err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := d.Dial(ctx, mute.Addr().String(), "me"); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// TestTLSSilentClientsCostLittle: no TLS state is allocated for a client before it sends anything.
func TestTLSSilentClientsCostLittle(t *testing.T) {
	s := startTLS(t, &echo{}, Config{}, nil)
	const clients = 20
	for range clients {
		dial(t, s.addr)
	}
	testwait.Until(t, "all clients are connected", func() bool { return s.server.Connections()["SSL"] == clients })
	s.server.mu.Lock()
	for c := range s.server.mu.conns {
		if c.secure.conn != nil {
			t.Error("there is TLS state for a client that has sent nothing")
		}
	}
	s.server.mu.Unlock()
}

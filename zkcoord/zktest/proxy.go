package zktest

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy is between a client and ZooKeeper, and breaks connections on demand.
type Proxy struct {
	// Connect is the connect string through the proxy.
	Connect string

	target   string
	listener net.Listener
	workers  sync.WaitGroup
	mu       struct {
		sync.Mutex
		cut   bool          // refuse and break all connections
		lose  []byte        // break the connection when the response to a request with these bytes comes
		held  chan struct{} // responses wait until it is closed; nil: they do not wait
		conns map[net.Conn]struct{}
	}
}

// NewProxy starts a proxy for a connect string from Connect; it ends with the test.
func NewProxy(t testing.TB, connect string) *Proxy {
	t.Helper()
	target, chroot, _ := strings.Cut(connect, "/")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Connect: listener.Addr().String() + "/" + chroot, target: target, listener: listener}
	p.mu.conns = make(map[net.Conn]struct{})
	p.workers.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
		p.workers.Wait()
	})
	return p
}

// Cut breaks all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.cut = true
	p.releaseLocked()
	for c := range p.mu.conns {
		c.Close()
	}
}

// Hold holds back responses until Heal, which must come before the session expires.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.held = make(chan struct{})
}

// Heal lets connections and responses pass again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.cut = false
	p.releaseLocked()
}

func (p *Proxy) releaseLocked() {
	if p.mu.held != nil {
		close(p.mu.held)
		p.mu.held = nil
	}
}

// wait waits while responses are held back.
func (p *Proxy) wait() {
	p.mu.Lock()
	held := p.mu.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

// LoseAnswer makes the next request that contains text reach the server, and its response, with the connection, get
// lost.
func (p *Proxy) LoseAnswer(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lose = []byte(text)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		lose := make(chan struct{}, 1)
		p.workers.Go(func() { p.requests(server, client, lose) })
		p.workers.Go(func() { p.answers(client, server, lose) })
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.cut {
		return false
	}
	for _, c := range conns {
		p.mu.conns[c] = struct{}{}
	}
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.mu.conns, c)
	}
}

// doomed reports whether the response to a request is to be lost.
func (p *Proxy) doomed(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.lose == nil || !bytes.Contains(request, p.mu.lose) {
		return false
	}
	p.mu.lose = nil
	return true
}

func (p *Proxy) requests(server, client net.Conn, lose chan<- struct{}) {
	defer p.drop(server, client)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if p.doomed(buf[:n]) {
			lose <- struct{}{}
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) answers(client, server net.Conn, lose <-chan struct{}) {
	defer p.drop(server, client)
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-lose:
			return
		default:
		}
		p.wait()
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

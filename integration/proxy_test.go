package integration

import (
	"net"
	"sync"
	"testing"
)

// proxy connects a broker to ZooKeeper, and can cut the connection.
type proxy struct {
	ln    net.Listener
	tasks sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	flow   sync.Cond
	target string
	cut    bool
	ended  bool
	conns  map[net.Conn]struct{}
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, target: target, conns: make(map[net.Conn]struct{})}
	p.flow.L = &p.mu
	p.tasks.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

// sever lets nothing through any more, without either side being told.
func (p *proxy) sever(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.flow.Broadcast()
}

// turn redirects it to another target, and closes present connections.
func (p *proxy) turn(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) leadsTo() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

func (p *proxy) close() {
	_ = p.ln.Close()
	p.mu.Lock()
	p.ended = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.flow.Broadcast()
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *proxy) accept() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.leadsTo())
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = struct{}{}, struct{}{}
		if p.ended {
			_, _ = in.Close(), out.Close()
		}
		p.mu.Unlock()
		p.tasks.Go(func() { p.copy(in, out) })
		p.tasks.Go(func() { p.copy(out, in) })
	}
}

// copy forwards bytes while the connection is not severed.
func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.cut && !p.ended {
			p.flow.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			p.mu.Lock()
			delete(p.conns, from)
			p.mu.Unlock()
			return
		}
	}
}

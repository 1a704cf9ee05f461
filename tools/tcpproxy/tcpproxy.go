// Package tcpproxy is a way to a server that can be taken away and given back, for tests
// and benchmarks of clients.
package tcpproxy

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy carries connections to one server.
type Proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex
	away    bool
	refused int
	conns   map[net.Conn]struct{}
}

// Listen begins to carry connections to target, an address with a port.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.group.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Away cuts all connections, and from then on every new one at once.
func (p *Proxy) Away() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
	for c := range p.conns {
		_ = c.Close() // the other end may have been faster
	}
}

// Back ends Away, and says how many connections were refused so far.
func (p *Proxy) Back() (refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
	return p.refused
}

// Close ends everything.
func (p *Proxy) Close() {
	_ = p.listener.Close() // ends accept; there is nothing to lose
	p.Away()
	p.group.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(c) {
			_ = c.Close() // that is the outage
			continue
		}
		p.group.Go(func() { p.carry(c) })
	}
}

// keep notes a connection, unless the server is away.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		p.refused++
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close() // twice does no harm
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// carry until either side ends, and ends both.
func (p *Proxy) carry(client net.Conn) {
	defer p.drop(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	if !p.keep(server) {
		_ = server.Close() // it went away meanwhile
		return
	}
	defer p.drop(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client) // its end is all that counts
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server) // as above
	_ = client.Close()
	<-done
}

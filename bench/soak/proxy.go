package main

import (
	"context"
	"net"
	"strings"
	"sync"
)

// direction of what a proxy carries.
type direction int

const (
	toServer direction = iota
	toClient
)

// proxy is the address of several API servers for one client: it gives connections
// in turn. Each direction can be cut: what is sent then is not lost but late, as with TCP.
type proxy struct {
	listener net.Listener
	targets  []string
	ctx      context.Context
	end      func()
	group    sync.WaitGroup

	mu     sync.Mutex
	served int
	gates  [2]chan struct{} // nil: open; closed when it opens again
	conns  map[net.Conn]struct{}
}

func newProxy(urls ...string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, conns: map[net.Conn]struct{}{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	for _, u := range urls {
		p.targets = append(p.targets, strings.TrimPrefix(u, "https://"))
	}
	p.group.Go(p.run)
	return p, nil
}

func (p *proxy) url() string { return "https://" + p.listener.Addr().String() }

func (p *proxy) close() {
	p.end()
	p.listener.Close()
	p.reset()
	p.group.Wait()
}

func (p *proxy) run() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.carry(c) })
	}
}

func (p *proxy) carry(client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.next())
	if err != nil {
		return
	}
	defer server.Close()
	p.keep(client)
	defer p.drop(client)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.copy(server, client, toServer)
	}()
	p.copy(client, server, toClient)
	<-done
}

// copy until either side ends, and ends both.
func (p *proxy) copy(to, from net.Conn, d direction) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.pass(d) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while a direction is cut.
func (p *proxy) pass(d direction) bool {
	for {
		p.mu.Lock()
		gate := p.gates[d]
		p.mu.Unlock()
		if gate == nil {
			return true
		}
		select {
		case <-p.ctx.Done():
			return false
		case <-gate:
		}
	}
}

func (p *proxy) cut(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gates[d] == nil {
		p.gates[d] = make(chan struct{})
	}
}

func (p *proxy) join(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gates[d] != nil {
		close(p.gates[d])
		p.gates[d] = nil
	}
}

// reset ends all connections.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served++
	return p.targets[p.served%len(p.targets)]
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

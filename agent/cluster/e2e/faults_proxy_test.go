package e2e

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is one address of several API servers: it gives connections in turn, and
// lets none live longer than life (0: for ever). It can be cut.
type proxy struct {
	listener net.Listener
	targets  []string
	life     time.Duration
	group    sync.WaitGroup
	sent     atomic.Int64 // bytes to the client

	mu     sync.Mutex
	closed bool // no connection is let through
	served int
	conns  map[net.Conn]struct{}
}

func newProxy(t *testing.T, life time.Duration, urls ...string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, life: life, conns: map[net.Conn]struct{}{}}
	for _, u := range urls {
		p.targets = append(p.targets, strings.TrimPrefix(u, "https://"))
	}
	p.group.Go(p.run)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.cut()
		p.group.Wait()
	})
	return p
}

// kubeconfig of ebb-controller, by way of the proxy.
func (p *proxy) kubeconfig(t *testing.T, b *fixture) string {
	t.Helper()
	text, err := os.ReadFile(b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	through := strings.ReplaceAll(string(text), b.URL(), "https://"+p.listener.Addr().String())
	if err := os.WriteFile(path, []byte(through), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
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

func (p *proxy) carry(c net.Conn) {
	defer c.Close()
	target, life, ok := p.enter(c)
	if !ok {
		return
	}
	defer p.leave(c)
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	if life > 0 {
		defer time.AfterFunc(life, func() { c.Close() }).Stop()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, c) // ends with either end: that is what it is for
		server.Close()
	}()
	_, _ = io.Copy(&counting{c, p}, server)
	c.Close()
	<-done
}

// counting counts what goes to the client.
type counting struct {
	net.Conn
	p *proxy
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.p.sent.Add(int64(n))
	return n, err
}

func (p *proxy) enter(c net.Conn) (target string, life time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served++
	if p.closed {
		return "", 0, false
	}
	p.conns[c] = struct{}{}
	return p.targets[p.served%len(p.targets)], p.life, true
}

// withdraw gives a target no more connections; those that it has stay.
func (p *proxy) withdraw(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = slices.DeleteFunc(slices.Clone(p.targets), func(t string) bool { return t == target })
}

// offer gives connections to all of these in turn.
func (p *proxy) offer(urls ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = nil
	for _, u := range urls {
		p.targets = append(p.targets, strings.TrimPrefix(u, "https://"))
	}
}

// counts are the connections and the bytes to the client so far.
func (p *proxy) counts() (connections int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served, p.sent.Load()
}

func (p *proxy) leave(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// only gives all connections to one.
func (p *proxy) only(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets, p.life = []string{strings.TrimPrefix(url, "https://")}, 0
	for c := range p.conns {
		c.Close()
	}
}

// cut ends all connections, and lets none through.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
}

// join ends a cut.
func (p *proxy) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}

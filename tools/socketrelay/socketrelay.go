// Package socketrelay relays connections to a server, and can refuse, delay and break
// them, for tests and benchmarks of clients.
package socketrelay

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
)

// Direction is a direction of data through a relay.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Relay relays data between clients and one server, or several servers in turn.
type Relay struct {
	listener net.Listener
	targets  []string
	ctx      context.Context // until Close
	end      context.CancelFunc
	working  sync.WaitGroup

	mu     sync.Mutex
	away   bool
	served int
	held   [2]chan struct{} // by direction; nil: not held; closed by Release
	conns  map[net.Conn]struct{}
}

// Start listens on the Unix socket path and relays to the Unix socket target. The
// caller must Close it.
func Start(path, target string) (*Relay, error) { return listen("unix", path, target) }

// StartTCP listens on the loopback address and relays to targets, which are addresses
// with a port. Each connection goes to the next target. The caller must Close it.
func StartTCP(targets ...string) (*Relay, error) { return listen("tcp", "127.0.0.1:0", targets...) }

func listen(network, address string, targets ...string) (*Relay, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: l, targets: targets, conns: map[net.Conn]struct{}{}}
	r.ctx, r.end = context.WithCancel(context.Background())
	r.working.Go(r.accept)
	return r, nil
}

// Addr is the relay's address: a path, or an address with a port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// In returns text with the first target's address replaced by the relay's, for a
// kubeconfig, for instance.
func (r *Relay) In(text string) string { return strings.ReplaceAll(text, r.targets[0], r.Addr()) }

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.working.Go(func() { r.carry(c) })
	}
}

// carry relays a connection until either side ends, and then closes both.
func (r *Relay) carry(client net.Conn) {
	defer client.Close()
	if !r.keep(client) {
		return
	}
	defer r.drop(client)
	server, err := new(net.Dialer).DialContext(r.ctx, r.listener.Addr().Network(), r.next())
	if err != nil {
		return
	}
	defer server.Close()
	if !r.keep(server) {
		return // Away was called during the dial
	}
	defer r.drop(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.copy(server, client, ToServer)
	}()
	r.copy(client, server, ToClient)
	<-done
}

func (r *Relay) copy(to, from net.Conn, d Direction) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(holding{to, r, d}, from) // ends when either side does
}

// holding is a connection whose writes wait while their direction is held.
type holding struct {
	net.Conn
	relay     *Relay
	direction Direction
}

func (h holding) Write(b []byte) (int, error) {
	for {
		h.relay.mu.Lock()
		held := h.relay.held[h.direction]
		h.relay.mu.Unlock()
		if held == nil {
			return h.Conn.Write(b)
		}
		select {
		case <-held:
		case <-h.relay.ctx.Done():
			return 0, h.relay.ctx.Err()
		}
	}
}

func (r *Relay) next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served++
	return r.targets[r.served%len(r.targets)]
}

// keep records a connection, and returns false if the server is away.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away {
		r.conns[c] = struct{}{}
	}
	return !r.away
}

func (r *Relay) drop(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// Cut closes all present connections.
func (r *Relay) Cut() { r.cut(false) }

// Away closes all connections, and from then on every new one at once.
func (r *Relay) Away() { r.cut(true) }

func (r *Relay) cut(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = r.away || away
	for c := range r.conns {
		_ = c.Close() // the other end may have closed it first
	}
}

// Back ends Away.
func (r *Relay) Back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = false
}

// Hold stops relaying in a direction. The data is delayed, not lost, as with TCP.
func (r *Relay) Hold(d Direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[d] == nil {
		r.held[d] = make(chan struct{})
	}
}

// Release ends Hold.
func (r *Relay) Release(d Direction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[d] != nil {
		close(r.held[d])
		r.held[d] = nil
	}
}

// Freeze holds both directions, like a server that hangs: clients get no answer.
func (r *Relay) Freeze() { r.Hold(ToServer); r.Hold(ToClient) }

// Thaw ends Freeze and closes the old connections: data held in them is lost.
func (r *Relay) Thaw() {
	r.Cut()
	r.Release(ToServer)
	r.Release(ToClient)
}

// Close stops the relay, and returns once all of its goroutines have ended.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.end()
	r.Away()
	r.working.Wait()
	return err
}

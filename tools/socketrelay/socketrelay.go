// Package socketrelay is a way to a server that can be taken away, held up and cut, for
// tests and benchmarks of clients.
package socketrelay

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
)

// Direction is one of the two in which a relay passes on what is sent.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Relay passes on what is sent between clients and one server, or several in turn.
type Relay struct {
	listener net.Listener
	targets  []string
	ctx      context.Context // of its whole life
	end      context.CancelFunc
	working  sync.WaitGroup

	mu     sync.Mutex
	away   bool
	served int
	held   [2]chan struct{} // by direction; nil: passed on; closed when that goes on
	conns  map[net.Conn]struct{}
}

// Start serves at a Unix socket what listens at another. The caller must Close it.
func Start(path, target string) (*Relay, error) { return listen("unix", path, target) }

// StartTCP serves on the loopback address what listens at addresses with a port: each
// connection goes to the next of them. The caller must Close it.
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

// Addr is where it serves: a path, or an address with a port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// In is a text in which the first target's address is replaced by the relay's: of a
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

// carry until either side ends, and end both.
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
		return // it went away meanwhile
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

// holding writes once its direction is not held up.
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

// keep notes a connection, unless the server is away.
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

// Cut breaks all connections that there are.
func (r *Relay) Cut() { r.cut(false) }

// Away breaks all connections, and from then on every new one at once.
func (r *Relay) Away() { r.cut(true) }

func (r *Relay) cut(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = r.away || away
	for c := range r.conns {
		_ = c.Close() // the other end may have been faster
	}
}

// Back ends Away.
func (r *Relay) Back() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = false
}

// Hold passes nothing on in a direction: what is sent is not lost but late, as with TCP.
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

// Freeze holds both directions, as a server that hangs: nobody gets an answer.
func (r *Relay) Freeze() { r.Hold(ToServer); r.Hold(ToClient) }

// Thaw goes on with new connections: of the old ones nothing more is passed on.
func (r *Relay) Thaw() {
	r.Cut()
	r.Release(ToServer)
	r.Release(ToClient)
}

// Close ends it, and returns when nothing of it works any more.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.end()
	r.Away()
	r.working.Wait()
	return err
}

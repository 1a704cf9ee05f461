// Package socketrelay is a Unix socket between a client and a server that can break and hang.
package socketrelay

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Relay passes on what is said, until it is cut or frozen.
type Relay struct {
	listener net.Listener
	target   string
	working  sync.WaitGroup
	frozen   atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

// Start serves at path what listens at target. The caller must Close it.
func Start(path, target string) (*Relay, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	r := &Relay{listener: listener, target: target}
	r.working.Go(r.accept)
	return r, nil
}

// Path is where it serves.
func (r *Relay) Path() string { return r.listener.Addr().String() }

func (r *Relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		out, err := net.Dial("unix", r.target)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			r.working.Go(func() {
				_, _ = io.Copy(hanging{pair[0], r}, pair[1]) // ends when either side is closed
				in.Close()
				out.Close()
			})
		}
	}
}

// hanging swallows what is written while the relay is frozen, so that the other side
// waits for its answer.
type hanging struct {
	net.Conn
	relay *Relay
}

func (h hanging) Write(b []byte) (int, error) {
	if h.relay.frozen.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// Freeze swallows what is said from now on, as with a server that hangs: nobody gets an answer.
func (r *Relay) Freeze() { r.frozen.Store(true) }

// Thaw goes on, with new connections: what was swallowed is missing in the old ones.
func (r *Relay) Thaw() {
	r.frozen.Store(false)
	r.Cut()
}

// Cut breaks all connections that there are.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// Close ends it, and returns when nothing of it works any more.
func (r *Relay) Close() error {
	err := r.listener.Close()
	r.Cut()
	r.working.Wait()
	return err
}

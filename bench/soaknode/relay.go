package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// relay is a socket between the agent and containerd that can hang.
type relay struct {
	listener net.Listener
	target   string
	working  sync.WaitGroup
	frozen   atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func startRelay(path, target string) (*relay, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: target}
	r.working.Go(r.accept)
	return r, nil
}

func (r *relay) path() string { return r.listener.Addr().String() }

func (r *relay) accept() {
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
	relay *relay
}

func (h hanging) Write(b []byte) (int, error) {
	if h.relay.frozen.Load() {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

// thaw goes on, with new connections: what was swallowed is missing in the old ones.
func (r *relay) thaw() {
	r.frozen.Store(false)
	r.cut()
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

func (r *relay) close() {
	r.listener.Close()
	r.cut()
	r.working.Wait()
}

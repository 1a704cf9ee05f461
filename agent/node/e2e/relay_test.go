package e2e

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// fakeSocket is where a test puts something else than containerd's socket.
func (b *fixture) fakeSocket() string { return filepath.Join(b.node.Dir(), "fake.sock") }

// startRelay serves the node's containerd at path until the test ends.
func (b *fixture) startRelay(path string) *socketrelay.Relay {
	b.Helper()
	r, err := socketrelay.Start(path, b.node.Socket())
	b.must(err)
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// staleSocket leaves a socket's file that nobody listens on.
func (b *fixture) staleSocket(path string) func() error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	b.must(err)
	listener.SetUnlinkOnClose(false)
	b.must(listener.Close())
	return func() error { return os.Remove(path) }
}

// webServer speaks HTTP/1.1 on a socket, and nothing else.
func (b *fixture) webServer(path string) func() error {
	listener, err := net.Listen("unix", path)
	b.must(err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() error {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
}

// silentListener takes connections and never answers.
func (b *fixture) silentListener(path string) func() error {
	listener, err := net.Listen("unix", path)
	b.must(err)
	return listener.Close // connections wait in its queue
}

func TestSocketFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words []string
		fault func(*fixture, string) (end func() error)
	}{
		"missing": {[]string{"no such socket", "fake.sock"}, func(*fixture, string) func() error { return func() error { return nil } }},
		"refused": {[]string{"nothing listens on the socket", "fake.sock"}, (*fixture).staleSocket},
		"http":    {[]string{"not a containerd"}, (*fixture).webServer},
		"silent":  {[]string{"not a containerd"}, (*fixture).silentListener},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, node.Debian)
			b.config.Runtime.Socket = b.fakeSocket()
			end := c.fault(b, b.fakeSocket())
			b.startUnready()
			b.awaitNotReady(c.words...)
			if _, err := b.agent.Get(b.ctx, "/healthz"); err != nil {
				t.Errorf("an agent that waits is not alive: %v", err)
			}
			if got := b.metric("ebb_node_runtime_dial_failures_total"); got < 1 {
				t.Errorf("%g failed attempts were counted", got)
			}
			b.must(end())
			b.startRelay(b.fakeSocket())
			begun := time.Now()
			b.awaitReady()
			t.Logf("ready %v after containerd appeared", time.Since(begun).Round(10*time.Millisecond))
		})
	}
}

// TestEventStreamCut breaks the agent's connection; containerd goes on, and
// images come meanwhile.
func TestEventStreamCut(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 2)...)
	b.config.Runtime.Socket = b.fakeSocket()
	r := b.startRelay(b.fakeSocket())
	b.start()
	b.use("a1", "a0")
	b.awaitOrder()
	for _, late := range []string{"late0", "late1"} {
		mark := b.journal.mark()
		r.Cut()
		b.importImages(plain(late, layerBytes))
		b.use("a1", late)
		b.journal.await(t, mark, "runtime events broke off; reconnecting")
		b.journal.await(t, mark, "runtime events are back")
		b.awaitReady()
		b.awaitOrder()
	}
}

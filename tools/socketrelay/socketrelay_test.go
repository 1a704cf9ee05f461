package socketrelay

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a client and what the server has accepted of it, through a relay.
func pair(t *testing.T, network string) (r *Relay, dial func() net.Conn, accept func() net.Conn) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "server.sock")
	}
	server, err := net.Listen(network, address)
	must(err)
	if network == "unix" {
		r, err = Start(filepath.Join(t.TempDir(), "relay.sock"), address)
	} else {
		r, err = StartTCP(server.Addr().String())
	}
	must(err)
	t.Cleanup(func() { must(errors.Join(r.Close(), server.Close())) })
	of := func(f func() (net.Conn, error)) func() net.Conn {
		return func() net.Conn {
			t.Helper()
			c, err := f()
			must(err)
			t.Cleanup(func() { c.Close() })
			return c
		}
	}
	return r, of(func() (net.Conn, error) { return net.Dial(network, r.Addr()) }), of(server.Accept)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(c net.Conn, want string, patience time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != want {
		return io.ErrUnexpectedEOF
	}
	return nil
}

const (
	patience = 10 * time.Second
	moment   = 200 * time.Millisecond
)

// What is sent while a direction is held arrives when it is released, and the other
// direction goes on.
func TestHold(t *testing.T) {
	r, dial, accept := pair(t, "tcp")
	client := dial()
	server := accept()
	send(t, client, "there")
	if err := read(server, "there", patience); err != nil {
		t.Fatal(err)
	}
	r.Hold(ToServer)
	send(t, server, "back")
	if err := read(client, "back", patience); err != nil {
		t.Fatal(err)
	}
	send(t, client, "late")
	if err := read(server, "late", moment); !os.IsTimeout(err) {
		t.Errorf("a held direction returns %v", err)
	}
	r.Release(ToServer)
	if err := read(server, "late", patience); err != nil {
		t.Error(err)
	}
	r.Cut()
	if err := read(client, "x", patience); err == nil || os.IsTimeout(err) {
		t.Errorf("a cut connection returns %v", err)
	}
}

// Of what is sent to a server that hangs nothing arrives, then or later.
func TestFreeze(t *testing.T) {
	r, dial, accept := pair(t, "unix")
	client := dial()
	server := accept()
	r.Freeze()
	send(t, client, "lost")
	if err := read(server, "lost", moment); !os.IsTimeout(err) {
		t.Errorf("a frozen server reads %v", err)
	}
	r.Thaw()
	if err := read(server, "lost", patience); err == nil || os.IsTimeout(err) {
		t.Errorf("a thawed server reads %v", err)
	}
	send(t, dial(), "anew")
	if err := read(accept(), "anew", patience); err != nil {
		t.Error(err)
	}
}

// A relay can be closed while it holds something up.
func TestCloseWhileFrozen(t *testing.T) {
	r, dial, accept := pair(t, "tcp")
	client := dial()
	accept()
	r.Freeze()
	send(t, client, "lost")
}

func TestAway(t *testing.T) {
	r, dial, accept := pair(t, "tcp")
	before := dial()
	accept()
	r.Away()
	for name, c := range map[string]net.Conn{"before": before, "since": dial()} {
		if err := read(c, "x", patience); err == nil || os.IsTimeout(err) {
			t.Errorf("a connection from %s returns %v", name, err)
		}
	}
	r.Back()
	send(t, dial(), "back")
	if err := read(accept(), "back", patience); err != nil {
		t.Error(err)
	}
}

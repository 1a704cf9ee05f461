package csi

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fake "github.com/ebb-agent/ebb/tools/csi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "directories.example.com"

// dir is one whose name is short enough for a socket in it.
func dir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d) })
	return d
}

// start a driver, and what asks it.
func start(t *testing.T, c fake.Config) (*fake.Driver, *Driver) {
	t.Helper()
	if c.Name == "" {
		c.Name = name
	}
	if c.Socket == "" {
		c.Socket = filepath.Join(dir(t), "s")
	}
	if c.Root == "" {
		c.Root = filepath.Join(filepath.Dir(c.Socket), "volumes")
	}
	f, err := fake.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	d := New(name, c.Socket)
	t.Cleanup(d.Close)
	return f, d
}

func made(t *testing.T, f *fake.Driver, name string) string {
	t.Helper()
	id, err := f.Make(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestDelete: the volume goes, and only that; the driver introduces itself once.
func TestDelete(t *testing.T) {
	f, d := start(t, fake.Config{Token: "hush"})
	a, b := made(t, f, "a"), made(t, f, "b")
	if err := d.Ready(t.Context()); err != nil || f.Has(a) != true {
		t.Fatal(err)
	}
	err := d.DeleteVolume(t.Context(), a, map[string]string{"token": "wrong"})
	if !errors.Is(err, ErrRefused) || !f.Has(a) {
		t.Errorf("with a wrong secret: %v", err)
	}
	for range 2 { // the second finds nothing, which is success
		if err := d.DeleteVolume(t.Context(), a, map[string]string{"token": "hush"}); err != nil {
			t.Error(err)
		}
	}
	if f.Has(a) || !f.Has(b) {
		t.Errorf("left: %q", f.Volumes())
	}
	if want := []string{"GetPluginInfo", "ControllerGetCapabilities", "DeleteVolume", "DeleteVolume", "DeleteVolume"}; !slices.Equal(f.Calls(), want) {
		t.Errorf("calls: %q", f.Calls())
	}
}

// TestCodes: what each code means.
func TestCodes(t *testing.T) {
	var code codes.Code
	f, d := start(t, fake.Config{Before: func(_ context.Context, method string) error {
		if method == "DeleteVolume" {
			return status.Error(code, "no, not with s3cret or hunter2 "+strings.Repeat("x", 1000))
		}
		return nil
	}})
	id := made(t, f, "a")
	for _, test := range []struct {
		code codes.Code
		want error
	}{
		{codes.NotFound, ErrNotFound}, {codes.FailedPrecondition, ErrRefused}, {codes.InvalidArgument, ErrRefused}, {codes.PermissionDenied, ErrRefused},
		{codes.Unauthenticated, ErrRefused}, {codes.Unavailable, ErrUnavailable}, {codes.ResourceExhausted, ErrUnavailable}, {codes.DeadlineExceeded, ErrUnavailable},
		{codes.Internal, nil}, {codes.Aborted, nil}, {codes.Unknown, nil}, {codes.Code(99), nil},
	} {
		code = test.code
		err := d.DeleteVolume(t.Context(), id, map[string]string{"a": "s3cret", "b": "hunter2", "c": ""})
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v", code, err)
			continue
		}
		for _, e := range []error{ErrNotFound, ErrRefused, ErrUnavailable, ErrOther} {
			if e != test.want && errors.Is(err, e) {
				t.Errorf("%s is also %v", code, e)
			}
		}
		if text := err.Error(); strings.Contains(text, "s3cret") || strings.Contains(text, "hunter2") || len(text) > 500 || !strings.Contains(text, "no, not with") {
			t.Errorf("%s: %s", code, text)
		}
	}
	if !f.Has(id) {
		t.Error("it is gone")
	}
}

// TestOther: whoever is not the driver, or cannot delete, is not asked to.
func TestOther(t *testing.T) {
	for what, c := range map[string]fake.Config{
		"another name": {Name: "other.example.com"},
		"no deletion":  {NoDelete: true},
	} {
		f, d := start(t, c)
		id := made(t, f, "a")
		if err := d.DeleteVolume(t.Context(), id, nil); !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", what, err)
		}
		if slices.Contains(f.Calls(), "DeleteVolume") || !f.Has(id) {
			t.Errorf("%s was asked to delete: %q", what, f.Calls())
		}
	}
}

// TestSwapped: a driver of another name that takes the socket over while the connection
// is open is never asked to delete.
func TestSwapped(t *testing.T) {
	c := fake.Config{Name: name, Socket: filepath.Join(dir(t), "s")}
	f, d := start(t, c)
	if err := d.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Stop()
	c.Name, c.Root = "other.example.com", filepath.Join(dir(t), "others")
	other, _ := start(t, c)
	id := made(t, other, "a")
	for range 20 {
		if err := d.DeleteVolume(t.Context(), id, nil); err == nil {
			t.Fatal("it was deleted")
		}
	}
	if slices.Contains(other.Calls(), "DeleteVolume") {
		t.Errorf("calls: %q", other.Calls())
	}
	other.Stop()
	c.Name = name
	again, _ := start(t, c)
	deadline := time.Now().Add(10 * time.Second)
	for d.DeleteVolume(t.Context(), id, nil) != nil && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if again.Has(id) {
		t.Error("the driver is back, and nothing is deleted")
	}
}

// TestSilent: what is dead, or does not answer, ends with the context, and is the driver's
// failure.
func TestSilent(t *testing.T) {
	none := filepath.Join(dir(t), "none")
	dead := filepath.Join(dir(t), "dead")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	file := filepath.Join(dir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, socket := range map[string]string{"no socket": none, "nobody listens": dead, "a file": file, "it never answers": mute(t, nil), "no gRPC": mute(t, []byte("HTTP/1.1 200 OK\r\n\r\n<html>"))} {
		d := New(name, socket)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := d.DeleteVolume(ctx, "a", nil); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
		d.Close()
	}
}

// mute listens, sends greeting, and then nothing.
func mute(t *testing.T, greeting []byte) string {
	t.Helper()
	socket := filepath.Join(dir(t), "mute")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Write(greeting)
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return socket
}

// TestHangs: a call that hangs ends with its context, whichever it is.
func TestHangs(t *testing.T) {
	for _, method := range []string{"GetPluginInfo", "ControllerGetCapabilities", "DeleteVolume"} {
		f, d := start(t, fake.Config{Before: func(ctx context.Context, called string) error {
			if called == method {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		id := made(t, f, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := d.DeleteVolume(ctx, id, nil); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", method, err)
		}
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := d.DeleteVolume(ctx, id, nil); err == nil {
			t.Errorf("%s: it succeeds", method)
		}
		cancel()
	}
}

// TestSecretWithinASecret: no part of a secret is left in an error, also if another secret is a part of it.
func TestSecretWithinASecret(t *testing.T) {
	secrets := map[string]string{"a": "hush", "b": "hush-hush-puppies", "c": "hush-hush"}
	for range 20 { // maps have no order
		err := translate("delete", status.Error(codes.Internal, "login with hush-hush-puppies failed"), secrets)
		if want := `delete: Internal: "login with … failed"`; err.Error() != want {
			t.Fatalf("%v, want %s", err, want)
		}
	}
}

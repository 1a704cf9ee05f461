package layout_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/containerd/layout"
)

const (
	plain    = "/run/containerd/containerd.sock"
	k3s      = "/run/k3s/containerd/containerd.sock"
	microk8s = "/var/snap/microk8s/common/run/containerd.sock"
	k0s      = "/run/k0s/containerd.sock"
)

// machine makes a root with sockets, which nobody listens on.
func machine(t *testing.T, sockets ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, s := range sockets {
		place(t, root, s, unix.S_IFSOCK)
	}
	return root
}

func place(t *testing.T, root, path string, kind uint32) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(path, kind|0o600, 0); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name    string
		sockets []string
		want    string
		err     error
		named   []string
	}{
		{name: "plain", sockets: []string{plain}, want: plain},
		{name: "k3s", sockets: []string{k3s}, want: k3s},
		{name: "MicroK8s", sockets: []string{microk8s}, want: microk8s},
		{name: "k0s", sockets: []string{k0s}, want: k0s},
		{name: "none", err: layout.ErrNone, named: []string{plain, k3s, microk8s, k0s, "runtime.socket"}},
		{name: "two", sockets: []string{k3s, plain}, err: layout.ErrSeveral, named: []string{plain, k3s, "runtime.socket"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := layout.Find(machine(t, c.sockets...))
			if l.Socket != c.want || !errors.Is(err, c.err) {
				t.Errorf("%+v, %v; want %s, %v", l, err, c.want, c.err)
			}
			for _, want := range c.named {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s is not named: %v", want, err)
				}
			}
			if c.err == nil && (l.Name == "" || len(l.Roots) == 0 || layout.Of(l.Socket).Name != l.Name) {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestNotASocket: a file in its place is named, and is not taken.
func TestNotASocket(t *testing.T) {
	root := machine(t, microk8s)
	place(t, root, plain, unix.S_IFREG)
	if l, err := layout.Find(root); err != nil || l.Socket != microk8s {
		t.Errorf("%+v, %v", l, err)
	}
	root = machine(t)
	place(t, root, k3s, unix.S_IFIFO)
	if _, err := layout.Find(root); !errors.Is(err, layout.ErrNone) || !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
}

// TestSame: one socket by two names is one.
func TestSame(t *testing.T) {
	root := machine(t, k3s)
	link := filepath.Join(root, plain)
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, k3s), link); err != nil {
		t.Fatal(err)
	}
	if l, err := layout.Find(root); err != nil || l.Socket != plain {
		t.Errorf("%+v, %v", l, err)
	}
	if err := errors.Join(os.Remove(link), os.Symlink(link, link)); err != nil {
		t.Fatal(err)
	}
	if l, err := layout.Find(root); err != nil || l.Socket != k3s {
		t.Errorf("with a link to itself: %+v, %v", l, err)
	}
}

func TestSocket(t *testing.T) {
	if s, err := layout.Socket("/somewhere.sock"); s != "/somewhere.sock" || err != nil {
		t.Error(s, err)
	}
}

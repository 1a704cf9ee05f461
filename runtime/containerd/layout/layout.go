package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Auto stands for a socket that is to be found.
const Auto = "auto"

// What may come of looking.
var (
	ErrNone    = errors.New("no containerd found")
	ErrSeveral = errors.New("several containerds found")
)

// Layout is one place of containerd.
type Layout struct {
	Name   string // for people
	Socket string
	Roots  []string // where images and containers are, unless configured otherwise
}

// known are in the order in which errors name them.
var known = []Layout{
	{"plain", "/run/containerd/containerd.sock", []string{"/var/lib/containerd"}},
	{"k3s or RKE2", "/run/k3s/containerd/containerd.sock",
		[]string{"/var/lib/rancher/k3s/agent/containerd", "/var/lib/rancher/rke2/agent/containerd"}},
	{"MicroK8s", "/var/snap/microk8s/common/run/containerd.sock", []string{"/var/snap/microk8s/common/var/lib/containerd"}},
	{"k0s", "/run/k0s/containerd.sock", []string{"/var/lib/k0s/containerd"}},
}

// Find looks for the socket below root, which is / but for tests. It returns the
// layout as it is without root.
func Find(root string) (Layout, error) {
	var found []Layout
	var infos []fs.FileInfo
	var tried []string
next:
	for _, l := range known {
		info, err := os.Stat(filepath.Join(root, l.Socket))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			tried = append(tried, fmt.Sprintf("%s (%s)", l.Socket, l.Name))
			continue
		case err != nil:
			tried = append(tried, fmt.Sprintf("%s (%s: %v)", l.Socket, l.Name, errors.Unwrap(err)))
			continue
		case info.Mode().Type() != fs.ModeSocket:
			tried = append(tried, fmt.Sprintf("%s (%s: not a socket)", l.Socket, l.Name))
			continue
		}
		for _, other := range infos {
			if os.SameFile(other, info) {
				continue next
			}
		}
		found, infos = append(found, l), append(infos, info)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Layout{}, fmt.Errorf("%w: nothing at %s: start it, mount its directory, or set runtime.socket", ErrNone, strings.Join(tried, ", "))
	}
	names := make([]string, 0, len(found))
	for _, l := range found {
		names = append(names, fmt.Sprintf("%s (%s)", l.Socket, l.Name))
	}
	return Layout{}, fmt.Errorf("%w: %s: set runtime.socket to the one that the kubelet uses", ErrSeveral, strings.Join(names, ", "))
}

// Socket is what a configuration means: the path that it names, or the one found.
func Socket(configured string) (string, error) {
	if configured != Auto {
		return configured, nil
	}
	l, err := Find("/")
	return l.Socket, err
}

// Of says which layout a socket belongs to; a name of "" if to none that is known.
func Of(socket string) Layout {
	for _, l := range known {
		if l.Socket == socket {
			return l
		}
	}
	return Layout{Socket: socket}
}

package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Auto is the configured value for which [Socket] finds the socket.
const Auto = "auto"

// Errors of [Find].
var (
	ErrNone    = errors.New("no containerd found")
	ErrSeveral = errors.New("several containerds found")
)

// Layout is where one distribution has containerd.
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

// Find looks for the socket below root, which is / except in tests. The paths in the result are
// without root. The error is [ErrNone] or [ErrSeveral].
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

// Socket returns the configured path, or for [Auto] the one that [Find] finds.
func Socket(configured string) (string, error) {
	if configured != Auto {
		return configured, nil
	}
	l, err := Find("/")
	return l.Socket, err
}

// Of returns the layout with a socket, or one without a name if the socket is not known.
func Of(socket string) Layout {
	for _, l := range known {
		if l.Socket == socket {
			return l
		}
	}
	return Layout{Socket: socket}
}

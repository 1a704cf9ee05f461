package peers

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// Ports are below the kernel's range for outgoing connections (32768 and up), so that
// no connection takes one by chance between two starts of a component.
const (
	firstPort = 20000
	lastPort  = 30000
)

// reservation holds a port of the loopback address. Processes that use port sharing
// (SO_REUSEPORT), as Kubernetes' components can, may listen on it. No other process
// gets the port, even while the component is down. A socket that is only bound receives
// no connections.
type reservation struct {
	port int
	fd   int
}

func reservePort() (*reservation, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		fd, err := bindPort(port)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reserve port: %w", err)
		}
		return &reservation{port, fd}, nil
	}
	return nil, fmt.Errorf("reserve port: none free between %d and %d", firstPort, lastPort)
}

func bindPort(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	address := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	// First without sharing, so that a port with another reservation is refused, too.
	if err := unix.Bind(fd, address); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (r *reservation) release() error {
	if r == nil || r.fd < 0 {
		return nil
	}
	err := unix.Close(r.fd)
	r.fd = -1
	return err
}

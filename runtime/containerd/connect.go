package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Causes for which [Connect] fails.
var (
	ErrNoSocket      = errors.New("no such socket")
	ErrRefused       = errors.New("nothing listens on the socket")
	ErrNotContainerd = errors.New("not a containerd")
	ErrNoCRI         = errors.New("containerd's CRI plugin is not loaded")
)

// probe recognizes the simple causes, before gRPC reports all of them with the same error.
func probe(ctx context.Context, socket string) error {
	info, err := os.Stat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", ErrNoSocket, socket)
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: %s is not a socket", ErrNoSocket, socket)
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "unix", socket)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %s", ErrRefused, socket)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// diagnose classifies the error of the very first call. Something listens on the socket: if it is
// not a gRPC server, the connection breaks, or nothing arrives before the timeout.
func diagnose(err error) error {
	text := err.Error()
	native := errgrpc.ToNative(err)
	silent := errors.Is(err, context.DeadlineExceeded) || errdefs.IsDeadlineExceeded(native)
	if silent || errdefs.IsNotImplemented(native) || strings.Contains(text, "server preface") || strings.Contains(text, "frame") {
		return fmt.Errorf("%w: %w", ErrNotContainerd, err)
	}
	return fmt.Errorf("ask for the version: %w", err)
}

func diagnoseCRI(err error) error {
	if errors.Is(err, cri.ErrUnimplemented) {
		return fmt.Errorf("%w: %w", ErrNoCRI, err)
	}
	return err
}

// wrap names the operation and translates containerd's error kinds.
func wrap(operation string, err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "no space left on device"):
		return fmt.Errorf("%s: %w: %w", operation, inventory.ErrNoSpace, err)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("%s: %w: %w", operation, inventory.ErrNotFound, err)
	case errdefs.IsUnavailable(err), status.Code(err) == codes.Unavailable:
		return fmt.Errorf("%s: %w: %w", operation, inventory.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", operation, err)
}

package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// Timeouts of the calls. A server that does not answer blocks the caller no longer.
const (
	introduceTimeout = 10 * time.Second
	deleteTimeout    = time.Minute
)

// maxMessage bounds a response, in bytes. Responses carry no content.
const maxMessage = 1 << 20

// Driver is one CSI driver behind one socket. It is safe for concurrent use.
type Driver struct {
	name, socket string

	mu   sync.Mutex
	conn *grpc.ClientConn // nil: no verified connection
}

// New returns a driver without opening its connection.
func New(name, socket string) *Driver { return &Driver{name: name, socket: socket} }

// Socket returns the path of the driver's socket.
func (d *Driver) Socket() string { return d.socket }

// Ready opens and verifies the connection, unless it is open.
func (d *Driver) Ready(ctx context.Context) error {
	_, err := d.connection(ctx)
	return err
}

// DeleteVolume asks the driver to delete a volume. handle is the driver's own name of the volume.
func (d *Driver) DeleteVolume(ctx context.Context, handle string, secrets map[string]string) error {
	conn, err := d.connection(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	_, err = csi.NewControllerClient(conn).DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: handle, Secrets: secrets})
	if err != nil && conn.GetState() != connectivity.Ready {
		d.forget(conn)
	}
	return translate("delete volume", err, secrets)
}

// Close closes the connection. Calls in progress fail.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
		d.conn = nil
	}
}

// forget closes a connection that broke.
func (d *Driver) forget(conn *grpc.ClientConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = conn.Close()
	if d.conn == conn {
		d.conn = nil
	}
}

// connection returns a verified connection that has not broken since.
func (d *Driver) connection(ctx context.Context) (*grpc.ClientConn, error) {
	d.mu.Lock()
	conn := d.conn
	d.mu.Unlock()
	if conn != nil && conn.GetState() == connectivity.Ready {
		return conn, nil
	}
	if conn != nil {
		d.forget(conn)
	}
	conn, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil { // another goroutine was faster
		_ = conn.Close()
		return d.conn, nil
	}
	d.conn = conn
	return conn, nil
}

// open opens a connection and verifies the server.
func (d *Driver) open(ctx context.Context) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	once := make(chan struct{}, 1)
	once <- struct{}{}
	conn, err := grpc.NewClient("passthrough:///"+d.name,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			select {
			case <-once:
			default:
				return nil, errBroke // the server that listens now is not verified
			}
			return new(net.Dialer).DialContext(ctx, "unix", d.socket)
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to CSI driver %s: %w", d.name, err)
	}
	if err := d.introduced(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

var errBroke = errors.New("the connection broke")

// introduced verifies that the server is the driver of this name, and that its controller deletes
// volumes.
func (d *Driver) introduced(ctx context.Context, conn *grpc.ClientConn) error {
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil {
		return d.silent(translate("ask for the driver's name", err, nil))
	}
	if info.GetName() != d.name {
		return fmt.Errorf("%w: %q listens on %s, not %q", ErrOther, clip(info.GetName()), d.socket, d.name)
	}
	can, err := csi.NewControllerClient(conn).ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return d.silent(translate("ask for the controller's capabilities", err, nil))
	}
	if !slices.ContainsFunc(can.GetCapabilities(), func(c *csi.ControllerServiceCapability) bool {
		return c.GetRpc().GetType() == csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME
	}) {
		return fmt.Errorf("%w: what listens on %s deletes no volumes", ErrOther, d.socket)
	}
	return nil
}

// silent wraps an error of the verification, always as ErrUnavailable.
func (d *Driver) silent(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("CSI driver %s at %s: %w", d.name, d.socket, err)
	}
	return fmt.Errorf("CSI driver %s at %s: %w: %w", d.name, d.socket, ErrUnavailable, err)
}

func clip(s string) string { return s[:min(len(s), 63)] }

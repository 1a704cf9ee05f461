package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/owned"
	"github.com/ebb-agent/ebb/tools/process"
)

// errClosed is the error of methods that need an open node.
var errClosed = errors.New("the node is closed")

// Node is a throwaway node. Its methods may be called from several goroutines.
type Node struct {
	at     layout
	config Config
	log    *slog.Logger
	binary string   // path of containerd
	lock   *os.File // nil once closed

	conn       *grpc.ClientConn
	containerd *client.Client
	pods       runtimeapi.RuntimeServiceClient
	images     runtimeapi.ImageServiceClient

	mu     sync.Mutex
	daemon *process.Process // nil while containerd is down
}

// Start makes a node. It first removes a node of the same name that a dead process left
// behind. The caller must Close it.
func Start(ctx context.Context, c Config) (*Node, error) {
	n, err := own(ctx, c, claim, (*Node).build)
	if err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	return n, nil
}

// Reopen opens a node after a reboot of the machine: its directory is unchanged on the
// disk, but no filesystem is mounted and no process runs. The Config must be the one
// that it was started with. Its containers have no process. The caller must Close it.
func Reopen(ctx context.Context, c Config) (*Node, error) {
	n, err := own(ctx, c, claimRebooted, (*Node).reopen)
	if err != nil {
		return nil, fmt.Errorf("reopen node: %w", err)
	}
	return n, nil
}

// own takes a node's directory for this process, and calls build. If that fails it
// removes the node.
func own(ctx context.Context, c Config, take func(context.Context, layout) (*os.File, error), build func(*Node, context.Context) error) (*Node, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: mounts and containers need root", os.ErrPermission)
	}
	if c.Base, err = openBase(c.Base); err != nil {
		return nil, err
	}
	n := &Node{at: layout(filepath.Join(c.Base, c.Name)), config: c, log: c.logger()}
	// Before the lock: building containerd may take a minute, and does not touch the
	// node.
	if n.binary, err = findContainerd(ctx, c.Containerd, c.Log); err != nil {
		return nil, err
	}
	if n.lock, err = take(ctx, n.at); err != nil {
		return nil, err
	}
	if err := build(n, ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) build(ctx context.Context) error {
	begun := time.Now()
	if err := ensureKernelMounts(n.config.Base); err != nil {
		return err
	}
	if err := makeDisk(ctx, n.at, n.config.FS, n.config.SizeBytes, n.config.ProjectQuotas); err != nil {
		return err
	}
	n.log.Info("filesystem mounted", "fs", n.config.FS, "bytes", n.config.SizeBytes, "took", time.Since(begun))
	if err := n.serve(ctx); err != nil {
		return err
	}
	if _, err := n.importAll(ctx, CRINamespace, []archivable{pause{}}); err != nil {
		return fmt.Errorf("import sandbox image: %w", err)
	}
	n.log.Info("node started", "socket", n.Socket(), "took", time.Since(begun))
	return nil
}

// serve starts containerd on the mounted filesystem.
func (n *Node) serve(ctx context.Context) error {
	if err := writeDaemonConfig(n.at, n.config); err != nil {
		return err
	}
	if err := n.connect(); err != nil {
		return err
	}
	return n.Restart(ctx)
}

// claim takes the directory of a new node.
func claim(ctx context.Context, l layout) (*os.File, error) {
	return owned.Claim(string(l), release(ctx))
}

// claimRebooted takes the directory of a node that existed before a reboot.
func claimRebooted(_ context.Context, l layout) (*os.File, error) {
	if _, err := os.Stat(l.disk()); err != nil {
		return nil, err
	}
	mounts, err := mountsBelow(string(l))
	if err != nil {
		return nil, err
	}
	if len(mounts) > 0 {
		return nil, fmt.Errorf("not left by a reboot: still mounted: %s", strings.Join(mounts, ", "))
	}
	return owned.Acquire(string(l))
}

// reopen mounts the filesystem as the reboot left it. It deletes containerd's files below
// run/: on any other machine they are on a tmpfs, and they describe processes that are
// gone.
func (n *Node) reopen(ctx context.Context) error {
	if err := os.RemoveAll(n.at.run()); err != nil {
		return err
	}
	if err := ensureKernelMounts(n.config.Base); err != nil {
		return err
	}
	if err := mountDisk(n.at, n.config.FS, n.config.ProjectQuotas); err != nil {
		return err
	}
	return n.serve(ctx)
}

// openBase creates the base directory and returns its real path, because the kernel
// reports mounts and loop devices by real paths.
func openBase(base string) (string, error) {
	if err := os.MkdirAll(base, 0o711); err != nil {
		return "", fmt.Errorf("make base directory: %w", err)
	}
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return "", fmt.Errorf("resolve base directory: %w", err)
	}
	return base, nil
}

// connect opens the one connection for containerd's API and CRI. It reconnects at once
// when containerd restarts: gRPC's usual back-off of a second and more would be the
// slowest part of a test that kills containerd.
func (n *Node) connect() error {
	const maxMessage = 64 * mib
	conn, err := grpc.NewClient("unix://"+n.at.socket(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond,
		}}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return fmt.Errorf("connect to containerd: %w", err)
	}
	n.conn = conn
	if n.containerd, err = client.NewWithConn(conn); err != nil {
		return fmt.Errorf("connect to containerd: %w", err)
	}
	n.pods = runtimeapi.NewRuntimeServiceClient(conn)
	n.images = runtimeapi.NewImageServiceClient(conn)
	return nil
}

// Name is the node's name.
func (n *Node) Name() string { return n.config.Name }

// Dir is the directory that holds all files of the node.
func (n *Node) Dir() string { return string(n.at) }

// Mount is the mount point of the node's filesystem. containerd's root is the
// directory "containerd" in it.
func (n *Node) Mount() string { return n.at.mount() }

// Root is containerd's root directory, on the node's filesystem.
func (n *Node) Root() string { return n.at.root() }

// Socket is the path of containerd's socket, which serves CRI, too.
func (n *Node) Socket() string { return n.at.socket() }

// Cgroup is the parent of all cgroups of the node, as a path within each
// hierarchy.
func (n *Node) Cgroup() string { return n.at.cgroup() }

// LogFile is containerd's log file.
func (n *Node) LogFile() string { return n.at.daemonLog() }

// Client is a client of the node's containerd, closed by Close.
func (n *Node) Client() *client.Client { return n.containerd }

// CRI returns clients of the node's CRI, closed by Close.
func (n *Node) CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient) {
	return n.pods, n.images
}

// Kill ends containerd as a crash would, by SIGKILL. Containers keep running; their
// shims wait for the next containerd.
func (n *Node) Kill() error { return n.end(context.Background(), syscall.SIGKILL) }

// Stop ends containerd gracefully. Containers keep running.
func (n *Node) Stop(ctx context.Context) error { return n.end(ctx, syscall.SIGTERM) }

func (n *Node) end(ctx context.Context, sig os.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.endLocked(ctx, sig)
}

func (n *Node) endLocked(ctx context.Context, sig os.Signal) error {
	if n.lock == nil {
		return errClosed
	}
	if n.daemon == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := n.daemon.End(ctx, sig); err != nil {
		return fmt.Errorf("end containerd: %w", err)
	}
	n.daemon = nil
	return nil
}

// Restart starts containerd, after stopping it if it runs, and returns once
// CRI answers.
func (n *Node) Restart(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.endLocked(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	d, err := startDaemon(n.at, n.binary)
	if err != nil {
		return err
	}
	n.daemon = d
	return n.awaitReady(ctx, d)
}

// Upgrade stops containerd, and starts that of another flavor on the same state.
// Containers keep running.
func (n *Node) Upgrade(ctx context.Context, to Flavor) error {
	binary, err := findContainerd(ctx, to, n.config.Log)
	if err != nil {
		return err
	}
	if err := n.Stop(ctx); err != nil {
		return err
	}
	n.config.Containerd, n.binary = to, binary
	if err := writeDaemonConfig(n.at, n.config); err != nil {
		return err
	}
	return n.Restart(ctx)
}

// Close removes the node and everything of it: containers, containerd, mounts, loop
// device, cgroups, directory. Closing twice is harmless.
func (n *Node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	if n.conn != nil {
		errs = append(errs, n.conn.Close())
		n.conn = nil
	}
	if n.lock == nil {
		return errors.Join(errs...)
	}
	// The data is deleted next, so it needs no orderly shutdown.
	errs = append(errs, abandonDisk(n.at))
	if err := n.endLocked(context.Background(), syscall.SIGKILL); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, owned.Remove(string(n.at), release(context.Background())), n.lock.Close())
	n.lock = nil
	return errors.Join(errs...)
}

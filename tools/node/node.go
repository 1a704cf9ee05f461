package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrNotOwner is returned by what only the owner of a node can do.
var ErrNotOwner = errors.New("this process does not own the node")

// Node is a throwaway node. Its methods may be called from several goroutines.
type Node struct {
	at     layout
	config Config
	log    *slog.Logger
	binary string   // containerd's
	lock   *os.File // nil if attached

	conn       *grpc.ClientConn
	containerd *client.Client
	pods       runtimeapi.RuntimeServiceClient
	images     runtimeapi.ImageServiceClient

	mu     sync.Mutex
	daemon *daemon // nil while containerd is down, and if attached
}

// Start makes a node. One of the same name that a dead process left behind is
// removed first. The caller must Close it.
func Start(ctx context.Context, c Config) (*Node, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("start node: %w: mounts and containers need root", os.ErrPermission)
	}
	if c.Base, err = openBase(c.Base); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	n := &Node{at: layout(filepath.Join(c.Base, c.Name)), config: c, log: c.logger()}
	// Before the lock: a build may take a minute, and makes nothing of the node's.
	if n.binary, err = findContainerd(ctx, c.Containerd, c.Log); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	if n.lock, err = claim(ctx, n.at); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	if err := n.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start node: %w", err), n.Close())
	}
	return n, nil
}

// claim takes the node's directory and empties it.
func claim(ctx context.Context, l layout) (*os.File, error) {
	lock, err := acquire(l)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(string(l))
	if err == nil && len(entries) == 1 { // the lock
		return lock, nil
	}
	if err == nil {
		err = destroy(ctx, l)
	}
	lock.Close()
	if err != nil {
		return nil, fmt.Errorf("remove what is left of an earlier node: %w", err)
	}
	return acquire(l)
}

func (n *Node) build(ctx context.Context) error {
	begun := time.Now()
	if err := writeRecord(n.at, n.config); err != nil {
		return err
	}
	if err := ensureKernelMounts(n.config.Base); err != nil {
		return err
	}
	if err := makeDisk(ctx, n.at, n.config.FS, n.config.SizeBytes, n.config.ProjectQuotas); err != nil {
		return err
	}
	n.log.Info("filesystem mounted", "fs", n.config.FS, "bytes", n.config.SizeBytes, "took", time.Since(begun))
	if err := writeDaemonConfig(n.at, n.config); err != nil {
		return err
	}
	if err := n.connect(); err != nil {
		return err
	}
	if err := n.Restart(ctx); err != nil {
		return err
	}
	if _, err := n.importAll(ctx, CRINamespace, []archivable{pause{}}); err != nil {
		return fmt.Errorf("import sandbox image: %w", err)
	}
	n.log.Info("node started", "socket", n.Socket(), "took", time.Since(begun))
	return nil
}

// Attach returns the node of that name in that base directory, which another
// process owns, or this one; the other fields of Config are read from its
// record. It can do all but stop and start its containerd; Close only
// disconnects.
func Attach(c Config) (*Node, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("attach to node: %w", err)
	}
	if c.Base, err = openBase(c.Base); err != nil {
		return nil, fmt.Errorf("attach to node: %w", err)
	}
	n := &Node{at: layout(filepath.Join(c.Base, c.Name)), config: c, log: c.logger()}
	r, err := readRecord(n.at)
	if err != nil {
		return nil, fmt.Errorf("attach to node: %w", err)
	}
	n.config.FS, n.config.SizeBytes, n.config.Containerd = r.FS, r.SizeBytes, r.Containerd
	if err := n.connect(); err != nil {
		return nil, fmt.Errorf("attach to node: %w", err)
	}
	return n, nil
}

// connect opens the one connection for containerd's API and CRI. It follows
// restarts of containerd by itself, at once: gRPC's usual back-off of a second
// and more would be the slowest thing in a test that kills containerd.
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

// Dir holds all that the node has.
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

// LogFile is where containerd logs to.
func (n *Node) LogFile() string { return n.at.daemonLog() }

// Client is a client of the node's containerd, closed by Close.
func (n *Node) Client() *client.Client { return n.containerd }

// CRI returns clients of the node's CRI, closed by Close.
func (n *Node) CRI() (runtimeapi.RuntimeServiceClient, runtimeapi.ImageServiceClient) {
	return n.pods, n.images
}

// Kill ends containerd as a crash would, by SIGKILL. Containers go on; their
// shims wait for a containerd to come back.
func (n *Node) Kill() error { return n.end(context.Background(), syscall.SIGKILL) }

// Stop ends containerd in good order. Containers go on.
func (n *Node) Stop(ctx context.Context) error { return n.end(ctx, syscall.SIGTERM) }

func (n *Node) end(ctx context.Context, sig os.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.endLocked(ctx, sig)
}

func (n *Node) endLocked(ctx context.Context, sig os.Signal) error {
	if n.lock == nil {
		return ErrNotOwner
	}
	if n.daemon == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := n.daemon.signal(ctx, sig); err != nil {
		return err
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

// Close removes the node and all that belongs to it: containers, containerd,
// mounts, loop device, cgroups, directory. An attached node is only let go.
// Closing twice is harmless.
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
	// Nothing is worth an orderly end that is deleted next.
	errs = append(errs, abandonDisk(n.at))
	if err := n.endLocked(context.Background(), syscall.SIGKILL); err != nil {
		errs = append(errs, err)
	}
	if err := destroy(context.Background(), n.at); err != nil {
		errs = append(errs, fmt.Errorf("remove node %s: %w", n.Name(), err))
	}
	errs = append(errs, n.lock.Close())
	n.lock = nil
	return errors.Join(errs...)
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/introspection/v1"
	"github.com/containerd/containerd/api/services/version/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/runtime/cri"
)

// answerTime bounds each conversation.
const answerTime = 10 * time.Second

// lookAtRuntime asks containerd, and returns the directories it names. It does
// not go through runtime/containerd, which takes leases and clears away what an
// agent has left: nothing is changed here.
func lookAtRuntime(ctx context.Context, f *Facts) (roots map[string]string) {
	r := &f.Runtime
	if r.Err != nil {
		return nil // none was found, or too many
	}
	r.SameAsTheirs = sameFile(f.Kubelet.Settings.Socket(), r.Socket)
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if r.Err = listens(r.Socket); r.Err != nil {
		return nil
	}
	conn, err := grpc.NewClient("unix://"+r.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Err = err
		return nil
	}
	defer conn.Close()
	v, err := version.NewVersionClient(conn).Version(ctx, &emptypb.Empty{})
	if err != nil {
		r.Err = fmt.Errorf("whatever listens there is no containerd: %w", err)
		return nil
	}
	r.Version = "containerd " + v.GetVersion()
	client := cri.New(conn)
	if _, _, r.CRIErr = client.Version(ctx); r.CRIErr != nil {
		return nil
	}
	r.lookAtSandbox(ctx, client, v.GetVersion())
	return r.lookAtRoots(ctx, conn, client)
}

// lookAtSandbox: containerd 2 pins the image. It is not asked for the name, for
// its verbose status writes a file at first.
func (r *RuntimeFacts) lookAtSandbox(ctx context.Context, client *cri.Client, version string) {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 2 {
		r.Pinned = true
		return
	}
	r.Sandbox, r.SandboxErr = client.SandboxImage(ctx)
}

func (r *RuntimeFacts) lookAtRoots(ctx context.Context, conn *grpc.ClientConn, client *cri.Client) map[string]string {
	images, containers, err := client.ImageFsInfo(ctx)
	if err != nil {
		r.RootsErr = err
		return nil
	}
	roots := map[string]string{DiskImages: images, DiskContainers: containers}
	plugins, err := introspection.NewIntrospectionClient(conn).Plugins(ctx, &introspection.PluginsRequest{})
	if err != nil {
		r.RootsErr = err
		return roots
	}
	for _, p := range plugins.GetPlugins() {
		root := p.GetExports()["root"]
		if root == "" || p.GetInitErr() != nil {
			continue
		}
		switch p.GetType() {
		case "io.containerd.content.v1":
			roots[DiskContent] = root
		case "io.containerd.snapshotter.v1":
			// The CRI composes the path from containerd's own root, which is
			// wrong for a snapshotter that was given another one.
			if filepath.Base(images) == "io.containerd.snapshotter.v1."+p.GetID() {
				roots[DiskImages] = root
			}
		}
	}
	if containers == "" || containers == images { // containerd 1.6 does not tell
		roots[DiskContainers] = roots[DiskImages]
	}
	return roots
}

// listens tells the plain cases apart before gRPC wraps them all into one.
func listens(socket string) error {
	info, err := os.Stat(socket)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("no such socket")
	case errors.Is(err, os.ErrPermission):
		return os.ErrPermission // the path is said already
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return errors.New("not a socket")
	}
	conn, err := net.DialTimeout("unix", socket, answerTime)
	if errors.Is(err, unix.ECONNREFUSED) {
		return errors.New("nothing listens on it")
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// lookAtAgent asks an agent that may be running.
func lookAtAgent(ctx context.Context, c config.Config) AgentFacts {
	a := AgentFacts{Address: c.Server.Address, StateDir: c.State.Directory}
	a.StateErr = writable(c.State.Directory)
	a.LockFile, a.LockErr = c.State.LockFile, writable(filepath.Dir(c.State.LockFile))
	if h, held, err := lock.Look(c.State.LockFile); held {
		a.Holder = h.String()
	} else if a.LockErr == nil {
		a.LockErr = err
	}
	if a.Address == "" {
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Address+"/readyz", nil)
	if err != nil {
		a.Err = err
		return a
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: it is on this machine
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		a.Err = err
		return a
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxLine))
	a.Answered, a.Ready, a.Says, a.Err = true, response.StatusCode == http.StatusOK, string(body), err
	return a
}

// writable asks the kernel whether a directory, or the nearest one above it that
// exists, could be written to, without writing.
func writable(dir string) error {
	for {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if err == nil {
			info, err := os.Stat(dir)
			if err == nil && !info.IsDir() {
				return fmt.Errorf("%s is no directory", dir)
			}
			return err
		}
		if !errors.Is(err, unix.ENOENT) || dir == "/" || dir == "." {
			return fmt.Errorf("%s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}

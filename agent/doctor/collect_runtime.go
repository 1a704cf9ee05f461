package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/introspection/v1"
	"github.com/containerd/containerd/api/services/version/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ebb-agent/ebb/runtime/cri"
)

// answerTime bounds the requests to one peer together.
const answerTime = 10 * time.Second

// readRuntime asks containerd, and returns the directories that containerd names. It does not use
// runtime/containerd, which takes leases and deletes what an agent left behind: the doctor changes
// nothing.
func readRuntime(ctx context.Context, f *Facts) (roots map[string]string) {
	r := &f.Runtime
	if r.Err != nil {
		return nil // no socket was found, or several
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
	// containerd 2 pins the sandbox image. It is not asked for the image's name, because its
	// verbose status first writes a file.
	var major int
	if _, err := fmt.Sscanf(strings.TrimPrefix(v.GetVersion(), "v"), "%d", &major); err == nil && major >= 2 {
		var images []cri.Image
		images, r.SandboxErr = client.ListImages(ctx)
		r.Pins, r.Pinned = true, slices.ContainsFunc(images, func(i cri.Image) bool { return i.Pinned })
	} else {
		r.Sandbox, r.SandboxErr = client.SandboxImage(ctx)
	}
	return r.readRoots(ctx, conn, client)
}

func (r *RuntimeFacts) readRoots(ctx context.Context, conn *grpc.ClientConn, client *cri.Client) map[string]string {
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
		switch {
		case root == "" || p.GetInitErr() != nil:
		case p.GetType() == "io.containerd.content.v1":
			roots[DiskContent] = root
		// The CRI derives the path from containerd's own root. That is wrong for a snapshotter with
		// another root.
		case p.GetType() == snapshotters && filepath.Base(images) == snapshotters+"."+p.GetID():
			roots[DiskImages] = root
		}
	}
	if containers == "" || containers == images { // containerd 1.6 does not report it
		roots[DiskContainers] = roots[DiskImages]
	}
	return roots
}

const snapshotters = "io.containerd.snapshotter.v1"

// listens connects to a socket, and returns plain errors for common causes, which gRPC would wrap
// into one.
func listens(socket string) error {
	conn, err := net.DialTimeout("unix", socket, answerTime)
	info, statErr := os.Stat(socket)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, os.ErrNotExist):
		return errors.New("no such socket")
	case errors.Is(err, os.ErrPermission):
		return os.ErrPermission // the caller's error has the path
	case statErr == nil && info.Mode().Type() != os.ModeSocket:
		return errors.New("not a socket")
	case errors.Is(err, unix.ECONNREFUSED):
		return errors.New("nothing listens on it")
	}
	return err
}

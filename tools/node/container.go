package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Mount is a bind mount into a container.
type Mount struct {
	Source   string // on the host
	Target   string // in the container
	ReadOnly bool
}

// RunSpec describes a container run through containerd's own API, as builders
// and nerdctl do; see RunPod for CRI.
type RunSpec struct {
	Namespace string // default CRINamespace
	ID        string
	Image     string   // a name that was given to Import
	Args      []string // default: the image's
	Mounts    []Mount
	Labels    map[string]string

	// CgroupPath is relative to the node's cgroup. Default "/NAMESPACE/ID".
	CgroupPath string
}

// Container is a container whose process runs or has ended. It remains valid across
// restarts of containerd.
type Container struct {
	node      *Node
	namespace string
	id        string
	pid       uint32
}

// Container returns a handle for a container that may exist. A container that could not
// be started remains if the disk is too full to delete it.
func (n *Node) Container(namespace, id string) *Container {
	return &Container{node: n, namespace: namespace, id: id}
}

// Run creates a container in the host's network and starts it.
func (n *Node) Run(ctx context.Context, spec RunSpec) (*Container, error) {
	c, err := n.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start container %s: %w", spec.ID, err),
			c.Delete(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Create creates a container that has no process yet; see Start.
func (n *Node) Create(ctx context.Context, spec RunSpec) (*Container, error) {
	spec.Namespace = cmp.Or(spec.Namespace, CRINamespace)
	spec.CgroupPath = cmp.Or(spec.CgroupPath, path.Join("/", spec.Namespace, spec.ID))
	ctx = namespaces.WithNamespace(ctx, spec.Namespace)
	image, err := n.containerd.GetImage(ctx, spec.Image)
	if err != nil {
		return nil, fmt.Errorf("create container %s: %w", spec.ID, err)
	}
	err = despiteCrash(func() error {
		_, err := n.containerd.NewContainer(ctx, spec.ID,
			client.WithImage(image),
			client.WithImageName(spec.Image),
			client.WithSnapshotter(n.config.Snapshotter),
			client.WithNewSnapshot(spec.ID, image),
			client.WithContainerLabels(spec.Labels),
			// runc finds its state by namespace and ID alone, unless its root is the
			// node's own.
			client.WithRuntime("io.containerd.runc.v2", &options.Options{Root: n.at.runc()}),
			client.WithNewSpec(n.specOpts(spec, image)...),
		)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create container %s: %w", spec.ID, err)
	}
	return &Container{node: n, namespace: spec.Namespace, id: spec.ID}, nil
}

func (n *Node) specOpts(spec RunSpec, image client.Image) []oci.SpecOpts {
	var mounts []specs.Mount
	for _, m := range spec.Mounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		mounts = append(mounts, specs.Mount{
			Type: "bind", Source: m.Source, Destination: m.Target, Options: []string{"rbind", mode},
		})
	}
	return []oci.SpecOpts{
		withProcess(image, spec.Args),
		oci.WithHostNamespace(specs.NetworkNamespace),
		oci.WithMounts(mounts),
		oci.WithCgroup(path.Join(n.at.cgroup(), path.Join("/", spec.CgroupPath))),
	}
}

// withProcess sets the process of a container. containerd's own WithImageConfig would
// mount the root filesystem in this process to read /etc/group. That is an extra use of
// the layers, which would spoil tests of layer use.
func withProcess(image client.Image, args []string) oci.SpecOpts {
	return func(ctx context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		config, err := image.Spec(ctx)
		if err != nil {
			return fmt.Errorf("read image config: %w", err)
		}
		if len(args) == 0 {
			args = append(append([]string{}, config.Config.Entrypoint...), config.Config.Cmd...)
		}
		s.Process.Args = args
		s.Process.Env = append([]string{"PATH=/bin"}, config.Config.Env...)
		return nil
	}
}

// Start gives a created container its process.
func (c *Container) Start(ctx context.Context) error {
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start container %s: %w", c.id, err)
	}
	return nil
}

func (c *Container) start(ctx context.Context) error {
	ctx = namespaces.WithNamespace(ctx, c.namespace)
	loaded, err := c.node.containerd.LoadContainer(ctx, c.id)
	if err != nil {
		return err
	}
	task, err := loaded.NewTask(ctx, cio.LogFile(c.logFile()))
	if err != nil {
		return err
	}
	c.pid = task.Pid()
	return task.Start(ctx)
}

func (c *Container) logFile() string {
	return filepath.Join(c.node.at.logs(), c.namespace+"-"+c.id+".log")
}

// ID is the container's name within its namespace.
func (c *Container) ID() string { return c.id }

// PID is the PID of the container's first process on the host.
func (c *Container) PID() int { return int(c.pid) }

// Output returns what the container has written to its standard output and error.
func (c *Container) Output() (string, error) {
	data, err := os.ReadFile(c.logFile())
	return string(data), err
}

// task loads the task from the present containerd.
func (c *Container) task(ctx context.Context) (client.Task, error) {
	loaded, err := c.node.containerd.LoadContainer(ctx, c.id)
	if err != nil {
		return nil, err
	}
	return loaded.Task(ctx, nil)
}

// Wait returns the exit code once the container's process has ended.
func (c *Container) Wait(ctx context.Context) (int, error) {
	ctx = namespaces.WithNamespace(ctx, c.namespace)
	task, err := c.task(ctx)
	if err != nil {
		return -1, fmt.Errorf("wait for container %s: %w", c.id, err)
	}
	exits, err := task.Wait(ctx)
	if err != nil {
		return -1, fmt.Errorf("wait for container %s: %w", c.id, err)
	}
	exit := <-exits
	if err := exit.Error(); err != nil {
		return -1, fmt.Errorf("wait for container %s: %w", c.id, err)
	}
	return int(exit.ExitCode()), nil
}

// Kill ends the container's processes by SIGKILL and returns once they have ended. The
// container remains, stopped.
func (c *Container) Kill(ctx context.Context) error {
	err := c.kill(namespaces.WithNamespace(ctx, c.namespace))
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("kill container %s: %w", c.id, err)
	}
	return nil
}

func (c *Container) kill(ctx context.Context) error {
	task, err := c.task(ctx)
	if err != nil {
		return err
	}
	exits, err := task.Wait(ctx) // before the kill, so that the end is not missed
	if err != nil {
		return err
	}
	if err := task.Kill(ctx, syscall.SIGKILL, client.WithKillAll); err != nil {
		return err // NotFound: ended by itself
	}
	return (<-exits).Error()
}

// Delete kills the container if needed, and removes it with its snapshot. A missing
// container is no error.
func (c *Container) Delete(ctx context.Context) error {
	ctx = namespaces.WithNamespace(ctx, c.namespace)
	loaded, err := c.node.containerd.LoadContainer(ctx, c.id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete container %s: %w", c.id, err)
	}
	task, err := loaded.Task(ctx, nil)
	if err == nil {
		_, err = task.Delete(ctx, client.WithProcessKill)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete task of container %s: %w", c.id, err)
	}
	if err := loaded.Delete(ctx, client.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete container %s: %w", c.id, err)
	}
	return nil
}

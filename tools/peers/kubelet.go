package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/node"
)

// KubeletConfig describes a kubelet. Node is required; the zero value of each other
// field has a meaning.
type KubeletConfig struct {
	// Node is the throwaway node whose containerd it uses. It must be closed
	// after the kubelet.
	Node *node.Node

	// ControlPlane is the control plane with which it registers. Nil: the kubelet is
	// standalone and runs static pods only.
	ControlPlane *ControlPlane

	// NodeName is its name in the cluster. Default: the node's name.
	NodeName string

	// Configuration holds fields of KubeletConfiguration, by their YAML names. They are
	// merged into the settings that the kubelet needs here: maps field by field,
	// anything else as a whole; nil removes a field.
	Configuration map[string]any

	// Args are further flags.
	Args []string

	// RootOffDisk puts its root directory outside the node's filesystem, so that images
	// and volumes fill different disks.
	RootOffDisk bool

	// Binaries is the directory that holds the kubelet. Default $EBB_PEERS, or the
	// output of tools/peers/build.
	Binaries string

	// Log receives a line for each step; nil discards it.
	Log io.Writer
}

// Kubelet is a real kubelet beside the containerd of a throwaway node.
type Kubelet struct {
	*Component

	config  KubeletConfig
	dir     string // private files
	root    string
	ca      *Authority
	url     string
	admin   *http.Client
	clients clients
}

// StartKubelet starts a kubelet and returns once it answers and, with a control
// plane, its node is ready. The caller must Close it before the node.
func StartKubelet(ctx context.Context, c KubeletConfig) (*Kubelet, error) {
	if c.Node == nil {
		return nil, errors.New("start kubelet: no node")
	}
	c.NodeName = cmp.Or(c.NodeName, c.Node.Name())
	c.Log = cmp.Or(c.Log, io.Discard)
	k := &Kubelet{config: c, dir: filepath.Join(c.Node.Dir(), "kubelet"), root: filepath.Join(c.Node.Mount(), "kubelet")}
	if c.RootOffDisk {
		k.root = filepath.Join(k.dir, "root")
	}
	binaries, err := findBinaries(ctx, c.Binaries, c.Log, "kubelet")
	if err != nil {
		return nil, fmt.Errorf("start kubelet: %w", err)
	}
	if err := k.prepareFiles(filepath.Join(binaries, "kubelet")); err != nil {
		return nil, fmt.Errorf("start kubelet: %w", err)
	}
	if err := k.Start(ctx); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// prepareFiles prepares the files, mounts and cgroups of the kubelet.
func (k *Kubelet) prepareFiles(binary string) error {
	for _, dir := range []string{k.path("pki"), k.path("logs"), k.ManifestDir(), k.PodLogsDir(), k.root} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directories: %w", err)
		}
	}
	private, err := makePrivate(k.path("private"))
	if err != nil {
		return err
	}
	if err := cgroup.Make(k.config.Node.Cgroup()); err != nil {
		return err
	}
	if err := k.share(); err != nil {
		return err
	}
	if err := k.allowHostNetwork(); err != nil {
		return err
	}
	args, err := k.arguments()
	if err != nil {
		return err
	}
	k.Component = &Component{
		name: "kubelet", binary: binary, args: args, extra: k.config.Args,
		logFile: k.path("logs", "kubelet.log"),
		log:     slog.New(slog.NewTextHandler(k.config.Log, nil)).With("node", k.config.NodeName),
		start: func(cmd *exec.Cmd) error {
			if err := private.enter(k.config.Node.Dir()); err != nil {
				return err
			}
			return cmd.Start()
		},
		ready: k.askReady,
	}
	return nil
}

// share makes mounts below the root directory, such as the volumes of pods, visible in
// the namespaces of both containerd and the kubelet.
func (k *Kubelet) share() error {
	point := k.config.Node.Mount()
	if k.config.RootOffDisk {
		point = k.root
		if err := unix.Mount(point, point, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind root directory: %w", err)
		}
	}
	if err := unix.Mount("", point, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share %s: %w", point, err)
	}
	return nil
}

// allowHostNetwork gives containerd a CNI configuration, without which the node never
// becomes ready. Its plugin does not exist: a pod with its own network fails.
func (k *Kubelet) allowHostNetwork() error {
	dir := filepath.Join(k.config.Node.Dir(), "cni")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make CNI directory: %w", err)
	}
	const config = `{"cniVersion": "0.4.0", "name": "host-network-only", "plugins": [{"type": "none"}]}`
	if err := os.WriteFile(filepath.Join(dir, "10-none.conflist"), []byte(config), 0o644); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	return nil
}

func (k *Kubelet) path(elem ...string) string {
	return filepath.Join(append([]string{k.dir}, elem...)...)
}

// URL of its API, without a slash at its end: /pods, /configz, /metrics, ….
func (k *Kubelet) URL() string { return k.url }

// NodeName is its name in the cluster; static pods' names end with it.
func (k *Kubelet) NodeName() string { return k.config.NodeName }

// ControlPlane is the control plane with which it registers; nil for a standalone
// kubelet.
func (k *Kubelet) ControlPlane() *ControlPlane { return k.config.ControlPlane }

// RootDir holds the volumes of pods; on other machines it is /var/lib/kubelet.
func (k *Kubelet) RootDir() string { return k.root }

// PodLogsDir holds the logs of containers, on the node's filesystem; on other machines
// it is /var/log/pods.
func (k *Kubelet) PodLogsDir() string { return filepath.Join(k.config.Node.Mount(), "podlogs") }

// ContainerLogsDir holds the links to the logs, named after the containers. The kubelet
// sees it as /var/log/containers, a path that cannot be configured.
func (k *Kubelet) ContainerLogsDir() string { return k.path("private", "log", "containers") }

// ManifestDir is the directory of static pods.
func (k *Kubelet) ManifestDir() string { return k.path("manifests") }

// ConfigFile is the kubelet's configuration file.
func (k *Kubelet) ConfigFile() string { return k.path("config.yaml") }

// Authority signs certificates for the kubelet's clients and for its server. With a
// control plane it is the control plane's.
func (k *Kubelet) Authority() *Authority { return k.ca }

// ClientFiles writes a client's certificate and key, and the authority to trust. A
// standalone kubelet admits every client with a certificate. With a control plane, it
// asks the API server whether the user is authorised.
func (k *Kubelet) ClientFiles(u User) (Files, error) {
	creds, err := k.ca.Client(u)
	if err != nil {
		return Files{}, err
	}
	dir, err := os.MkdirTemp(k.path("pki"), "client-")
	if err != nil {
		return Files{}, fmt.Errorf("write credentials: %w", err)
	}
	return creds.Write(dir, "client")
}

// Client returns an HTTP client that acts as a user at the kubelet. Close closes it.
func (k *Kubelet) Client(user string, groups ...string) (*http.Client, error) {
	return k.clients.add(k.ca, user, groups...)
}

// Admin returns a client with all rights. Close closes it.
func (k *Kubelet) Admin() *http.Client { return k.admin }

// Close kills the kubelet. Its pods keep running; they and its files are removed with
// the node.
func (k *Kubelet) Close() error {
	defer k.clients.close()
	return k.Kill()
}

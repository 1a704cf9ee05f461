package node

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"text/template"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/process"
)

// SandboxImage is the name of the image that CRI runs for each pod. It is built here,
// like all other images.
const SandboxImage = "node.test/pause:1"

const (
	// An emulated machine is slow. A process that has ended is noticed at once.
	readyTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// daemonConfig is the configuration of containerd. The flavors differ mainly in the
// names of plugins. The disabled plugins write outside the node (opt), poll (restart),
// or are for filesystems that a node never has.
var daemonConfig = map[Flavor]*template.Template{
	Debian: template.Must(template.New("debian").Parse(`version = 2
root = "{{.Root}}"
state = "{{.State}}"
temp = "{{.Temp}}"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Sandbox}}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.CNI}}"
    conf_dir = "{{.CNI}}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{{.Snapshotter}}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{{.Runc}}"
{{if .UpperdirLabel}}[plugins."io.containerd.snapshotter.v1.overlayfs"]
  upperdir_label = true
{{end}}{{with .Proxy}}[proxy_plugins.proxy]
  type = "snapshot"
  address = "{{.}}"
{{end}}`)),
	V2: template.Must(template.New("v2").Parse(`version = 3
root = "{{.Root}}"
state = "{{.State}}"
temp = "{{.Temp}}"
imports = []
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.monitor.container.v1.restart",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.snapshotter.v1.blockfile",
]
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{{.Snapshotter}}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{{.Sandbox}}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{{.CNI}}"]
    conf_dir = "{{.CNI}}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        Root = "{{.Runc}}"
{{if .UpperdirLabel}}[plugins."io.containerd.snapshotter.v1.overlayfs"]
  upperdir_label = true
{{end}}{{with .Proxy}}[proxy_plugins.proxy]
  type = "snapshot"
  address = "{{.}}"
  [proxy_plugins.proxy.exports]
    root = "{{$.ProxyRoot}}"
{{end}}`)),
}

func writeDaemonConfig(l layout, c Config) error {
	var b bytes.Buffer
	err := daemonConfig[c.Containerd].Execute(&b, map[string]any{
		"Root": l.root(), "State": l.state(), "Temp": l.tmp(), "Socket": l.socket(),
		"Sandbox": cmp.Or(c.Sandbox, SandboxImage), "Snapshotter": c.Snapshotter, "Runc": l.runc(), "UpperdirLabel": c.UpperdirLabel, "Proxy": c.Proxy, "ProxyRoot": c.ProxyRoot,
		// This directory never exists: pods use the host's network.
		"CNI": l.path("cni"),
	})
	if err != nil {
		return fmt.Errorf("write containerd's config: %w", err)
	}
	for _, dir := range []string{l.state(), l.tmp(), l.runc(), l.logs()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make containerd's directories: %w", err)
		}
	}
	return os.WriteFile(l.config(), b.Bytes(), 0o600)
}

// startDaemon starts containerd. containerd and its shims survive an owner that is killed;
// Clean finds them.
func startDaemon(l layout, binary string) (*process.Process, error) {
	cmd := exec.Command(binary, "--config", l.config())
	// containerd searches the shim in PATH first, then beside its own binary. TMPDIR
	// reaches the shims, too.
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "TMPDIR="+l.tmp())
	// Its own process group: a Ctrl-C reaches only the owner, which then cleans up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := process.StartLogged(cmd, l.daemonLog(), nil)
	if err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	return p, nil
}

// awaitReady returns once CRI answers: CRI is the last part of containerd to become
// ready.
func (n *Node) awaitReady(ctx context.Context, d *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var fatal error
	err := d.Await(ctx, n.at.daemonLog(), "containerd", func(ctx context.Context) error {
		_, err := n.pods.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		if status.Code(err) != codes.Unimplemented {
			return err
		}
		fatal = fmt.Errorf("start containerd: CRI did not load: %w%s", err, process.Tail(n.at.daemonLog()))
		return nil
	})
	return cmp.Or(fatal, err)
}

// containerdEnv is the variable that names the output directory of
// tools/containerd/build, if that was built elsewhere.
const containerdEnv = "EBB_CONTAINERD"

// findContainerd returns the binary of a flavor, and builds it if needed.
func findContainerd(ctx context.Context, flavor Flavor, log io.Writer) (string, error) {
	if flavor == Debian {
		binary, err := exec.LookPath("containerd")
		if err != nil {
			return "", fmt.Errorf("find containerd (apt-get install containerd): %w", err)
		}
		return filepath.Abs(binary)
	}
	dir := os.Getenv(containerdEnv)
	if dir == "" {
		var err error
		if dir, err = process.Build(ctx, log, "tools/containerd/build"); err != nil {
			return "", fmt.Errorf("build containerd: %w", err)
		}
	}
	return filepath.Abs(filepath.Join(dir, "containerd"))
}

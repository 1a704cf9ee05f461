package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxImage is the name of the image that CRI runs for each pod. It is
// built on the spot, like all others.
const SandboxImage = "node.test/pause:1"

const (
	readyTimeout = 2 * time.Minute // nobody waits when all is well
	stopTimeout  = 15 * time.Second
)

// daemonConfig is common to both flavors but for the names of the plugins.
// What is disabled would write outside the node (opt), poll (restart), or is
// for filesystems a node never has.
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
`)),
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
`)),
}

func writeDaemonConfig(l layout, c Config) error {
	var b bytes.Buffer
	err := daemonConfig[c.Containerd].Execute(&b, map[string]string{
		"Root": l.root(), "State": l.state(), "Temp": l.tmp(), "Socket": l.socket(),
		"Sandbox": SandboxImage, "Snapshotter": c.Snapshotter, "Runc": l.runc(),
		// Never there: pods live in the host's network.
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

// daemon is a running containerd, a child of this process.
type daemon struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and was waited for
}

func startDaemon(l layout, binary string) (*daemon, error) {
	log, err := os.OpenFile(l.daemonLog(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open containerd's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "--config", l.config())
	cmd.Stdout, cmd.Stderr = log, log
	// containerd takes the shim from PATH before the one beside itself; TMPDIR
	// reaches the shims, too.
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "TMPDIR="+l.tmp())
	// Its own process group: a Ctrl-C is for the owner, who then cleans up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	d := &daemon{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		_ = cmd.Wait() // how it ended is in its log, and cmd.ProcessState
	}()
	return d, nil
}

// signal sends a signal and waits until the daemon has ended.
func (d *daemon) signal(ctx context.Context, sig os.Signal) error {
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal containerd: %w", err)
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for containerd to end: %w", ctx.Err())
	}
}

// awaitReady returns once CRI answers: the last part of containerd to do so.
func (n *Node) awaitReady(ctx context.Context, d *daemon) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := n.pods.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		if err == nil {
			return nil
		}
		if status.Code(err) == codes.Unimplemented {
			return fmt.Errorf("start containerd: CRI did not load: %w%s", err, n.logTail())
		}
		select {
		case <-d.done:
			return fmt.Errorf("start containerd: %s%s", d.cmd.ProcessState, n.logTail())
		case <-ctx.Done():
			return fmt.Errorf("wait for containerd: %w, last answer: %w%s", ctx.Err(), err, n.logTail())
		case <-tick.C:
		}
	}
}

const logTailBytes = 4096

// logTail returns the end of containerd's log, to go behind an error.
func (n *Node) logTail() string {
	f, err := os.Open(n.at.daemonLog())
	if err != nil {
		return ""
	}
	defer f.Close()
	// Fails on a log shorter than that, which is then read from its start.
	_, _ = f.Seek(-logTailBytes, io.SeekEnd)
	tail, err := io.ReadAll(io.LimitReader(f, logTailBytes))
	if err != nil || len(tail) == 0 {
		return ""
	}
	return "\ncontainerd's log ends with:\n" + strings.TrimSpace(string(tail))
}

// findContainerd returns the binary of a flavor, which is built if need be.
func findContainerd(ctx context.Context, flavor Flavor, log io.Writer) (string, error) {
	if flavor == Debian {
		binary, err := exec.LookPath("containerd")
		if err != nil {
			return "", fmt.Errorf("find containerd (apt-get install containerd): %w", err)
		}
		return filepath.Abs(binary)
	}
	script, err := Script("tools", "containerd", "build")
	if err != nil {
		return "", fmt.Errorf("build containerd: %w", err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, script)
	cmd.Stderr = io.MultiWriter(log, &stderr)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build containerd: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return filepath.Join(strings.TrimSpace(string(out)), "containerd"), nil
}

// Script finds a script of this repository by its path in it, upwards from the
// working directory: tests run in their package's directory, commands mostly at
// the top.
func Script(path ...string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	name := filepath.Join(path...)
	for from := dir; ; dir = filepath.Dir(dir) {
		script := filepath.Join(dir, name)
		if _, err := os.Stat(script); err == nil {
			return script, nil
		}
		if dir == "/" {
			return "", fmt.Errorf("no %s in or above %s", name, from)
		}
	}
}

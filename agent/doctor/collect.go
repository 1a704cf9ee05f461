package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/containerd/layout"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// Options say what to read, and how.
type Options struct {
	Config     config.Config
	ConfigFile string // what it was read from; "": the defaults
	// KubeletConfig is a file to judge in place of a running kubelet's settings.
	KubeletConfig string
	// Kubelet is how to ask the kubelet for /configz. Without a URL, the agent's own access
	// (pods.kubelet) is used if pods.source is kubelet. If the kubelet is not asked, only its
	// command line and files are read.
	Kubelet kube.KubeletOptions
	// KubeletPID selects one of several kubelets; 0: the one that uses ebb's runtime, else the
	// first.
	KubeletPID int
	// SkipProbes skips the kernel programs.
	SkipProbes bool
}

const proc = "/proc"

// Collect reads the node. It returns no error: the facts say what could not be read.
func Collect(ctx context.Context, o Options) Facts {
	f := Facts{Config: o.Config, ConfigFile: o.ConfigFile}
	f.Node, _ = os.Hostname()
	f.Runtime.Socket, f.Runtime.Err = layout.Socket(o.Config.Runtime.Socket)
	f.Kubelet = readKubelet(ctx, o, f.Runtime.Socket)
	f.Kernel = readKernel(o)
	f.Disks = readDisks(&f, readRuntime(ctx, &f))
	f.Agent = readAgent(ctx, o.Config)
	f.Agent.PID = kubelet.FindDaemon(proc, "ebb-agent")
	f.Pods = readPods(ctx, o.Config.Pods)
	f.Probes = readProbes(ctx, o)
	return f
}

func readProbes(ctx context.Context, o Options) (p ProbeFacts) {
	switch {
	case !o.Config.Kernel.Enabled:
		p.Skipped = "kernel.enabled is false"
	case o.SkipProbes:
		p.Skipped = "--skip-probes"
	default: // no sample: counting runs costs every BPF program on the node
		p.Report, p.Err = bpf.ReadReport(ctx, o.Config.Kernel.PinDirectory, 0)
	}
	return p
}

// readDisks reads the filesystems of the directories of the runtime, the configuration and the
// kubelet. roots has the runtime's directories by name.
func readDisks(f *Facts, roots map[string]string) (disks []Disk) {
	paths := map[string]string{DiskKubelet: f.Config.Filesystems.Kubelet.Path, DiskLogs: f.Config.Filesystems.PodLogs.Path}
	maps.Copy(paths, roots)
	if f.Kubelet.known() {
		paths[DiskNode] = f.Kubelet.Settings.RootDir.V
	}
	for _, name := range slices.Concat(watched, []string{DiskNode}) {
		path := paths[name]
		if path == "" {
			continue
		}
		var d Disk
		var owner *kubelet.Process
		if name == DiskNode {
			owner = f.Kubelet.Chosen
		}
		err := fmt.Errorf("%q is not an absolute path", path)
		if filepath.IsAbs(path) {
			d, err = statDirectory(path, owner)
		}
		d.Name, d.Path, d.Err = name, path, err
		disks = append(disks, d)
	}
	return disks
}

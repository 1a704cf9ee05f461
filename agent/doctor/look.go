package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/containerd/layout"
)

// Options say what to look at, and how.
type Options struct {
	Config     config.Config
	ConfigFile string // what it was read from; "": the defaults

	// KubeletConfig is a file to judge in place of a running kubelet's settings.
	KubeletConfig string
	// Kubelet is where to ask it for /configz. Without a URL its command line
	// and files are read.
	Kubelet kubelet.Access
	// KubeletPID chooses among several; 0: the one that uses ebb's runtime.
	KubeletPID int

	// SkipProbes leaves the kernel programs alone.
	SkipProbes bool

	// Proc is where proc is mounted; "": /proc.
	Proc string
}

// Look reads the node. What cannot be read is in the facts; there is no error.
func Look(ctx context.Context, o Options) Facts {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	f := Facts{Config: o.Config, ConfigFile: o.ConfigFile}
	f.Node, _ = os.Hostname()
	f.Runtime.Socket, f.Runtime.Err = layout.Socket(o.Config.Runtime.Socket)
	f.Kubelet = lookAtKubelet(ctx, o, f.Runtime.Socket)
	f.Kubelet.lookAtPulled()
	f.Kernel = lookAtKernel(o)
	roots := lookAtRuntime(ctx, &f)
	f.Disks = lookAtDisks(&f, roots)
	f.Agent = lookAtAgent(ctx, o.Config)
	f.Agent.PID = kubelet.FindProgram(o.Proc, "ebb-agent")
	f.Pods = lookAtPods(ctx, o.Config.Pods)
	f.Probes = lookAtProbes(ctx, o)
	return f
}

func lookAtProbes(ctx context.Context, o Options) ProbeFacts {
	switch {
	case !o.Config.Kernel.Enabled:
		return ProbeFacts{Skipped: "kernel.enabled is false"}
	case o.SkipProbes:
		return ProbeFacts{Skipped: "--skip-probes"}
	}
	// No sample: counting runs would cost every program of the node.
	report, err := bpf.ReadReport(ctx, o.Config.Kernel.PinDirectory, 0)
	if err != nil {
		return ProbeFacts{Err: err}
	}
	return ProbeFacts{Report: report}
}

func lookAtDisks(f *Facts, roots map[string]string) []Disk {
	var disks []Disk
	for _, name := range []string{DiskImages, DiskContent, DiskContainers} {
		if path := roots[name]; path != "" {
			disks = append(disks, readDisk(name, path, nil))
		}
	}
	if path := f.Config.Filesystems.Kubelet.Path; path != "" {
		disks = append(disks, readDisk(DiskKubelet, path, nil))
	}
	if path := f.Config.Filesystems.PodLogs.Path; path != "" {
		disks = append(disks, readDisk(DiskLogs, path, nil))
	}
	if f.Kubelet.known() {
		disks = append(disks, readDisk(DiskNode, f.Kubelet.Settings.RootDir.V, f.Kubelet.Chosen))
	}
	return disks
}

func readDisk(name, path string, owner *kubelet.Process) Disk {
	if !filepath.IsAbs(path) {
		return Disk{Name: name, Path: path, Err: fmt.Errorf("%q is not an absolute path", path)}
	}
	d, err := statDirectory(path, owner)
	d.Name, d.Path, d.Err = name, path, err
	return d
}

package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/containerd/layout"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/tools/golden"
)

const gib = 1 << 30

// healthy is a node on which all is as it should be.
func healthy() Facts {
	s := kubelet.Defaults()
	const file = "/var/lib/kubelet/config.yaml"
	s.ImageGCHighThresholdPercent = kubelet.Value[int]{V: 100, From: file}
	for signal, v := range map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
	} {
		s.EvictionHard[signal] = kubelet.Value[string]{V: v, From: kubelet.FromDefault}
	}
	s.MaximumDeadContainers = kubelet.Value[int]{V: -1, From: "--maximum-dead-containers"}
	s.MaximumDeadPerContainer = kubelet.Value[int]{V: -1, From: "--maximum-dead-containers-per-container"}
	s.FlagsKnown = true
	process := kubelet.Process{PID: 812, Args: []string{"--config=" + file}}
	disk := func(name, path string) Disk {
		return Disk{Name: name, Path: path, Type: "ext4", Mount: "/", Dev: 8<<20 | 1, Figures: image.Disk{
			CapacityBytes: 100 * gib, AvailableBytes: 62 * gib, Inodes: 6553600, InodesAvailable: 6000000,
		}}
	}
	enforcing := config.Default()
	enforcing.Mode = config.ModeEnforce
	return Facts{
		Node: "worker-3", Config: enforcing, ConfigFile: "/etc/ebb.yaml",
		Kubelet: KubeletFacts{
			Found: []kubelet.Process{process}, Chosen: &process, Source: "its command line and " + file, Settings: s,
		},
		Disks: []Disk{
			disk(DiskImages, "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"),
			disk(DiskContainers, "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"),
			disk(DiskContent, "/var/lib/containerd/io.containerd.content.v1.content"),
			disk(DiskKubelet, "/var/lib/kubelet"), disk(DiskLogs, "/var/log/pods"), disk(DiskNode, "/var/lib/kubelet"),
		},
		Kernel: KernelFacts{
			Release: "6.12.43", Lockdown: "none", BPFFS: Mounted{Path: "/sys/fs/bpf/ebb", Is: true},
			Tracefs: Mounted{Path: "/sys/kernel/tracing", Is: true}, BPFFSKnown: true,
		},
		Runtime: RuntimeFacts{Socket: "/run/containerd/containerd.sock", Version: "containerd v2.4.2", Pins: true, Pinned: true, SameAsTheirs: true},
		Agent: AgentFacts{Address: "127.0.0.1:9478", Answered: true, Ready: true, StateDir: "/var/lib/ebb",
			LockFile: "/run/ebb/agent.lock", Holder: "pod ebb-system/ebb-agent-x7k2p, pid 4711, version v0.6.0, since 2026-01-02T03:04:05Z"},
		Pods: PodFacts{Source: config.PodsFromKubelet, From: "the kubelet at https://127.0.0.1:10250", Count: 23},
		Probes: ProbeFacts{Report: &bpf.Report{PinDir: "/sys/fs/bpf/ebb", Objects: []bpf.ObjectReport{
			{Name: "lastuse", State: bpf.StatePinned, Programs: []bpf.ProgramReport{{Attached: true}, {Attached: true}}},
		}}},
	}
}

// screens are whole reports, as people see them.
var screens = map[string]func(f *Facts){
	"healthy": func(*Facts) {},
	"fresh": func(f *Facts) { // a node as kubeadm leaves it, ebb not yet started
		f.Config, f.ConfigFile = config.Default(), ""
		d := kubelet.Defaults()
		s := &f.Kubelet.Settings
		s.ImageGCHighThresholdPercent, s.MaximumDeadContainers, s.MaximumDeadPerContainer =
			d.ImageGCHighThresholdPercent, d.MaximumDeadContainers, d.MaximumDeadPerContainer
		f.Agent.Answered, f.Agent.Ready, f.Agent.Holder = false, false, ""
		f.Kernel.BPFFS.Is = false
		f.Probes.Report.Trial = true
		f.Pods = PodFacts{Source: config.PodsFromNobody}
	},
	"both": func(f *Facts) { // the one in docs/doctor.md
		f.Kubelet.Settings.ImageGCHighThresholdPercent = kubelet.Defaults().ImageGCHighThresholdPercent
		f.Pods = PodFacts{Source: config.PodsFromNobody}
	},
	"dangerous": func(f *Facts) { // thresholds that meet, images on a disk of their own, a full nodefs
		f.Config.Images.HighThresholdPercent, f.Config.Images.LowThresholdPercent = 85, 84
		f.Config.Filesystems.Kubelet.HighThresholdPercent = 89
		f.Kubelet.Different = []string{"imageGCLowThresholdPercent is 80, not 60"}
		f.Config.Containers.MaxPerPodContainer = 3
		s := &f.Kubelet.Settings
		s.EvictionSoft["imagefs.available"] = kubelet.Value[string]{V: "20Gi", From: "/etc/kubernetes/kubelet.conf.d/10-soft.conf"}
		s.EvictionHard["containerfs.available"] = kubelet.Value[string]{V: "5%", From: "--eviction-hard"}
		s.ImageMaximumGCAge = kubelet.Value[time.Duration]{V: 168 * time.Hour, From: "/etc/kubernetes/kubelet.conf.d/20-age.conf"}
		for i := range f.Disks {
			if d := &f.Disks[i]; d.Name == DiskKubelet || d.Name == DiskNode || d.Name == DiskLogs {
				d.Dev, d.Type, d.Mount = 8<<20|2, "xfs", "/var/lib/kubelet"
				d.Figures = image.Disk{CapacityBytes: 20 * gib, AvailableBytes: gib, Inodes: 1000, InodesAvailable: 900}
			}
		}
	},
	"quota": func(f *Facts) { // the runtime's directory in a project with a limit
		for i := range f.Disks {
			d := &f.Disks[i]
			switch d.Name {
			case DiskImages, DiskContent, DiskContainers:
				d.Project = fs.Project{ID: 42, Limited: true}
				d.Figures.CapacityBytes, d.Figures.AvailableBytes = 40*gib, 20*gib
			case DiskLogs:
				d.Project = fs.Project{ID: 43, Limited: true, Unsure: true}
			}
		}
	},
	"blind": func(f *Facts) { // an unprivileged pod
		f.Kubelet = KubeletFacts{}
		f.Runtime = RuntimeFacts{Socket: "/run/containerd/containerd.sock", Err: errors.New("no such socket")}
		f.Disks = []Disk{
			{Name: DiskKubelet, Path: "/var/lib/kubelet", Err: errors.New("no such file or directory")},
			{Name: DiskLogs, Path: "/var/log/pods", Type: "overlay", Figures: image.Disk{CapacityBytes: gib, AvailableBytes: gib}},
		}
		f.Kernel = KernelFacts{
			Release: "5.10.0-28-amd64", BTF: errors.New("open /sys/kernel/btf/vmlinux: no such file or directory"), Lockdown: "confidentiality",
			Missing: []bpf.Capability{
				{Name: "CAP_BPF", For: "create maps and programs"}, {Name: "CAP_PERFMON", For: "trace the kernel"},
				{Name: "CAP_SYS_ADMIN", For: "mount bpffs and trace modules"},
			},
			BPFFS:    Mounted{Path: "/sys/fs/bpf/ebb"},
			Tracefs:  Mounted{Path: "/sys/kernel/tracing", Err: errors.New("statfs: permission denied")},
			CgroupV2: errors.New("no cgroup v2 hierarchy is mounted"),
		}
		f.Pods = PodFacts{Source: config.PodsFromAPIServer, Err: errors.New("API server: list pods of node worker-3: not allowed: pods is forbidden")}
		f.Probes = ProbeFacts{Err: errors.New("not permitted (missing CAP_BPF)")}
		f.Agent = AgentFacts{Address: "127.0.0.1:9478", StateDir: "/var/lib/ebb", StateErr: errors.New("/var/lib: read-only file system"),
			LockFile: "/run/ebb/agent.lock", LockErr: errors.New("/run: read-only file system")}
	},
}

func TestScreens(t *testing.T) {
	for name, change := range screens {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			change(&f)
			var got strings.Builder
			if err := WriteText(&got, Evaluate(f)); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", name+".txt"), got.String())
		})
	}
}

// TestPage: the excerpt in docs/doctor.md is what people see.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, excerpt, found := strings.Cut(string(page), "# bin/ebb doctor\n")
	excerpt, _, closed := strings.Cut(excerpt, "```")
	if !found || !closed {
		t.Fatal("docs/doctor.md has no screen of ebb doctor")
	}
	screen, err := os.ReadFile("testdata/both.txt")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(excerpt, "...\n") {
		if !strings.Contains(string(screen), part) {
			t.Errorf("testdata/both.txt does not have:\n%s", part)
		}
	}
}

// TestRuntimeNotFound: the fix names the field to set, and the socket if the kubelet names one.
func TestRuntimeNotFound(t *testing.T) {
	for _, problem := range []error{layout.ErrNone, layout.ErrSeveral} {
		f := healthy()
		f.Runtime = RuntimeFacts{Err: fmt.Errorf("%w: somewhere", problem)}
		for _, want := range []string{"runtime.socket: /run/containerd/containerd.sock in /etc/ebb.yaml", "the one that the kubelet uses"} {
			all := &findings{}
			evaluateRuntime(all, &f)
			if len(all.checks) != 1 || all.checks[0].Level != Error || !strings.Contains(fmt.Sprint(all.checks[0]), want) {
				t.Errorf("%q is not in %+v", want, all.checks)
			}
			f.Kubelet = KubeletFacts{} // the second time
		}
	}
}

// TestLockdownIsJudged: integrity forbids nothing that ebb does (kprobes and reading
// kernel memory are of confidentiality: security/security.c).
func TestLockdownIsJudged(t *testing.T) {
	for level, want := range map[string]Level{"none": OK, "": OK, "integrity": OK, "confidentiality": Warning} {
		f := &Facts{}
		f.Kernel.Lockdown = level
		var all findings
		evaluateKernel(&all, f)
		for _, c := range all.checks {
			if c.ID == "kernel.lockdown" && c.Level != want {
				t.Errorf("%q is judged as %+v", level, c)
			}
		}
	}
}

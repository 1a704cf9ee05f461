package doctor

import (
	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Facts are all that was read from the node. Nothing else is judged.
type Facts struct {
	Node       string
	Config     config.Config
	ConfigFile string // "": the defaults
	Kubelet    KubeletFacts
	Disks      []Disk
	Kernel     KernelFacts
	Runtime    RuntimeFacts
	Agent      AgentFacts
	Pods       PodFacts
	Probes     ProbeFacts
}

// KubeletFacts are what is known of the kubelet.
type KubeletFacts struct {
	Found    []kubelet.Process
	Chosen   *kubelet.Process // nil: none is running, or it cannot be seen
	FindErr  error
	Source   string // where the settings were read, for people
	Settings kubelet.Settings
	Err      error // not nil: the settings are not complete

	AskErr    error    // why the kubelet did not answer; its files are used
	Demanded  bool     // the user demanded that it is asked
	Different []string // settings in which it differs from its files
	Changed   []string // files changed since it started; only if it did not answer
}

// known reports whether the settings can be relied upon.
func (k *KubeletFacts) known() bool { return k.Source != "" && k.Err == nil }

// The purposes of directories. The first five are the agent's names for them.
const (
	DiskImages     = "images"
	DiskContent    = "content"
	DiskContainers = "containers"
	DiskKubelet    = "kubelet"
	DiskLogs       = "logs"
	// DiskNode is the running kubelet's root directory: its nodefs.
	DiskNode = "nodefs"
)

// watched are the directories that ebb watches.
var watched = []string{DiskImages, DiskContent, DiskContainers, DiskKubelet, DiskLogs}

// Disk is a directory and the filesystem it is on.
type Disk struct {
	Name, Path string
	Type       string
	Mount      string // mount point; "" where it is not known
	Dev        uint64
	Project    fs.Project // whose quota limits the figures, if any
	Figures    image.Disk
	Err        error
}

// KernelFacts are what the kernel offers to this process.
type KernelFacts struct {
	Release  string
	BTF      error  // nil: available
	Lockdown string // "none", "integrity", "confidentiality"; "" if unknown
	Missing  []bpf.Capability
	CapsErr  error

	BPFFS      Mounted // at kernel.pinDirectory
	Tracefs    Mounted
	CgroupV2   error // nil: a v2 hierarchy is mounted
	BPFFSKnown bool  // the kernel supports bpffs
}

// Mounted is whether a path is on the expected filesystem.
type Mounted struct {
	Path string
	Is   bool
	Err  error
}

// RuntimeFacts are what the runtime at the socket reports.
type RuntimeFacts struct {
	Socket       string // "": not known
	Err          error  // it does not answer; then nothing else is known
	Version      string
	CRIErr       error
	Sandbox      string // the sandbox image's name, if the runtime does not pin it
	Pins         bool   // the runtime pins the sandbox image, if it finds it: containerd 2
	Pinned       bool   // it has pinned an image
	SandboxErr   error
	RootsErr     error
	SameAsTheirs bool // it is the socket the kubelet uses
}

// AgentFacts are what is known of an agent on this node.
type AgentFacts struct {
	PID      int    // of an ebb-agent process; 0: none was found
	Address  string // "": no server
	Answered bool
	Ready    bool
	Says     string // why it is not ready

	StateDir string
	StateErr error // not nil: cannot be written

	LockFile string
	LockErr  error  // not nil: it cannot be created or read
	Holder   string // the agent that holds it, for people; "": none
}

// down reports that no agent runs, as far as ebb can see.
func (a *AgentFacts) down() bool {
	return a.Address != "" && !a.Answered && a.PID == 0 && a.Holder == ""
}

// PodFacts are what the source of pods returned.
type PodFacts struct {
	Source string // pods.source
	From   string // for people
	Count  int
	Err    error
}

// ProbeFacts are the report about the kernel programs.
type ProbeFacts struct {
	Skipped string // why there is no report
	Report  *bpf.Report
	Err     error
}

// disk returns a directory by name; nil if it could not be read.
func (f *Facts) disk(name string) *Disk {
	for i := range f.Disks {
		if d := &f.Disks[i]; d.Name == name && d.Err == nil {
			return d
		}
	}
	return nil
}

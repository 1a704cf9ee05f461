package doctor

import (
	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Facts are what was read: all that is judged.
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

	AskErr    error    // the kubelet itself would not tell; its files hold
	Demanded  bool     // a person wanted it to be asked
	Different []string // where it runs with something else than its files say
	Changed   []string // files changed since it began; only if it was not asked

	Pulled PulledFacts
}

// known tells whether the settings can be relied upon.
func (k *KubeletFacts) known() bool { return k.Source != "" && k.Err == nil }

// What a directory is for. The first five are the agent's names.
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
	Project    fs.Project // whose limit the figures are of, if any
	Figures    image.Disk
	Err        error
}

// KernelFacts are what the kernel offers to this process.
type KernelFacts struct {
	Release  string
	BTF      error  // nil: there
	Lockdown string // "none", "integrity", "confidentiality"; "" if unknown
	Missing  []bpf.Capability
	CapsErr  error

	BPFFS      Mounted // where kernel.pinDirectory is
	Tracefs    Mounted
	CgroupV2   error // nil: a v2 hierarchy is there
	BPFFSKnown bool  // the kernel knows the filesystem
}

// Mounted tells whether a filesystem is where it belongs.
type Mounted struct {
	Path string
	Is   bool
	Err  error
}

// RuntimeFacts are what answers at the runtime's socket.
type RuntimeFacts struct {
	Socket       string // "": not known
	Err          error  // it does not answer; nothing else is known then
	Version      string
	CRIErr       error
	Sandbox      string // the sandbox image's name, where it goes by name
	Pins         bool   // the runtime pins the sandbox image, if it finds it: containerd 2
	Pinned       bool   // it has pinned an image
	SandboxErr   error
	RootsErr     error
	SameAsTheirs bool // it is the socket the kubelet uses
}

// AgentFacts are what is known of an agent on this node.
type AgentFacts struct {
	PID      int    // of one among the processes; 0: none is seen
	Address  string // "": no server
	Answered bool
	Ready    bool
	Says     string // why it is not ready

	StateDir string
	StateErr error // not nil: cannot be written

	LockFile string
	LockErr  error  // not nil: it cannot be made or looked at
	Holder   string // who holds it, for people; "": nobody
}

// down reports that no agent runs, as far as ebb can see.
func (a *AgentFacts) down() bool {
	return a.Address != "" && !a.Answered && a.PID == 0 && a.Holder == ""
}

// PodFacts are what the source of pods answers.
type PodFacts struct {
	Source string // pods.source
	From   string // for people
	Count  int
	Err    error
}

// ProbeFacts are what the kernel programs do, or would do.
type ProbeFacts struct {
	Skipped string // why nothing was read
	Report  *bpf.Report
	Err     error
}

// disk finds a directory by name; nil if it is not there.
func (f *Facts) disk(name string) *Disk {
	for i := range f.Disks {
		if d := &f.Disks[i]; d.Name == name && d.Err == nil {
			return d
		}
	}
	return nil
}

package config

import (
	"time"
)

// Mode says what the agent does with its decisions.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce" // decide and remove
	ModeObserve Mode = "observe" // decide, explain, export; remove nothing
)

// Config is the whole configuration of ebb-agent. The doc tag of each field is
// what "ebb-agent config default" writes above it.
type Config struct {
	Mode              Mode        `json:"mode" doc:"observe only says what it would remove; enforce removes what the policy chooses. Nothing is removed until this says enforce."`
	ReconcileInterval Duration    `json:"reconcileInterval" doc:"How often everything is looked at again although nothing happened: the safety net for lost events. 30s to 24h, jittered by 10 %."`
	Runtime           Runtime     `json:"runtime" doc:"The container runtime."`
	Images            Images      `json:"images" doc:"When images go. Names and meaning are the kubelet's where it has them."`
	Containers        Containers  `json:"containers" doc:"When dead containers, their sandboxes and their logs go. The limits are the kubelet's (--minimum-container-ttl-duration and the two --maximum-dead-containers flags), and so are their defaults."`
	Pods              Pods        `json:"pods" doc:"Where the agent learns which pods are bound to this node. While that cannot be reached, no pod is taken for deleted."`
	Filesystems       Filesystems `json:"filesystems" doc:"What is watched beside the filesystems of images, blobs and writable layers, which the runtime names and the thresholds above are for. Directories on one filesystem are watched as one: with the image thresholds if images are on it, else with the lowest."`
	Kernel            Kernel      `json:"kernel" doc:"The programs in the kernel."`
	Writers           Writers     `json:"writers" doc:"Who fills the disk."`
	State             State       `json:"state" doc:"What outlives a restart."`
	Server            Server      `json:"server" doc:"Metrics and health, and the admin socket."`
	Log               Log         `json:"log" doc:"Logging, to standard error."`
}

// Runtime says where the container runtime is.
type Runtime struct {
	Socket string `json:"socket" doc:"Path of containerd's socket, which also serves the CRI. auto: the one that is there of /run/containerd/containerd.sock, and of those of k3s, RKE2, MicroK8s and k0s; if several are, name the one that the kubelet uses."`
}

// SocketAuto is a socket that is looked for (runtime/containerd/layout).
const SocketAuto = "auto"

// Images is the image policy.
type Images struct {
	HighThresholdPercent       int      `json:"imageGCHighThresholdPercent" doc:"Reclaim starts when the image filesystem is used to this percentage. Keep it below the kubelet's eviction threshold (85 by default). 100 switches it off."`
	LowThresholdPercent        int      `json:"imageGCLowThresholdPercent" doc:"Reclaim ends at or below this percentage. Below the high threshold."`
	InodesHighThresholdPercent int      `json:"inodesHighThresholdPercent" doc:"The same threshold for inodes. 100 switches it off."`
	InodesLowThresholdPercent  int      `json:"inodesLowThresholdPercent" doc:"Reclaim for inodes ends at or below this percentage."`
	MinimumAge                 Duration `json:"imageMinimumGCAge" doc:"An image that arrived less than this ago stays."`
	MaximumAge                 Duration `json:"imageMaximumGCAge" doc:"An image unused for this long goes, however empty the disk; 0s is off. Nothing goes by it until ebb itself has watched the image for that long."`
	FutileShare                int      `json:"futileShare" doc:"In percent. When the low threshold cannot be reached, the most recently used images stay that together would free at most this share of what is needed, in bytes or inodes: they would go for next to nothing. 0 to 100; 0 keeps only those that would free nothing of it."`
	Keep                       []string `json:"keep" doc:"References that are never removed, as globs: * stands for any run of characters but '/', ** for any run. An image with several names stays if one of them matches. Example: [\"registry.k8s.io/**\", \"docker.io/library/busybox:1.36\"]"`
	MaxRemovalsPerHour         int      `json:"maxRemovalsPerHour" doc:"At most this many images go in any 60 minutes: it bounds any mistake. 1 to 100000."`
	AgeRemovalsPerHourPercent  int      `json:"ageRemovalsPerHourPercent" doc:"While the disk needs no space, at most this share of the node's images goes by imageMaximumGCAge in any 60 minutes, and at least one. So a short age does not make all nodes pull at once. 1 to 100."`
}

// Containers is the policy for what is dead.
type Containers struct {
	Enabled              bool     `json:"enabled" doc:"false: dead containers, sandboxes and logs are left to the kubelet. Both at once is safe, only redundant: they would remove the same."`
	MinAge               Duration `json:"minAge" doc:"A dead container younger than this stays; 0s is off."`
	MaxPerPodContainer   int      `json:"maxPerPodContainer" doc:"So many dead containers stay of each container of a pod, the newest. Negative: any number."`
	MaxContainers        int      `json:"maxContainers" doc:"So many dead containers stay on the whole node. Negative: any number."`
	AgeFrom              string   `json:"ageFrom" doc:"creation: a container's age counts from its creation, as with the kubelet, so that one that ran for a week is a week old when it ends. termination: from its end."`
	StartGrace           Duration `json:"startGrace" doc:"What was created less than this ago may still be about to start, and its pod may not be known yet: it stays."`
	Logs                 bool     `json:"logs" doc:"Whether logs go, too: that of each container that ebb removes, with its rotated files; the log directories of pods that are gone; and dead links to logs. They are below filesystems.podLogs. With false the log of a removed container stays until its pod is gone."`
	LogLinks             string   `json:"logLinks" doc:"Where the kubelet puts a link to each container's log. Empty: nowhere."`
	MaxRemovalsPerSecond int      `json:"maxRemovalsPerSecond" doc:"At most so many containers and sandboxes go in a second; 0: as fast as the runtime can."`
}

// The values of ageFrom.
const (
	AgeFromCreation    = "creation"
	AgeFromTermination = "termination"
)

// Pods says who knows the pods of this node.
type Pods struct {
	Source    string    `json:"source" doc:"kubelet: its authenticated /pods. apiserver: a watch of this node's pods. none: nobody; then the last dead container and the last sandbox of each deleted pod stay, logs stay, and images that a pod waits for are not known."`
	Kubelet   Kubelet   `json:"kubelet" doc:"For source kubelet."`
	APIServer APIServer `json:"apiserver" doc:"For source apiserver."`
}

// The values of source.
const (
	PodsFromNobody    = "none"
	PodsFromKubelet   = "kubelet"
	PodsFromAPIServer = "apiserver"
)

// Kubelet says how to ask the kubelet.
type Kubelet struct {
	URL                   string `json:"url" doc:"Of the kubelet. http://127.0.0.1:10255 is its read-only port, where that is on."`
	TokenFile             string `json:"tokenFile" doc:"A file with a bearer token, read again for each request. Its identity needs \"get\" on nodes/pods or nodes/proxy. Empty: none."`
	ClientCertificate     string `json:"clientCertificate" doc:"A file with a client certificate (PEM), instead of a token."`
	ClientKey             string `json:"clientKey" doc:"The file with its key."`
	CertificateAuthority  string `json:"certificateAuthority" doc:"A file with the authority that signed the kubelet's serving certificate. Empty: those of the system."`
	ServerName            string `json:"serverName" doc:"What the serving certificate is for, if that is not the URL's host: usually the node's name."`
	InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify" doc:"Believe any serving certificate: many kubelets have signed their own. Only for an address on this machine, to which nobody else can answer."`
}

// APIServer says how to ask the API server.
type APIServer struct {
	Kubeconfig string `json:"kubeconfig" doc:"A kubeconfig file. Empty: the pod's own service account."`
	NodeName   string `json:"nodeName" doc:"The name of this node. Empty: the environment's NODE_NAME."`

	ListSpread Duration `json:"listSpread" doc:"When an API server was away for so long that all nodes have to list their pods anew, they do so at random moments within this time: 100s make 50 lists a second of 5,000 nodes. Until then the pods count as not known. 1s to 1h; a small cluster can have it short."`

	Events bool `json:"events" doc:"Whether people are told by Events about the Node, which kubectl describe node shows: of a low threshold that cannot be reached, of a reclaim run that fell short, of images that are removed and pulled in a circle, of a pause. At most 20 an hour. The identity needs \"create\" and \"patch\" on events in the namespace default."`
}

// Filesystems says where else the node's disks fill.
type Filesystems struct {
	Kubelet   Directory `json:"kubelet" doc:"The kubelet's root directory: its nodefs, with emptyDir volumes and much else of the pods."`
	PodLogs   Directory `json:"podLogs" doc:"What containers write to their standard output."`
	MountInfo string    `json:"mountInfo" doc:"The mountinfo file that tells when something was mounted or unmounted. In a container with hostPID, /proc/1/mountinfo is the host's; its own will do where mounts propagate to it."`
}

// Directory is a directory whose filesystem is watched.
type Directory struct {
	Path                       string `json:"path" doc:"Its path. One that does not exist is taken up when it comes. Empty: not watched."`
	HighThresholdPercent       int    `json:"highThresholdPercent" doc:"The agent says so when a filesystem without images is used to this percentage; it removes no images for it, but what pods that have ended left behind. The default is five points below the kubelet's eviction threshold (90). 100 switches it off."`
	InodesHighThresholdPercent int    `json:"inodesHighThresholdPercent" doc:"The same threshold for inodes (the kubelet's is 95). 100 switches it off."`
}

// Kernel configures the BPF programs.
type Kernel struct {
	Enabled      bool   `json:"enabled" doc:"false: no programs are loaded; last use then comes from runtime events alone and the disk is read every 10 s."`
	PinDirectory string `json:"pinDirectory" doc:"Where maps and links are pinned, on a bpf filesystem (mounted if missing), so that recording goes on while the agent is down."`
	LayerHeat    string `json:"layerHeat" doc:"How much of each image layer is ever read, for ebb images, the admin socket's /heat and metrics; nothing is decided by it. auto: seen where files are opened or, where the kernel allows neither fentry nor kprobes, executed or mapped. reads: there also at each read, which costs every read of the node some tens of nanoseconds. off: not at all."`
}

// The values of layerHeat.
const (
	HeatAuto  = "auto"
	HeatOff   = "off"
	HeatReads = "reads"
)

// Writers configures the counting of growth by container.
type Writers struct {
	Top int `json:"top" doc:"How many containers metrics show, those that grew most; ebb top shows all. 0 to 1000; 10 is a good number. 0, the default, switches the counting off: it costs each newly written block some tens of nanoseconds, some percent of buffered writes at page-cache speed."`
}

// State says where the state file is.
type State struct {
	Directory string `json:"directory" doc:"Directory of state.db: last use, first sight, resolved layers. Created if missing."`
	LockFile  string `json:"lockFile" doc:"The file by which one agent knows that it is alone on the node. A second one with the same file does not start. Only nodes inside nodes need different ones. Its directory is created if missing."`
}

// Server configures the HTTP endpoint.
type Server struct {
	Address       string `json:"address" doc:"host:port of /metrics, /healthz and /readyz, and nothing else. Loopback by default. Empty: no server."`
	HealthAddress string `json:"healthAddress" doc:"host:port of /healthz and /readyz alone, in plain HTTP whatever webConfigFile says: for probes. Empty: none."`
	WebConfigFile string `json:"webConfigFile" doc:"Path of a web configuration file, as Prometheus' exporters have it: TLS, client certificates and passwords for address. A change of it holds from the next connection on. It needs healthAddress. Empty: plain HTTP, for everybody who reaches it."`
	AdminSocket   string `json:"adminSocket" doc:"Path of the unix socket by which the command ebb asks and steers the agent; for root alone. Its directory is created if missing. Empty: no socket."`
}

// Log configures logging.
type Log struct {
	Level  string `json:"level" doc:"debug, info, warn or error."`
	Format string `json:"format" doc:"json or text."`
}

// Default returns the configuration that an empty file means.
func Default() Config {
	return Config{
		Mode:              ModeObserve,
		ReconcileInterval: Duration(5 * time.Minute),
		Runtime:           Runtime{Socket: SocketAuto},
		Images: Images{
			HighThresholdPercent:       80,
			LowThresholdPercent:        75,
			InodesHighThresholdPercent: 80,
			InodesLowThresholdPercent:  75,
			MinimumAge:                 Duration(2 * time.Minute),
			FutileShare:                1,
			Keep:                       []string{},
			MaxRemovalsPerHour:         500,
			AgeRemovalsPerHourPercent:  10,
		},
		Containers: Containers{
			Enabled: true, MaxPerPodContainer: 1, MaxContainers: -1, AgeFrom: AgeFromCreation, StartGrace: Duration(time.Minute),
			Logs: true, LogLinks: "/var/log/containers",
		},
		Pods: Pods{Source: PodsFromNobody, Kubelet: Kubelet{URL: "https://127.0.0.1:10250"}, APIServer: APIServer{ListSpread: Duration(100 * time.Second), Events: true}},
		Filesystems: Filesystems{
			Kubelet:   Directory{Path: "/var/lib/kubelet", HighThresholdPercent: 85, InodesHighThresholdPercent: 90},
			PodLogs:   Directory{Path: "/var/log/pods", HighThresholdPercent: 85, InodesHighThresholdPercent: 90},
			MountInfo: "/proc/self/mountinfo",
		},
		Kernel:  Kernel{Enabled: true, PinDirectory: "/sys/fs/bpf/ebb", LayerHeat: HeatAuto},
		Writers: Writers{Top: 0},
		State:   State{Directory: "/var/lib/ebb", LockFile: "/run/ebb/agent.lock"},
		Server:  Server{Address: "127.0.0.1:9478", AdminSocket: "/run/ebb/agent.sock"},
		Log:     Log{Level: "info", Format: "json"},
	}
}

// Duration is a time.Duration written as Go and Kubernetes write it: "12h45m".
type Duration time.Duration

// String writes the duration without superfluous zero units: "5m", not "5m0s".
func (d Duration) String() string { return short(time.Duration(d)) }

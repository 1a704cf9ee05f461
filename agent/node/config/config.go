package config

import (
	"time"

	"github.com/ebb-agent/ebb/agent/configfile"
)

// Mode is what the agent does with its decisions.
type Mode string

// The modes.
const (
	ModeEnforce Mode = "enforce" // decide and remove
	ModeObserve Mode = "observe" // decide, explain, export; remove nothing
)

// Config is the whole configuration of ebb-agent. The doc tag of each field is
// what "ebb-agent config default" writes above it.
type Config struct {
	Mode              Mode        `json:"mode" doc:"observe: the agent decides and logs, and removes nothing. enforce: it removes what the policy chooses."`
	PauseFile         string      `json:"pauseFile" doc:"While this file exists, the agent removes nothing, also after a restart. Its text is the reason. The chart mounts the ConfigMap ebb-pause there, whatever the release is called. Empty: no file."`
	ReconcileInterval Duration    `json:"reconcileInterval" doc:"How often the agent reads everything again, in case an event was lost. 30s to 24h, jittered by 10 %."`
	Runtime           Runtime     `json:"runtime" doc:"The container runtime."`
	Images            Images      `json:"images" doc:"When images are removed. Fields that the kubelet has, too, have the kubelet's names and meanings."`
	Containers        Containers  `json:"containers" doc:"When dead containers, their sandboxes and their logs are removed. The limits and their defaults are the kubelet's (--minimum-container-ttl-duration and the two --maximum-dead-containers flags)."`
	Pods              Pods        `json:"pods" doc:"How the agent learns which pods are bound to this node. While the source does not answer, no pod counts as deleted."`
	Kubelet           Kubelet     `json:"kubelet" doc:"Settings of the node's kubelet, for alerts alone."`
	Filesystems       Filesystems `json:"filesystems" doc:"Directories to watch, besides the filesystems of images, blobs and writable layers. The runtime names those filesystems, and the thresholds under images apply to them. Directories on one filesystem have one threshold: that of images, if images or blobs are there, else the lowest one."`
	Kernel            Kernel      `json:"kernel" doc:"The eBPF programs in the kernel."`
	Writers           Writers     `json:"writers" doc:"Which containers fill the disk."`
	State             State       `json:"state" doc:"Data that survives a restart."`
	Server            Server      `json:"server" doc:"The server for metrics and health, and the admin socket."`
	Log               Log         `json:"log" doc:"Logging, to standard error."`
}

// Runtime configures where the container runtime is.
type Runtime struct {
	Socket string `json:"socket" doc:"Path of containerd's socket, which also serves the CRI. auto: the one that exists of /run/containerd/containerd.sock and the sockets of k3s, RKE2, MicroK8s and k0s. If several exist, name the one that the kubelet uses."`
}

// SocketAuto makes ebb search for the socket (runtime/containerd/layout).
const SocketAuto = "auto"

// Images is the image policy.
type Images struct {
	HighThresholdPercent       int      `json:"imageGCHighThresholdPercent" doc:"Reclaim starts when the image filesystem is used to this percentage. Keep it below the kubelet's eviction threshold (85 by default). 100 switches it off."`
	LowThresholdPercent        int      `json:"imageGCLowThresholdPercent" doc:"Reclaim ends at or below this percentage. It must be below the high threshold."`
	InodesHighThresholdPercent int      `json:"inodesHighThresholdPercent" doc:"The high threshold for inodes. 100 switches it off."`
	InodesLowThresholdPercent  int      `json:"inodesLowThresholdPercent" doc:"Reclaim for inodes ends at or below this percentage. It must be below their high threshold."`
	MinimumAge                 Duration `json:"imageMinimumGCAge" doc:"An image stays if it arrived less than this time ago."`
	MaximumAge                 Duration `json:"imageMaximumGCAge" doc:"An image that was unused for this long is removed, however empty the disk is. 0s switches this off. It removes no image until ebb itself has watched the image for that long."`
	FutileShare                int      `json:"futileShare" doc:"In percent. If the low threshold cannot be reached, the most recently used images stay that together would free at most this share of what is needed, in bytes or inodes. Their removal would gain next to nothing. 0 to 100. 0 keeps only images that would free nothing of it."`
	Keep                       []string `json:"keep" doc:"References of images that are never removed, as globs. * matches any characters but '/', ** matches any characters. An image with several names stays if one of them matches. Example: [\"registry.k8s.io/**\", \"docker.io/library/busybox:1.36\"]"`
	MaxRemovalsPerHour         Cap      `json:"maxRemovalsPerHour" doc:"At most this share of the node's images is removed in any 60 minutes, and at least ten images. This limits the harm of a mistake. Images that arrived less than an hour before they go do not count, unless they go by imageMaximumGCAge. So a node that pulls and drops many images does not use up the share. A number instead of a share, such as 500, counts every removal. 1% to 100%, or 1 to 100000."`
	AgeRemovalsPerHourPercent  int      `json:"ageRemovalsPerHourPercent" doc:"While the disk needs no space, imageMaximumGCAge removes at most this share of the node's images in any 60 minutes, and at least one image. So a short age does not make all nodes pull at once. 1 to 100."`
}

// Containers is the policy for dead containers, sandboxes and their logs.
type Containers struct {
	Enabled              bool     `json:"enabled" doc:"false: the agent leaves dead containers, sandboxes and logs to the kubelet. If both remove them, that is safe but redundant."`
	MinAge               Duration `json:"minAge" doc:"A dead container younger than this stays. 0s switches this off."`
	MaxPerPodContainer   int      `json:"maxPerPodContainer" doc:"How many dead containers stay for each container of a pod, the newest ones. Negative: any number."`
	MaxContainers        int      `json:"maxContainers" doc:"How many dead containers stay on the whole node. Negative: any number."`
	AgeFrom              string   `json:"ageFrom" doc:"creation: the age of a container counts from its creation, as with the kubelet. So a container that ran for a week is a week old when it ends. termination: its age counts from its end."`
	StartGrace           Duration `json:"startGrace" doc:"A container or sandbox that was created less than this time ago stays. It may be about to start, and its pod may not be known yet."`
	Logs                 bool     `json:"logs" doc:"Whether to remove the log directories of pods that are gone (filesystems.podLogs), and dead links to logs."`
	LogLinks             string   `json:"logLinks" doc:"Directory in which the kubelet puts a link to each container's log. Empty: none."`
	MaxRemovalsPerSecond int      `json:"maxRemovalsPerSecond" doc:"At most this many containers and sandboxes are removed in a second. 0: no limit."`
}

// The values of ageFrom.
const (
	AgeFromCreation    = "creation"
	AgeFromTermination = "termination"
)

// Pods configures the source of this node's pods.
type Pods struct {
	Source    string      `json:"source" doc:"kubelet: the kubelet's /pods, with authentication. apiserver: a watch of this node's pods. none: no source. With none, the last dead container and the last sandbox of each deleted pod stay, and so do logs. Images that a pod waits for are not known then."`
	Kubelet   PodsKubelet `json:"kubelet" doc:"For source kubelet."`
	APIServer APIServer   `json:"apiserver" doc:"For source apiserver."`
}

// The values of source.
const (
	PodsFromNobody    = "none"
	PodsFromKubelet   = "kubelet"
	PodsFromAPIServer = "apiserver"
)

// Kubelet has settings of the node's kubelet.
type Kubelet struct {
	ImageGCHighThresholdPercent int `json:"imageGCHighThresholdPercent" doc:"The kubelet's imageGCHighThresholdPercent. 100: it removes no images for space. 0: not known, alerts assume its default, 85. With pods.source kubelet the agent asks the kubelet."`
}

// PodsKubelet configures how to ask the kubelet.
type PodsKubelet struct {
	URL                   string `json:"url" doc:"URL of the kubelet. http://127.0.0.1:10255 is its read-only port, if that is on."`
	TokenFile             string `json:"tokenFile" doc:"File with a bearer token, read again for each request. Its identity needs \"get\" on nodes/pods or nodes/proxy. Empty: none."`
	ClientCertificate     string `json:"clientCertificate" doc:"File with a client certificate (PEM), instead of a token."`
	ClientKey             string `json:"clientKey" doc:"File with the key of the client certificate."`
	CertificateAuthority  string `json:"certificateAuthority" doc:"File with the authority that signed the kubelet's serving certificate. Empty: the authorities of the system."`
	ServerName            string `json:"serverName" doc:"Name in the serving certificate, if it is not the URL's host. It is usually the node's name."`
	InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify" doc:"Accept any serving certificate. Many kubelets sign their own. Use this only for an address on this machine, where no other program can answer."`
}

// APIServer configures how to ask the API server.
type APIServer struct {
	Kubeconfig string `json:"kubeconfig" doc:"Kubeconfig file. Empty: the pod's own service account."`
	NodeName   string `json:"nodeName" doc:"Name of this node. Empty: the environment variable NODE_NAME."`

	ListSpread Duration `json:"listSpread" doc:"When all agents start, and after an outage of the API server, all nodes have to list their pods. Each node does that at a random moment within this time, or at once if it needs to remove images. Until then the pods are not known. With 0, it is 40 ms for each node that the agents' DaemonSet counts. Without a DaemonSet, the first list comes at once, and the time after an outage is 200 s. 0, or 1s to 1h."`

	Events bool `json:"events" doc:"Whether the agent writes Events about the Node, which kubectl describe node shows. They report a low threshold that cannot be reached, a reclaim run that fell short, images that are removed and pulled in a circle, and pauses. At most 20 an hour. The identity needs \"create\" and \"patch\" on events in the namespace default."`
}

// Filesystems configures which directories are watched besides those of the runtime.
type Filesystems struct {
	Kubelet   Directory `json:"kubelet" doc:"The kubelet's root directory (nodefs), with emptyDir volumes and other data of pods."`
	PodLogs   Directory `json:"podLogs" doc:"The directory of logs, with the standard output of containers."`
	MountInfo string    `json:"mountInfo" doc:"The mountinfo file that shows mounts and unmounts. In a container with hostPID, /proc/1/mountinfo is the host's. The container's own file is enough if mounts propagate to the container."`
}

// Directory is a directory whose filesystem is watched.
type Directory struct {
	Path                       string `json:"path" doc:"Path of the directory. If it does not exist, it is watched once it appears. Empty: not watched."`
	HighThresholdPercent       int    `json:"highThresholdPercent" doc:"When a filesystem without images is used to this percentage, the agent logs it. It then removes no images, only what ended pods left behind. The default is five points below the kubelet's eviction threshold (90). 100 switches it off."`
	InodesHighThresholdPercent int    `json:"inodesHighThresholdPercent" doc:"The same threshold for inodes (the kubelet's is 95). 100 switches it off."`
}

// Kernel configures the BPF programs.
type Kernel struct {
	Enabled      bool   `json:"enabled" doc:"false: no programs are loaded. Then last use comes from the runtime's events alone, and the agent reads the disk every 10 s."`
	PinDirectory string `json:"pinDirectory" doc:"Directory for the pins of maps and links, on a bpf filesystem (mounted if missing). The pins let the kernel keep recording while the agent is down."`
	LayerHeat    string `json:"layerHeat" doc:"Whether to record how much of each image layer is ever read, for ebb images, the admin socket's /heat and metrics. No decision depends on it. auto: files count when they are opened. Where the kernel allows neither fentry nor kprobes, they count when they are executed or mapped. reads: there they also count at each read, which costs every read on the node some tens of nanoseconds. off: nothing is recorded."`
}

// The values of layerHeat.
const (
	HeatAuto  = "auto"
	HeatOff   = "off"
	HeatReads = "reads"
)

// Writers configures the counting of growth by container.
type Writers struct {
	Top int `json:"top" doc:"How many containers metrics show, those that grew most. ebb top shows all. 0 to 1000; 10 is a good number. 0, the default, switches the counting off. Counting costs some tens of nanoseconds for each newly written block. That is some percent of buffered writes at page-cache speed."`
}

// State configures where the state file and the lock file are.
type State struct {
	Directory string `json:"directory" doc:"Directory of state.db, which stores the last use of images, when each one was first seen, the directories of layers, and the history. Created if missing."`
	LockFile  string `json:"lockFile" doc:"File that lets only one agent run on the node. A second agent with the same file does not start. Only nodes inside nodes need different files. Its directory is created if missing."`
}

// Server configures the HTTP servers and the admin socket.
type Server struct {
	Address       string `json:"address" doc:"host:port of /metrics, /healthz and /readyz, and nothing else. Loopback by default. Without a host, such as :9478, it is the address in the environment variable NODE_IP, which the chart sets to the node's; without that variable, every address. Empty: no server."`
	HealthAddress string `json:"healthAddress" doc:"host:port of /healthz and /readyz alone, for probes. It is plain HTTP, also with webConfigFile. Empty: none."`
	WebConfigFile string `json:"webConfigFile" doc:"Path of a web configuration file in the format of Prometheus' exporters, with TLS, client certificates and passwords for address. A change takes effect at the next connection. It needs healthAddress. Empty: plain HTTP, for everyone who can reach address."`
	AdminSocket   string `json:"adminSocket" doc:"Path of the unix socket by which the command ebb asks and steers the agent. Only root can use it. Its directory is created if missing. Empty: no socket."`
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
		PauseFile:         "/etc/ebb-pause/pause",
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
			MaxRemovalsPerHour:         "50%",
			AgeRemovalsPerHourPercent:  10,
		},
		Containers: Containers{
			Enabled: true, MaxPerPodContainer: 1, MaxContainers: -1, AgeFrom: AgeFromCreation, StartGrace: Duration(time.Minute),
			Logs: true, LogLinks: "/var/log/containers",
		},
		Pods: Pods{Source: PodsFromNobody, Kubelet: PodsKubelet{URL: "https://127.0.0.1:10250"}, APIServer: APIServer{Events: true}},
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
type Duration = configfile.Duration

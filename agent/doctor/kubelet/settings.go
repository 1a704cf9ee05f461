package kubelet

import (
	"slices"
	"strings"
	"time"
)

// Settings are those of a kubelet that concern what ebb does.
type Settings struct {
	ImageGCHighThresholdPercent, ImageGCLowThresholdPercent Value[int]
	ImageMinimumGCAge, ImageMaximumGCAge                    Value[time.Duration]

	EvictionHard, EvictionSoft Values[string] // by signal, as written

	ContainerRuntimeEndpoint Value[string]
	ImageServiceEndpoint     Value[string] // "": the same
	PodLogsDir               Value[string]
	FeatureGates             Values[bool]

	// Of these there are flags only. /configz does not have them: FlagsKnown
	// tells whether a command line was read.
	RootDir                                        Value[string]
	MaximumDeadPerContainer, MaximumDeadContainers Value[int]
	MinimumContainerDuration                       Value[time.Duration]
	FlagsKnown                                     bool
}

// knobs are all settings by the field of a configuration file, the flag and the default
// of a kubelet without flags and files, in the order in which they are shown.
var knobs = []struct {
	field, flag, otherwise string
	of                     func(*Settings) layer
}{
	{"imageGCHighThresholdPercent", "image-gc-high-threshold", "85", func(s *Settings) layer { return &s.ImageGCHighThresholdPercent }},
	{"imageGCLowThresholdPercent", "image-gc-low-threshold", "80", func(s *Settings) layer { return &s.ImageGCLowThresholdPercent }},
	{"imageMinimumGCAge", "minimum-image-ttl-duration", "2m", func(s *Settings) layer { return &s.ImageMinimumGCAge }},
	{"imageMaximumGCAge", "", "0s", func(s *Settings) layer { return &s.ImageMaximumGCAge }},
	{"evictionHard", "eviction-hard", "", func(s *Settings) layer { return s.EvictionHard }},
	{"evictionSoft", "eviction-soft", "", func(s *Settings) layer { return s.EvictionSoft }},
	{"containerRuntimeEndpoint", "container-runtime-endpoint", "unix:///run/containerd/containerd.sock",
		func(s *Settings) layer { return &s.ContainerRuntimeEndpoint }},
	{"imageServiceEndpoint", "image-service-endpoint", "", func(s *Settings) layer { return &s.ImageServiceEndpoint }},
	{"podLogsDir", "", "/var/log/pods", func(s *Settings) layer { return &s.PodLogsDir }},
	{"featureGates", "feature-gates", "", func(s *Settings) layer { return s.FeatureGates }},
	{"", "root-dir", "/var/lib/kubelet", func(s *Settings) layer { return &s.RootDir }},
	{"", "maximum-dead-containers-per-container", "1", func(s *Settings) layer { return &s.MaximumDeadPerContainer }},
	{"", "maximum-dead-containers", "-1", func(s *Settings) layer { return &s.MaximumDeadContainers }},
	{"", "minimum-container-ttl-duration", "0s", func(s *Settings) layer { return &s.MinimumContainerDuration }},
}

// FromDefault is where a setting comes from that nobody has set.
const FromDefault = "default"

// defaultEvictionHard is DefaultEvictionHard of Linux
// (pkg/kubelet/eviction/defaults_linux.go).
var defaultEvictionHard = map[string]string{
	"memory.available":   "100Mi",
	"nodefs.available":   "10%",
	"nodefs.inodesFree":  "5%",
	"imagefs.available":  "15%",
	"imagefs.inodesFree": "5%",
}

// Defaults are the settings of a kubelet without flags and files. It has no
// eviction thresholds: those come with a configuration file.
func Defaults() Settings {
	s := Settings{EvictionHard: Values[string]{}, EvictionSoft: Values[string]{}, FeatureGates: Values[bool]{}}
	for _, k := range knobs {
		if err := k.of(&s).layText(k.otherwise, FromDefault); err != nil {
			panic("kubelet: default of " + k.field + k.flag + ": " + err.Error()) // a constant
		}
	}
	return s
}

// CollectsImages tells whether the kubelet's image garbage collection is at
// work: StartGarbageCollection leaves it out only with both of these
// (pkg/kubelet/kubelet.go).
func (s *Settings) CollectsImages() bool {
	return s.ImageGCHighThresholdPercent.V != 100 || s.ImageMaximumGCAge.V != 0
}

// Socket is the path of the runtime's socket; "" if the endpoint is none.
func (s *Settings) Socket() string {
	path, isUnix := strings.CutPrefix(s.ContainerRuntimeEndpoint.V, "unix://")
	if !isUnix && strings.Contains(path, "://") {
		return ""
	}
	return path
}

// Setting is one for people.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// gatesOfInterest change the findings about disks.
var gatesOfInterest = []string{"featureGates.ImageMaximumGCAge", "featureGates.KubeletSeparateDiskGC"}

// List has the settings that concern images, containers and disks.
func (s *Settings) List() []Setting {
	var list []Setting
	for _, k := range knobs {
		switch {
		case k.field != "":
			list = append(list, k.of(s).list(k.field)...)
		case s.FlagsKnown:
			list = append(list, k.of(s).list("--"+k.flag)...)
		}
	}
	return slices.DeleteFunc(list, func(l Setting) bool {
		return strings.HasPrefix(l.Name, "featureGates.") && !slices.Contains(gatesOfInterest, l.Name)
	})
}

// Reconcile lays what the kubelet reports that it runs with over what its files
// say. Where the two agree a value keeps the place it was read from; where not,
// the kubelet is right, and different names it: files that were changed, and a
// kubelet that was not restarted.
func (s *Settings) Reconcile(asked Settings) (different []string) {
	for _, k := range knobs {
		if k.field != "" {
			different = append(different, k.of(s).take(k.field, k.of(&asked))...)
		}
	}
	return different
}

// TakeFlags takes over what only flags tell, from a process that was found
// beside a configuration that does not have it.
func (s *Settings) TakeFlags(p *Process) {
	flags, err := p.flags()
	withFlags := Defaults()
	if p.Within != "" || err != nil || withFlags.layFlags(flags) != nil {
		return
	}
	for _, k := range knobs {
		if k.field == "" {
			k.of(s).take(k.flag, k.of(&withFlags))
		}
	}
	s.FlagsKnown = true
}

// differs says of one setting what the kubelet runs with, and what its files say.
const differs = "%s is %v, not %v"

package kubelet

import (
	"strings"
	"time"
)

// Settings are the kubelet's settings that concern ebb.
type Settings struct {
	ImageGCHighThresholdPercent, ImageGCLowThresholdPercent Value[int]
	ImageMinimumGCAge, ImageMaximumGCAge                    Value[time.Duration]

	EvictionHard, EvictionSoft Thresholds // by signal, as written

	ContainerRuntimeEndpoint Value[string]
	ImageServiceEndpoint     Value[string] // "": the same
	PodLogsDir               Value[string]

	// For these there are only flags, and /configz does not have them. FlagsKnown is whether a
	// command line was read.
	RootDir                                        Value[string]
	MaximumDeadPerContainer, MaximumDeadContainers Value[int]
	MinimumContainerDuration                       Value[time.Duration]
	FlagsKnown                                     bool
}

// knobs are all settings, in the order in which they are shown. Each has its field in a
// configuration file, its flag, and the default of a kubelet without flags and files.
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
	{"", "root-dir", "/var/lib/kubelet", func(s *Settings) layer { return &s.RootDir }},
	{"", "maximum-dead-containers-per-container", "1", func(s *Settings) layer { return &s.MaximumDeadPerContainer }},
	{"", "maximum-dead-containers", "-1", func(s *Settings) layer { return &s.MaximumDeadContainers }},
	{"", "minimum-container-ttl-duration", "0s", func(s *Settings) layer { return &s.MinimumContainerDuration }},
}

// FromDefault is the source of a setting that is not set.
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
	s := Settings{EvictionHard: Thresholds{}, EvictionSoft: Thresholds{}}
	for _, k := range knobs {
		if err := k.of(&s).layText(k.otherwise, FromDefault); err != nil {
			panic("kubelet: default of " + k.field + k.flag + ": " + err.Error()) // a constant
		}
	}
	return s
}

// CollectsImages reports whether the kubelet's image garbage collection is on.
// StartGarbageCollection skips it only if the high threshold is 100 and the maximum age is 0
// (pkg/kubelet/kubelet.go).
func (s *Settings) CollectsImages() bool {
	return s.ImageGCHighThresholdPercent.V != 100 || s.ImageMaximumGCAge.V != 0
}

// Socket returns the path of the runtime's socket; "" if the endpoint is not a unix socket.
func (s *Settings) Socket() string {
	path, isUnix := strings.CutPrefix(s.ContainerRuntimeEndpoint.V, "unix://")
	if !isUnix && strings.Contains(path, "://") {
		return ""
	}
	return path
}

// Setting is a setting as text.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// List returns the settings that concern images, containers and disks.
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
	return list
}

// Reconcile compares the settings read from files with those that the kubelet reports. If a value
// is the same in both, it keeps the place it was read from. If not, the kubelet's value replaces
// it, and different names it: a file was changed, and the kubelet was not restarted.
func (s *Settings) Reconcile(asked Settings) (different []string) {
	for _, k := range knobs {
		if k.field != "" {
			different = append(different, k.of(s).take(k.field, k.of(&asked))...)
		}
	}
	return different
}

// TakeFlags sets the settings that only flags have, from the command line of p. It is for settings
// that were read without a command line.
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

// differs formats a setting, its value in the kubelet, and its value in the files.
const differs = "%s is %v, not %v"

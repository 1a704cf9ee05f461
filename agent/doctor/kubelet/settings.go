package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
)

// Value is a setting and where it stands: a file, a flag, /configz, or
// [FromDefault].
type Value[T any] struct {
	V    T
	From string
}

// FromDefault is where a setting comes from that nobody has set.
const FromDefault = "default"

func defaultOf[T any](v T) Value[T] { return Value[T]{v, FromDefault} }

// Settings are those of a kubelet that concern what ebb does.
type Settings struct {
	ImageGCHighThresholdPercent Value[int]
	ImageGCLowThresholdPercent  Value[int]
	ImageMinimumGCAge           Value[time.Duration]
	ImageMaximumGCAge           Value[time.Duration]

	// Thresholds by signal, as written.
	EvictionHard, EvictionSoft map[string]Value[string]

	ContainerRuntimeEndpoint Value[string]
	ImageServiceEndpoint     Value[string] // "": the same
	PodLogsDir               Value[string]
	FeatureGates             map[string]Value[bool]

	// Of these there are flags only. /configz does not have them: FlagsKnown
	// tells whether a command line was read.
	RootDir                  Value[string]
	MaximumDeadContainers    Value[int]
	MaximumDeadPerContainer  Value[int]
	MinimumContainerDuration Value[time.Duration]
	FlagsKnown               bool

	mergeDefaults bool // mergeDefaultEvictionSettings of the file read last
}

// defaultEvictionHard is DefaultEvictionHard of Linux
// (pkg/kubelet/eviction/defaults_linux.go).
var defaultEvictionHard = map[string]string{
	"memory.available":   "100Mi",
	"nodefs.available":   "10%",
	"nodefs.inodesFree":  "5%",
	"imagefs.available":  "15%",
	"imagefs.inodesFree": "5%",
}

// Defaults are the settings of a kubelet that was told nothing. It has no
// eviction thresholds: those come with a configuration file.
func Defaults() Settings {
	return Settings{
		ImageGCHighThresholdPercent: defaultOf(85),
		ImageGCLowThresholdPercent:  defaultOf(80),
		ImageMinimumGCAge:           defaultOf(2 * time.Minute),
		ImageMaximumGCAge:           defaultOf(time.Duration(0)),
		EvictionHard:                map[string]Value[string]{},
		EvictionSoft:                map[string]Value[string]{},
		ContainerRuntimeEndpoint:    defaultOf("unix:///run/containerd/containerd.sock"),
		ImageServiceEndpoint:        defaultOf(""),
		PodLogsDir:                  defaultOf("/var/log/pods"),
		FeatureGates:                map[string]Value[bool]{},
		RootDir:                     defaultOf("/var/lib/kubelet"),
		MaximumDeadContainers:       defaultOf(-1),
		MaximumDeadPerContainer:     defaultOf(1),
		MinimumContainerDuration:    defaultOf(time.Duration(0)),
	}
}

// CollectsImages tells whether the kubelet's image garbage collection is at
// work: StartGarbageCollection leaves it out only with both of these
// (pkg/kubelet/kubelet.go).
func (s *Settings) CollectsImages() bool {
	return s.ImageGCHighThresholdPercent.V != 100 || s.ImageMaximumGCAge.V != 0
}

// Line is one setting for people.
type Line struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// gatesOfInterest change what is said of disks.
var gatesOfInterest = []string{"ImageMaximumGCAge", "KubeletSeparateDiskGC"}

// Lines are the settings that concern images, containers and disks, in an order
// of their own.
func (s *Settings) Lines() []Line {
	lines := []Line{
		intLine("imageGCHighThresholdPercent", s.ImageGCHighThresholdPercent),
		intLine("imageGCLowThresholdPercent", s.ImageGCLowThresholdPercent),
		durationLine("imageMinimumGCAge", s.ImageMinimumGCAge),
		durationLine("imageMaximumGCAge", s.ImageMaximumGCAge),
	}
	lines = append(lines, thresholdLines("evictionHard", s.EvictionHard)...)
	lines = append(lines, thresholdLines("evictionSoft", s.EvictionSoft)...)
	lines = append(lines, Line{"containerRuntimeEndpoint", s.ContainerRuntimeEndpoint.V, s.ContainerRuntimeEndpoint.From})
	if s.ImageServiceEndpoint.V != "" {
		lines = append(lines, Line{"imageServiceEndpoint", s.ImageServiceEndpoint.V, s.ImageServiceEndpoint.From})
	}
	lines = append(lines, Line{"podLogsDir", s.PodLogsDir.V, s.PodLogsDir.From})
	for _, gate := range gatesOfInterest {
		if v, ok := s.FeatureGates[gate]; ok {
			lines = append(lines, Line{"featureGates." + gate, strconv.FormatBool(v.V), v.From})
		}
	}
	if !s.FlagsKnown {
		return lines
	}
	return append(lines,
		Line{"--root-dir", s.RootDir.V, s.RootDir.From},
		intLine("--maximum-dead-containers-per-container", s.MaximumDeadPerContainer),
		intLine("--maximum-dead-containers", s.MaximumDeadContainers),
		durationLine("--minimum-container-ttl-duration", s.MinimumContainerDuration),
	)
}

func intLine(name string, v Value[int]) Line { return Line{name, strconv.Itoa(v.V), v.From} }

func durationLine(name string, v Value[time.Duration]) Line {
	return Line{name, config.Duration(v.V).String(), v.From}
}

func thresholdLines(name string, thresholds map[string]Value[string]) []Line {
	var lines []Line
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		v := thresholds[signal]
		lines = append(lines, Line{fmt.Sprintf("%s.%s", name, signal), v.V, v.From})
	}
	return lines
}

package kubelet

import (
	"fmt"
	"maps"
	"slices"
)

// Reconcile lays what the kubelet said that it runs with over what its files
// say. Where the two agree a value keeps the place it was read from; where not,
// the kubelet is right, and different names it: files that were changed, and a
// kubelet that was not restarted.
func Reconcile(files, asked Settings) (s Settings, different []string) {
	s = files
	note := func(name string, asked, files any) {
		different = append(different, fmt.Sprintf("%s is %v, not %v", name, asked, files))
	}
	take(&s.ImageGCHighThresholdPercent, asked.ImageGCHighThresholdPercent, "imageGCHighThresholdPercent", note)
	take(&s.ImageGCLowThresholdPercent, asked.ImageGCLowThresholdPercent, "imageGCLowThresholdPercent", note)
	take(&s.ImageMinimumGCAge, asked.ImageMinimumGCAge, "imageMinimumGCAge", note)
	take(&s.ImageMaximumGCAge, asked.ImageMaximumGCAge, "imageMaximumGCAge", note)
	take(&s.ContainerRuntimeEndpoint, asked.ContainerRuntimeEndpoint, "containerRuntimeEndpoint", note)
	take(&s.ImageServiceEndpoint, asked.ImageServiceEndpoint, "imageServiceEndpoint", note)
	take(&s.PodLogsDir, asked.PodLogsDir, "podLogsDir", note)
	s.EvictionHard = takeAll(files.EvictionHard, asked.EvictionHard, "evictionHard", note)
	s.EvictionSoft = takeAll(files.EvictionSoft, asked.EvictionSoft, "evictionSoft", note)
	return s, different
}

func take[T comparable](out *Value[T], asked Value[T], name string, note func(name string, asked, files any)) {
	if out.V != asked.V {
		note(name, asked.V, out.V)
		*out = asked
	}
}

func takeAll(files, asked map[string]Value[string], name string, note func(name string, asked, files any)) map[string]Value[string] {
	all := maps.Clone(asked)
	for _, signal := range slices.Sorted(maps.Keys(files)) {
		if _, there := asked[signal]; !there {
			note(name+" "+signal, "not set", files[signal].V)
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(asked)) {
		file, there := files[signal]
		switch {
		case !there:
			note(name+" "+signal, asked[signal].V, "unset")
		case file.V != asked[signal].V:
			note(name+" "+signal, asked[signal].V, file.V)
		default:
			all[signal] = file
		}
	}
	return all
}

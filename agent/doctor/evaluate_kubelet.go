package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
)

const restart = "systemctl restart kubelet (pods keep running)"

// evaluateKubelet checks whether a kubelet runs, and whether its settings are known.
func evaluateKubelet(all *findings, f *Facts) {
	k := &f.Kubelet
	running := ""
	if k.Chosen != nil {
		running = fmt.Sprintf("running, pid %d; ", k.Chosen.PID)
	}
	switch {
	case k.Source == "" && k.Chosen == nil:
		found := "no kubelet is seen on this machine"
		if k.FindErr != nil {
			found = fmt.Sprintf("the kubelet was not found: %v", k.FindErr)
		}
		all.add(Warning, "kubelet", found,
			"it is not known whether the kubelet collects, too, and at which thresholds it evicts",
			"run this on the node itself as root or, in a pod, with hostPID: true and CAP_SYS_PTRACE",
			"or name its configuration: --kubelet-config FILE, or --kubelet-url https://127.0.0.1:10250 with credentials")
	case k.Err != nil:
		// Settings that were read only in part are not judged. The missing part could be the one
		// that matters.
		level, found := Error, fmt.Sprintf("%sits settings could not be read: %v", running, k.Err)
		ask := "ask the kubelet itself: --kubelet-url https://127.0.0.1:10250 with --kubelet-token-file or --kubelet-cert-file and --kubelet-key-file"
		ways := []string{"run this as root, in the node's own PID namespace", "or " + ask}
		if errors.Is(k.Err, kubelet.ErrWithin) {
			level, found, ways = Warning, fmt.Sprintf("pid %d is %s, with a kubelet inside", k.Chosen.PID, k.Chosen.Within), []string{ask}
		}
		all.add(level, "kubelet", found, "the kubelet's settings are not known, so nothing below judges them", ways...)
	default:
		all.ok("kubelet", running+"settings from "+k.Source)
		evaluateSource(all, k)
	}
}

// evaluateSource checks whether the settings are current, and of which kubelet they are.
func evaluateSource(all *findings, k *KubeletFacts) {
	// Reading the pods of a node takes another permission than reading the kubelet's configuration.
	// So a refusal is no fault of the node.
	if k.AskErr != nil {
		all.add(levelIf(k.Demanded, Warning, Note), "kubelet.asked", fmt.Sprintf("it did not report its settings: %v", k.AskErr),
			"the findings use its command line and files, which may have changed since it started", "fix what is named above, or leave out the flags that ask the kubelet")
	}
	// A kubelet reads its files when it starts, and never again.
	const fix = "restart the kubelet, so that it uses its files: " + restart
	switch {
	case len(k.Different) > 0:
		all.add(Warning, "kubelet.stale", "its settings differ from its files: "+strings.Join(k.Different, "; "),
			"the files changed after it started; all findings here are about its settings in force", fix)
	case len(k.Changed) > 0:
		all.add(Warning, "kubelet.stale", "changed since it started: "+strings.Join(k.Changed, ", "),
			"its settings in force may differ from these files", fix, "or ask it for its settings: --kubelet-url")
	}
	// Several kubelets are no fault: nodes can be nested (kind), or an old kubelet can still run.
	// But the other checks are of one of them.
	if len(k.Found) > 1 && k.Chosen != nil {
		var pids []string
		for _, p := range k.Found {
			pids = append(pids, fmt.Sprint(p.PID))
		}
		all.add(Note, "kubelet.several",
			fmt.Sprintf("%d kubelets run (pids %s); this report is about pid %d", len(k.Found), strings.Join(pids, ", "), k.Chosen.PID),
			"that is the one with ebb's runtime socket, else the first", "choose with --kubelet-pid")
	}
}

// evaluateImages checks that exactly one of ebb and the kubelet collects images. Two collectors are
// better than none: without one, the eviction manager acts in the end.
func evaluateImages(all *findings, f *Facts) {
	const id = "image-collectors"
	k := &f.Kubelet
	if !k.known() {
		return
	}
	theirs, ours, down := k.Settings.CollectsImages(), f.Config.Mode == config.ModeEnforce, f.Agent.down()
	collects := "the kubelet collects (" + theirsWhen(k) + ")"
	high := fmt.Sprintf("(from %d %%)", f.Config.Images.HighThresholdPercent)
	off := fmt.Sprintf("the kubelet's is off (imageGCHighThresholdPercent: 100, %s)", k.Settings.ImageGCHighThresholdPercent.From)
	back := "to hand images back to the kubelet: imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80 " + inFile(k) + ", and mode: observe for ebb"
	const nobody = "images stay until the eviction manager removes all unused ones at once, and then evicts pods"
	switch {
	case theirs && ours && down:
		all.add(Note, id, "images: "+collects+"; ebb would "+high+", and does not run",
			"hand them over once ebb runs and `ebb plan` shows what you want", handOver(k)...)
	case theirs && ours:
		all.add(Warning, id, "images: two collectors are active: the kubelet ("+theirsWhen(k)+") and ebb "+high,
			"both at once are safe. But the kubelet takes an image's size for what its removal frees, and forgets last use at each restart. "+
				"So it removes more images than necessary, and other ones than ebb would", handOver(k)...)
	case theirs:
		all.add(Note, id, "images: "+collects+"; ebb only observes (mode: observe)",
			"this is right at first: `ebb plan` shows what ebb would remove",
			append([]string{"to hand images over to ebb: mode: enforce in " + ebbFile(f)}, handOver(k)...)...)
	case ours && down:
		all.add(Error, id, "images: nobody collects: "+off+", and no ebb-agent runs", nobody, startAgent(f), "or "+back)
	case ours:
		all.add(OK, id, "images: ebb alone collects; "+off, "", back)
	default:
		all.add(Error, id, "images: nobody collects: "+off+", and ebb only observes (mode: observe)", nobody,
			"mode: enforce in "+ebbFile(f), "or "+back)
	}
}

// theirsWhen returns what makes the kubelet remove images.
func theirsWhen(k *KubeletFacts) string {
	var when []string
	if high := k.Settings.ImageGCHighThresholdPercent; high.V != 100 {
		when = append(when, fmt.Sprintf("from %d %%, %s", high.V, high.From))
	}
	if age := k.Settings.ImageMaximumGCAge; age.V != 0 {
		when = append(when, fmt.Sprintf("what was not used for %s, %s", config.Duration(age.V), age.From))
	}
	return strings.Join(when, "; ")
}

// handOver returns what to change, and where, so that the kubelet leaves images to ebb.
func handOver(k *KubeletFacts) []string {
	s := &k.Settings
	var ways []string
	switch high := s.ImageGCHighThresholdPercent; {
	case high.V == 100:
	case isFlag(high.From):
		ways = append(ways, "--image-gc-high-threshold=100 on the kubelet's command line, where it is now: a flag overrides every file")
	default:
		ways = append(ways, "imageGCHighThresholdPercent: 100 "+inFile(k))
	}
	if s.ImageMaximumGCAge.V != 0 {
		ways = append(ways, "imageMaximumGCAge: 0s in "+s.ImageMaximumGCAge.From)
	}
	return append(ways, "then restart the kubelet: "+restart)
}

// inFile names the file in which to change imageGCHighThresholdPercent. If it is not set in a file,
// that is the file of --config. A kubelet without such a file uses flags.
func inFile(k *KubeletFacts) string {
	from := k.Settings.ImageGCHighThresholdPercent.From
	switch {
	case !slices.Contains([]string{kubelet.FromDefault, kubelet.FromConfigz}, from) && !isFlag(from):
		return "in " + from
	case k.Chosen != nil && k.Chosen.ConfigFile() != "":
		return "in " + k.Chosen.ConfigFile()
	case k.Chosen != nil && k.Chosen.Within == "":
		return "in a file for --config (it has none; --image-gc-high-threshold works, too)"
	}
	return "in the kubelet's configuration file"
}

func isFlag(from string) bool { return strings.HasPrefix(from, "--") }

func ebbFile(f *Facts) string { return cmp.Or(f.ConfigFile, "ebb's configuration") }

func startAgent(f *Facts) string {
	return "start it: ebb-agent --config " + cmp.Or(f.ConfigFile, "/etc/ebb.yaml")
}

// evaluateLogs checks that the kubelet writes the logs of pods to the directory that ebb watches.
func evaluateLogs(all *findings, f *Facts) {
	theirs, ours := f.Kubelet.Settings.PodLogsDir, f.Config.Filesystems.PodLogs.Path
	if !f.Kubelet.known() || ours == "" || filepath.Clean(theirs.V) == filepath.Clean(ours) {
		return
	}
	all.add(Warning, "pod-logs", fmt.Sprintf("the kubelet writes the logs of pods to %s (%s), ebb looks at %s", theirs.V, theirs.From, ours),
		"ebb does not watch that disk, and logs of deleted pods are left to the kubelet",
		"filesystems.podLogs.path: "+theirs.V+" in "+ebbFile(f)+"; in a pod, mount it at the same path, too")
}

// kubeletKeeps describes what the kubelet removes, whatever its flags say (pod_container_deletor.go and
// kuberuntime/kuberuntime_gc.go in pkg/kubelet).
const kubeletKeeps = "Whatever its flags say, the kubelet removes what deleted pods leave (containers, sandboxes, logs), " +
	"all dead containers but the newest of a name when one exits, and under disk pressure the dead containers of pods that have ended"

// evaluateContainers checks who collects dead containers. Two collectors are safe here: they remove
// the same.
func evaluateContainers(all *findings, f *Facts) {
	const id = "container-collectors"
	s := &f.Kubelet.Settings
	if !f.Kubelet.known() {
		return
	}
	if !s.FlagsKnown {
		all.add(Note, id, "dead containers: how many the kubelet keeps is not known, because only its command line shows it", kubeletKeeps)
		return
	}
	ours := f.Config.Containers.Enabled && f.Config.Mode == config.ModeEnforce && !f.Agent.down()
	theirs := s.MaximumDeadPerContainer.V >= 0 || s.MaximumDeadContainers.V >= 0
	limits := fmt.Sprintf("the kubelet keeps %s of a container (%s), %s in all (%s)",
		many(s.MaximumDeadPerContainer.V), s.MaximumDeadPerContainer.From, many(s.MaximumDeadContainers.V), s.MaximumDeadContainers.From)
	switch {
	case theirs && ours:
		all.add(Note, id, "dead containers: two collectors are active: "+limits+", and ebb",
			"this is safe, but redundant: both remove the same. "+kubeletKeeps,
			"to leave them to ebb: --maximum-dead-containers-per-container=-1 --maximum-dead-containers=-1 on the kubelet's command line, then restart the kubelet: "+restart,
			"to hand them back: remove both flags; the defaults are 1 and -1")
	case theirs:
		all.ok(id, "dead containers: "+limits+"; ebb leaves them to the kubelet")
	case ours:
		all.add(OK, id, "dead containers: ebb; the kubelet's limits are off", kubeletKeeps, "to hand them back: remove both --maximum-dead-containers flags")
	default:
		all.add(Warning, id, "dead containers: they are not limited: "+limits+", and no ebb collects them",
			"nothing limits their number and age. "+kubeletKeeps,
			"containers.enabled: true and mode: enforce in "+ebbFile(f)+", and a running agent", "or remove both --maximum-dead-containers flags")
	}
	// When a container exits, the kubelet keeps as many dead ones of its name as the flag says, and
	// at least one. -1 does not switch that off (newPodContainerDeletor in pkg/kubelet/kubelet.go).
	keeps, want := max(s.MaximumDeadPerContainer.V, 1), f.Config.Containers.MaxPerPodContainer
	if !ours || want >= 0 && want <= keeps {
		return
	}
	flag := 1000
	if want >= 0 {
		flag = want
	}
	all.add(Note, "container-keeping", fmt.Sprintf("dead containers: ebb is set to keep %s of a container (containers.maxPerPodContainer), but the kubelet leaves %d", many(want), keeps),
		"the kubelet removes the others as soon as the next one exits, whether its limits are off or not",
		fmt.Sprintf("--maximum-dead-containers-per-container=%d on the kubelet's command line", flag))
}

// many formats a number of which a negative one means no limit.
func many(n int) string {
	if n < 0 {
		return "any number"
	}
	return fmt.Sprint(n)
}

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/bpf"
)

// needs is the oldest kernel that loads the programs. exact is the oldest with exact thresholds.
var needs, exact = []int{5, 12}, []int{5, 19}

// withoutPrograms is what is lost if programs cannot be loaded.
const withoutPrograms = "without its kernel programs ebb knows last use from the runtime's events alone, and reads the disk every ten seconds"

// evaluateRelease checks the kernel's version. No version is an error: without programs the agent
// still works, only later and with less knowledge.
func evaluateRelease(all *findings, f *Facts) {
	const id = "kernel.version"
	is := make([]int, 2)
	found := "Linux " + f.Kernel.Release
	if _, err := fmt.Sscanf(f.Kernel.Release, "%d.%d", &is[0], &is[1]); err != nil {
		all.add(Note, id, fmt.Sprintf("the kernel's version cannot be read: %.60q", f.Kernel.Release), "")
	} else if slices.Compare(is, needs) < 0 {
		all.add(Warning, id, found, withoutPrograms,
			fmt.Sprintf("use Linux %d.%d or newer, for exact thresholds %d.%d", needs[0], needs[1], exact[0], exact[1]))
	} else {
		all.check(slices.Compare(is, exact) >= 0, id, found,
			Note, found, fmt.Sprintf("this kernel reports thresholds a little early; from %d.%d on they are exact", exact[0], exact[1]))
	}
}

// lockdowns describes the harmless modes of lockdown.
var lockdowns = map[string]string{
	"integrity": "the kernel is locked down (integrity), and all of ebb's programs load",
	"":          "the kernel has no lockdown, or does not show it",
}

// evaluateKernel checks whether the programs can be loaded.
func evaluateKernel(all *findings, f *Facts) {
	k := &f.Kernel
	all.check(k.BTF == nil, "kernel.btf", "type information (BTF) is at /sys/kernel/btf/vmlinux",
		Warning, fmt.Sprintf("no type information: %v", k.BTF), withoutPrograms,
		"use a kernel with CONFIG_DEBUG_INFO_BTF=y (those of the large distributions have it)")
	all.check(k.Lockdown != "confidentiality", "kernel.lockdown", cmp.Or(lockdowns[k.Lockdown], "the kernel is not locked down"),
		Warning, "the kernel is locked down: confidentiality",
		"then programs may not read kernel memory (bpf_probe_read_kernel), which all of ebb's programs do; "+withoutPrograms,
		"set lockdown=integrity on the kernel's command line: with it, all of them load")
}

// evaluateCapabilities checks the capabilities of this process. They are those of the agent only if
// both run in the same way, so the fix says that.
func evaluateCapabilities(all *findings, f *Facts) {
	const id = "kernel.capabilities"
	if f.Kernel.CapsErr != nil {
		all.add(Note, id, fmt.Sprintf("the capabilities of this process are not known: %v", f.Kernel.CapsErr), "")
		return
	}
	var names, uses []string
	for _, c := range f.Kernel.Missing {
		names, uses = append(names, c.Name), append(uses, c.Name+" to "+c.For)
	}
	all.check(len(names) == 0, id, "this process has CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN",
		Warning, "this process lacks "+strings.Join(names, ", "), strings.Join(uses, ", ")+"; "+withoutPrograms,
		"run this as the agent runs: as root or, in a pod, with these capabilities added")
}

// evaluateMounts checks the filesystems that the agent uses. If one is not mounted, the agent
// mounts it or works without it.
func evaluateMounts(all *findings, f *Facts) {
	k := &f.Kernel
	const id = "kernel.bpffs"
	if !k.BPFFS.Is && !k.BPFFSKnown {
		all.add(Warning, id, "this kernel has no bpf filesystem", "programs cannot outlive the agent", "use a kernel with CONFIG_BPF_SYSCALL=y")
	} else {
		all.check(k.BPFFS.Is, id, k.BPFFS.Path+" is on a bpf filesystem",
			Note, "no bpf filesystem at "+k.BPFFS.Path+" yet"+because(k.BPFFS.Err), "the agent mounts one, with CAP_SYS_ADMIN",
			"in a pod, mount the node's /sys/fs/bpf, or recording ends with the pod")
	}
	all.check(k.Tracefs.Is, "kernel.tracefs", "tracefs is at "+k.Tracefs.Path,
		Note, "no tracefs at "+k.Tracefs.Path+because(k.Tracefs.Err),
		"only kernels without fentry need it, to measure how much of a layer is read", "mount -t tracefs tracefs /sys/kernel/tracing")
	all.check(k.CgroupV2 == nil, "kernel.cgroup", "a cgroup v2 hierarchy is mounted",
		Note, fmt.Sprintf("no cgroup v2 hierarchy: %v", k.CgroupV2),
		"writers have no container names; last use is still known", "boot with systemd.unified_cgroup_hierarchy=1")
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// evaluateProbes adds a check for each set of programs that does not work.
func evaluateProbes(all *findings, f *Facts) {
	const id = "probes"
	p := &f.Probes
	switch {
	case p.Skipped != "":
		all.add(Note, id, "kernel programs were not tried: "+p.Skipped, "")
		return
	case p.Err != nil:
		all.add(Warning, id, fmt.Sprintf("kernel programs could not be tried: %v", p.Err), withoutPrograms, "see ebb-agent report")
		return
	case p.Report.Trial && len(f.Kernel.Missing) > 0:
		all.add(Note, id, "kernel programs were not tried: the capabilities for it are missing", "")
		return // each set would say the same
	}
	attached := 0
	for _, o := range p.Report.Objects {
		for _, program := range o.Programs {
			if program.Attached {
				attached++
			}
		}
		if o.State == bpf.StateFailed || o.State == bpf.StateMissing {
			evaluateObject(all, f, &o)
		}
	}
	how := "loaded for this report, and removed again"
	if !p.Report.Trial {
		how = "pinned below " + p.Report.PinDir
	}
	all.check(attached > 0, id, fmt.Sprintf("%d kernel programs attached, %s", attached, how),
		Warning, "no kernel program could be attached", withoutPrograms, "see ebb-agent report")
}

// losses is what is lost without each set of programs. The level is Note if no decision depends on
// the set.
var losses = map[string]struct {
	level Level
	why   string
}{
	"lastuse": {Warning, "last use then comes from the runtime's events, and is not seen while the agent is down"},
	"usage":   {Warning, "the agent reads the disk every ten seconds, because the kernel reports no threshold"},
	"writers": {Warning, "cannot read who fills the disk"},
	"heat":    {Note, "how much of each layer is read is not known; no decision depends on it"},
}

// evaluateObject reports a failed set, with the level of what is lost with it.
func evaluateObject(all *findings, f *Facts, o *bpf.ObjectReport) {
	name, fsType, _ := strings.Cut(o.Name, "_")
	onOne := func(d Disk) bool { return d.Err == nil && d.Type == fsType }
	if fsType != "" && !slices.ContainsFunc(f.Disks, onOne) || name == "writers" && f.Config.Writers.Top == 0 {
		return // no watched directory is on such a filesystem, or writers are switched off
	}
	loss := losses[name]
	// A module that is not loaded is no fault: once it is loaded, its programs are attached.
	if name == "lastuse" && strings.HasPrefix(o.Reason, "module ") && strings.Contains(o.Reason, " is not loaded") {
		loss.level, loss.why = Note, "the agent loads it at its start, as the runtime does for the first container"
	}
	all.add(cmp.Or(loss.level, Note), "probes."+o.Name, o.Name+": "+o.Reason, loss.why, "ebb-agent report says more")
}

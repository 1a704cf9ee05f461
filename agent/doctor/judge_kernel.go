package doctor

import (
	"fmt"
	"strings"

	"github.com/ebb-agent/ebb/bpf"
)

// Kernels from which on something works.
const (
	needMajor, needMinor   = 5, 12
	exactMajor, exactMinor = 5, 19
)

// withoutPrograms is what is lost where programs cannot be loaded.
const withoutPrograms = "without its kernel programs ebb knows last use from the runtime's events alone, and reads the disk every ten seconds"

// judgeKernel: can the programs be loaded, and is the world around them there?
func judgeKernel(all *findings, f *Facts) {
	k := &f.Kernel
	judgeRelease(all, k)
	if k.BTF != nil {
		all.add(Warning, "kernel.btf", fmt.Sprintf("no type information: %v", k.BTF), withoutPrograms,
			"use a kernel with CONFIG_DEBUG_INFO_BTF=y (those of the large distributions have it)")
	} else {
		all.ok("kernel.btf", "type information (BTF) is at /sys/kernel/btf/vmlinux")
	}
	switch k.Lockdown {
	case "confidentiality":
		all.add(Warning, "kernel.lockdown", "the kernel is locked down: confidentiality", "programs may not read the kernel's memory there (bpf_probe_read_kernel), as each set of ebb's does; "+withoutPrograms,
			"lockdown=integrity on the kernel's command line, which keeps none of them out")
	case "integrity":
		all.ok("kernel.lockdown", "the kernel is locked down: integrity, which keeps none of ebb's programs out")
	case "":
		all.ok("kernel.lockdown", "the kernel has no lockdown, or does not tell")
	default:
		all.ok("kernel.lockdown", "the kernel is not locked down")
	}
	judgeCapabilities(all, k)
	judgeMounts(all, f)
}

// judgeRelease: no release is an error. The agent does its work without programs,
// only later and with less knowledge.
func judgeRelease(all *findings, k *KernelFacts) {
	const id = "kernel.version"
	var major, minor int
	if _, err := fmt.Sscanf(k.Release, "%d.%d", &major, &minor); err != nil {
		all.add(Note, id, fmt.Sprintf("a kernel of an unknown kind: %.60q", k.Release), "")
		return
	}
	found := "Linux " + k.Release
	switch {
	case older(major, minor, needMajor, needMinor):
		all.add(Warning, id, found, withoutPrograms, fmt.Sprintf("use Linux %d.%d or newer, for exact lines %d.%d", needMajor, needMinor, exactMajor, exactMinor))
	case older(major, minor, exactMajor, exactMinor):
		all.add(Note, id, found, fmt.Sprintf("lines are raised a little early on it; they are exact from %d.%d on", exactMajor, exactMinor))
	default:
		all.ok(id, found)
	}
}

func older(major, minor, thanMajor, thanMinor int) bool {
	return major < thanMajor || major == thanMajor && minor < thanMinor
}

// judgeCapabilities speaks of this process. It tells of the agent only if both
// are run alike, which is why the way out says so.
func judgeCapabilities(all *findings, k *KernelFacts) {
	const id = "kernel.capabilities"
	switch {
	case k.CapsErr != nil:
		all.add(Note, id, fmt.Sprintf("the capabilities of this process are not known: %v", k.CapsErr), "")
	case len(k.Missing) == 0:
		all.ok(id, "this process has CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN")
	default:
		var names, uses []string
		for _, c := range k.Missing {
			names, uses = append(names, c.Name), append(uses, c.Name+" to "+c.For)
		}
		all.add(Warning, id, "this process lacks "+strings.Join(names, ", "), strings.Join(uses, ", ")+"; "+withoutPrograms,
			"run this as the agent is run: as root or, in a pod, with these capabilities added")
	}
}

// judgeMounts: what is not mounted the agent mounts, or does without.
func judgeMounts(all *findings, f *Facts) {
	k := &f.Kernel
	switch {
	case k.BPFFS.Is:
		all.ok("kernel.bpffs", k.BPFFS.Path+" is on a bpf filesystem")
	case k.BPFFSKnown:
		all.add(Note, "kernel.bpffs", "no bpf filesystem at "+k.BPFFS.Path+" yet"+because(k.BPFFS.Err), "the agent mounts one, with CAP_SYS_ADMIN",
			"in a pod, mount the node's /sys/fs/bpf, or recording ends with the pod")
	default:
		all.add(Warning, "kernel.bpffs", "this kernel knows no bpf filesystem", "programs cannot outlive the agent", "use a kernel with CONFIG_BPF_SYSCALL=y")
	}
	if k.Tracefs.Is {
		all.ok("kernel.tracefs", "tracefs is at "+k.Tracefs.Path)
	} else {
		all.add(Note, "kernel.tracefs", "no tracefs at "+k.Tracefs.Path+because(k.Tracefs.Err),
			"only kernels without fentry need it, for how much of a layer is read", "mount -t tracefs tracefs /sys/kernel/tracing")
	}
	if k.CgroupV2 != nil {
		all.add(Note, "kernel.cgroup", fmt.Sprintf("no cgroup v2 hierarchy: %v", k.CgroupV2),
			"who fills the disk cannot be told apart; last use is known all the same", "boot with systemd.unified_cgroup_hierarchy=1")
	} else {
		all.ok("kernel.cgroup", "a cgroup v2 hierarchy is mounted")
	}
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// judgeProbes has a line for each set of programs that does not work.
func judgeProbes(all *findings, f *Facts) {
	const id = "probes"
	p := &f.Probes
	switch {
	case p.Skipped != "":
		all.add(Note, id, "kernel programs were not tried: "+p.Skipped, "")
		return
	case p.Err != nil:
		all.add(Warning, id, fmt.Sprintf("kernel programs could not be tried: %v", p.Err), withoutPrograms, "see ebb-agent --probe-report")
		return
	case p.Report.Trial && len(f.Kernel.Missing) > 0:
		all.add(Note, id, "kernel programs were not tried: the capabilities for it are missing", "")
		return // each of them would say the same
	}
	attached := 0
	for _, o := range p.Report.Objects {
		for _, program := range o.Programs {
			if program.Attached {
				attached++
			}
		}
		if o.State == bpf.StateFailed || o.State == bpf.StateMissing {
			judgeObject(all, f, &o)
		}
	}
	how := "loaded for this report, and gone again"
	if !p.Report.Trial {
		how = "pinned below " + p.Report.PinDir
	}
	if attached == 0 {
		all.add(Warning, id, "no kernel program could be attached", withoutPrograms, "see ebb-agent --probe-report")
		return
	}
	all.ok(id, fmt.Sprintf("%d kernel programs attached, %s", attached, how))
}

// judgeObject weighs a failed set by what is lost with it.
func judgeObject(all *findings, f *Facts, o *bpf.ObjectReport) {
	name, fsType, _ := strings.Cut(o.Name, "_")
	if fsType != "" && !f.hasType(fsType) {
		return // none of the watched directories is on one
	}
	level, why := Note, ""
	switch name {
	case "lastuse":
		if waitsForModule(o.Reason) {
			why = "the agent has the kernel load it when it starts, as the runtime does for the first container"
			break
		}
		level, why = Warning, "last use then comes from the runtime's events, and is not seen while the agent is down"
	case "usage":
		level, why = Warning, "the disk is read every ten seconds in place of the kernel raising a line"
	case "writers":
		if f.Config.Writers.Top == 0 {
			return // switched off
		}
		level, why = Warning, "who fills the disk is not known"
	case "heat":
		why = "how much of each layer is read is not known; no decision rests on it"
	}
	all.add(level, "probes."+o.Name, o.Name+": "+o.Reason, why, "ebb-agent --probe-report says more")
}

// waitsForModule reads what bpf says of a module that is not loaded: no fault,
// its programs come with it.
func waitsForModule(reason string) bool {
	return strings.HasPrefix(reason, "module ") && strings.Contains(reason, " is not loaded")
}

func (f *Facts) hasType(fsType string) bool {
	for i := range f.Disks {
		if f.Disks[i].Err == nil && f.Disks[i].Type == fsType {
			return true
		}
	}
	return false
}

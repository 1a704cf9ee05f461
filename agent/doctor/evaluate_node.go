package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/containerd/layout"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// evaluateRuntime checks whether containerd answers, whether the sandbox image is known, and
// whether the kubelet uses the same socket.
func evaluateRuntime(all *findings, f *Facts) {
	r := &f.Runtime
	theirs, socket := f.Kubelet.Settings.ContainerRuntimeEndpoint, f.Kubelet.Settings.Socket()
	if r.Err != nil {
		problem, way := fmt.Sprintf("%s: %v", r.Socket, r.Err), "runtime.socket in "+ebbFile(f)+" must be containerd's (systemctl status containerd)"
		switch {
		case errors.Is(r.Err, os.ErrPermission):
			way = "run this as root"
		case r.Socket != "":
		case f.Kubelet.known() && socket != "":
			problem, way = r.Err.Error(), "runtime.socket: "+socket+" in "+ebbFile(f)+": the kubelet uses that one"
		default:
			problem, way = r.Err.Error(), "runtime.socket in "+ebbFile(f)+": the one that the kubelet uses (containerRuntimeEndpoint)"
		}
		all.add(Error, "runtime", problem, "without the runtime ebb sees no image and removes nothing", way)
		return
	}
	found := ""
	if f.Config.Runtime.Socket == layout.Auto {
		found = " (found; layout: " + layout.Of(r.Socket).Name + ")"
	}
	all.ok("runtime", fmt.Sprintf("%s answers at %s%s", r.Version, r.Socket, found))
	all.check(r.CRIErr == nil, "runtime.cri", "the CRI v1 is served",
		Error, fmt.Sprintf("no CRI: %v", r.CRIErr), "images are listed and removed through the CRI, so that its own view of them stays true",
		`take "cri" out of disabled_plugins in /etc/containerd/config.toml, then restart containerd`)
	if r.CRIErr == nil {
		evaluateSandbox(all, r)
	}
	if f.Kubelet.known() {
		all.check(r.SameAsTheirs, "runtime.endpoint", fmt.Sprintf("the kubelet uses the same socket (%s)", theirs.From),
			Error, fmt.Sprintf("the kubelet uses %s (%s), ebb %s", theirs.V, theirs.From, r.Socket),
			"ebb would handle the images of another runtime than the pods use", "runtime.socket in "+ebbFile(f))
	}
}

// evaluateSandbox checks that the sandbox image is protected. It runs in every pod, but no pod
// names it. On containerd 1.6 only its name protects it.
func evaluateSandbox(all *findings, r *RuntimeFacts) {
	if r.Pins && r.SandboxErr == nil {
		// containerd compares the configured name with the stored ones as strings
		// (internal/cri/server/images/image_pull.go): pause:3 is stored as docker.io/library/pause:3.
		all.check(r.Pinned, "runtime.sandbox", "the runtime has pinned an image, as it does with the sandbox image",
			Warning, "the runtime has pinned no image, so not the sandbox image",
			"the image was not pulled yet, or its configured name lacks the registry or the tag. "+
				"Then a collector may remove it, and without it no pod starts",
			"set sandbox to the full name, with registry and tag, in pinned_images of containerd's CRI configuration, then restart containerd")
		return
	}
	all.check(r.Sandbox != "", "runtime.sandbox", "the sandbox image is "+r.Sandbox,
		Error, "the sandbox image cannot be identified"+because(r.SandboxErr),
		"without it no pod starts, so ebb removes nothing until it knows the image",
		"set sandbox_image in containerd's CRI configuration, then restart containerd")
}

// kernelWatches are the filesystems on which the kernel itself reports that a threshold was
// reached.
var kernelWatches = []string{"ext4", "xfs", "btrfs"}

// evaluateDisks checks whether the directories exist, and whether the kernel can watch their
// filesystems.
func evaluateDisks(all *findings, f *Facts) {
	if f.Runtime.Err == nil && f.Runtime.RootsErr != nil {
		all.add(Error, "disk.images", fmt.Sprintf("where the images are is not known: %v", f.Runtime.RootsErr),
			"ebb is not ready without it", "in a pod, mount the runtime's directories at the same paths, with mountPropagation: HostToContainer")
	}
	for _, fs := range filesystems(f) {
		evaluateDisk(all, "disk."+fs.names[0], fs)
	}
	// The agent watches a directory once it appears. So only a missing directory of images is an
	// error: without it the agent has nothing to do.
	for _, d := range f.Disks {
		switch {
		case d.Err == nil || d.Name == DiskNode:
		case d.Name == DiskImages:
			all.add(Error, "disk."+d.Name, fmt.Sprintf("%s: %s: %v", d.Name, d.Path, d.Err), "ebb is not ready without it",
				"in a pod, mount it at the same path, with mountPropagation: HostToContainer")
		default:
			all.add(Note, "disk."+d.Name, fmt.Sprintf("%s: %v", d.Name, d.Err), "ebb watches it as soon as it exists",
				"if it is elsewhere, set filesystems in "+ebbFile(f))
		}
	}
}

// evaluateDisk checks whether the kernel watches a filesystem. It watches counters of whole
// filesystems, not of projects.
func evaluateDisk(all *findings, id string, fs *filesystem) {
	d, p := fs.disk, fs.disk.Project
	found := fmt.Sprintf("%s: %s at %s, %s, %s used", strings.Join(fs.names, ", "), d.Type, cmp.Or(d.Mount, d.Path),
		units.BytesSize(float64(d.Figures.CapacityBytes)), usedOf(d, bytesLeft))
	const polled = "the agent reads this one every ten seconds, more often near its threshold"
	switch {
	case p.Limited && p.Unsure:
		all.add(Note, id, fmt.Sprintf("%s; the directory belongs to project %d, which may have a quota: the kernel did not show it", found, p.ID),
			polled+", because the kernel does not wake it",
			"use Linux 5.14 or newer and CAP_SYS_ADMIN; or take the directory out of the project (chattr -P)")
	case p.Limited:
		all.add(Note, id, fmt.Sprintf("%s; these are figures of project %d, which has a quota, not of the filesystem", found, p.ID),
			"the kernel watches whole filesystems only: "+polled+"; a fast writer can fill the disk in that time",
			"remove the quota, or give the directory a filesystem of its own")
	default:
		all.check(slices.Contains(kernelWatches, d.Type), id, found+"; the kernel watches it",
			Note, found+"; the kernel watches "+strings.Join(kernelWatches, ", ")+" only",
			"the agent reads this one every ten seconds; a fast writer fills much in ten seconds")
	}
}

// evaluateNodefs checks that ebb watches the kubelet's nodefs, which is the filesystem of its root
// directory.
func evaluateNodefs(all *findings, f *Facts) {
	node := f.disk(DiskNode)
	if f.Kubelet.known() && !f.Kubelet.Settings.FlagsKnown {
		all.add(Note, "kubelet.root", "the kubelet's root directory is not known, because only its command line shows it. ebb assumes "+f.Kubelet.Settings.RootDir.V,
			"if it is another one, its filesystem is not judged here", "run this where the kubelet's process can be seen")
	}
	sameAsNode := func(d Disk) bool { return d.Name != DiskNode && d.Err == nil && d.Dev == node.Dev }
	if node == nil || slices.ContainsFunc(f.Disks, sameAsNode) {
		return // nodefs is unknown, or watched under another name
	}
	all.add(Warning, "disk.nodefs", fmt.Sprintf("the kubelet's root directory is %s; ebb watches %q", node.Path, f.Config.Filesystems.Kubelet.Path),
		"the filesystem that the kubelet counts as nodefs is not watched", "filesystems.kubelet.path: "+node.Path+" in "+ebbFile(f))
}

// evaluateState checks whether the agent can save its state, and whether it is the only agent.
func evaluateState(all *findings, f *Facts) {
	a := &f.Agent
	all.check(a.StateErr == nil, "agent.state", "the state directory "+a.StateDir+" can be written",
		Warning, fmt.Sprintf("%s cannot be written: %v", a.StateDir, a.StateErr),
		"then ebb keeps its records only in memory: after a restart every image counts as recently used",
		"run this as the agent runs; or make it writable, or set another state.directory in "+ebbFile(f))
	good := "no process holds " + a.LockFile
	if a.Holder != "" {
		good = fmt.Sprintf("%s is held by one agent: %s", a.LockFile, a.Holder)
	}
	// The missing permission may be only that of the user who runs the doctor.
	all.check(a.Holder != "" || a.LockErr == nil, "agent.lock", good,
		levelIf(errors.Is(a.LockErr, os.ErrPermission), Warning, Error), fmt.Sprintf("%s: %v", a.LockFile, a.LockErr), "the agent does not start unless it is sure that no other agent runs",
		"run this as the agent runs; or make its directory writable, or set another state.lockFile in "+ebbFile(f))
}

// evaluateAgent checks whether an agent runs, and whether it is ready.
func evaluateAgent(all *findings, f *Facts) {
	const id = "agent.running"
	a := &f.Agent
	switch {
	case a.Address == "":
		all.add(Note, id, "server.address is empty: whether an agent runs is not known", "")
	case a.Answered:
		all.check(a.Ready, id, "an agent runs at "+a.Address+" and is ready",
			Warning, fmt.Sprintf("an agent runs at %s and is not ready: %s", a.Address, a.Says),
			"until it is ready, ebb removes nothing", "its log has more: journalctl -u ebb-agent, or kubectl logs")
	case a.down():
		all.add(Note, id, "no agent runs here, none answers at "+a.Address, "ebb removes nothing while no agent runs", startAgent(f))
	default:
		all.add(Note, id, fmt.Sprintf("an agent runs (%s), but does not answer at %s", cmp.Or(a.Holder, fmt.Sprint("pid ", a.PID)), a.Address),
			"it has another address, a network of its own (a pod without hostNetwork), or is just starting", "see its log")
	}
}

// evaluatePods checks whether the agent can learn which pods run on this node.
func evaluatePods(all *findings, f *Facts) {
	const id = "agent.pods"
	p := &f.Pods
	switch {
	case p.Source == config.PodsFromNobody:
		all.add(Note, id, "pods.source is none: ebb does not know which pods are bound to this node",
			"only the kubelet removes the last dead container, the last sandbox and the logs of a deleted pod, "+
				"and an image that a pod waits for counts as unused until its container is there",
			"pods.source: kubelet or apiserver in "+ebbFile(f))
	case errors.Is(p.Err, kube.ErrIncomplete):
		all.add(Warning, id, fmt.Sprintf("the pods of this node are not known yet: %v", p.Err),
			"a kubelet that has just started does not know all pods yet; until then, nothing counts as left by a deleted pod", "look again in a minute")
	default:
		all.check(p.Err == nil, id, fmt.Sprintf("%d pods are known from %s", p.Count, p.From),
			Warning, fmt.Sprintf("the pods of this node are not known: %v", p.Err),
			"while they are not, nothing counts as left by a deleted pod, and images are not held for pods that wait for them",
			"correct pods in "+ebbFile(f)+", or the permission that is named above")
	}
}

package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/ebb-agent/ebb/runtime/containerd/layout"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// judgeRuntime: does containerd answer, and can the sandbox image be told?
func judgeRuntime(all *findings, f *Facts) {
	r := &f.Runtime
	const blind = "without the runtime ebb sees no image and removes nothing"
	if errors.Is(r.Err, layout.ErrNone) || errors.Is(r.Err, layout.ErrSeveral) {
		way := "runtime.socket in " + ebbFile(f) + ": the one that the kubelet uses (containerRuntimeEndpoint)"
		if theirs := f.Kubelet.Settings.Socket(); f.Kubelet.known() && theirs != "" {
			way = "runtime.socket: " + theirs + " in " + ebbFile(f) + ": the kubelet uses that one"
		}
		all.add(Error, "runtime", r.Err.Error(), blind, way)
		return
	}
	if r.Err != nil {
		way := "runtime.socket in " + ebbFile(f) + " must be containerd's (systemctl status containerd)"
		if errors.Is(r.Err, os.ErrPermission) {
			way = "run this as root"
		}
		all.add(Error, "runtime", fmt.Sprintf("%s: %v", r.Socket, r.Err), blind, way)
		return
	}
	all.ok("runtime", fmt.Sprintf("%s answers at %s%s", r.Version, r.Socket, describeLayout(f)))
	if r.CRIErr != nil {
		all.add(Error, "runtime.cri", fmt.Sprintf("no CRI: %v", r.CRIErr),
			"images are listed and removed through the CRI, so that its own view of them stays true",
			`take "cri" out of disabled_plugins in /etc/containerd/config.toml, then restart containerd`)
	} else {
		all.ok("runtime.cri", "the CRI v1 is served")
		judgeSandbox(all, r)
	}
	judgeEndpoint(all, f)
}

// describeLayout says how the socket was found, if it was looked for.
func describeLayout(f *Facts) string {
	if f.Config.Runtime.Socket != layout.Auto {
		return ""
	}
	return " (found; layout: " + layout.Of(f.Runtime.Socket).Name + ")"
}

// judgeSandbox: the sandbox image runs in every pod, but no pod names it; on
// containerd 1.6 nothing protects it but its name.
func judgeSandbox(all *findings, r *RuntimeFacts) {
	const id = "runtime.sandbox"
	switch {
	case r.Pinned:
		all.ok(id, "the sandbox image is pinned by the runtime")
	case r.Sandbox != "":
		all.ok(id, "the sandbox image is "+r.Sandbox)
	default:
		found := "the sandbox image cannot be told from others"
		if r.SandboxErr != nil {
			found += ": " + r.SandboxErr.Error()
		}
		all.add(Error, id, found, "without it no pod starts, so ebb removes nothing at all while it does not know it",
			"set sandbox_image in containerd's CRI configuration, then restart containerd")
	}
}

// judgeEndpoint: ebb must look at the runtime that the kubelet uses.
func judgeEndpoint(all *findings, f *Facts) {
	if !f.Kubelet.known() {
		return
	}
	theirs := f.Kubelet.Settings.ContainerRuntimeEndpoint
	if f.Runtime.SameAsTheirs {
		all.ok("runtime.endpoint", fmt.Sprintf("the kubelet uses the same socket (%s)", theirs.From))
		return
	}
	all.add(Error, "runtime.endpoint", fmt.Sprintf("the kubelet uses %s (%s), ebb %s", theirs.V, theirs.From, f.Runtime.Socket),
		"ebb would look after the images of another runtime than that of the pods", "runtime.socket in "+ebbFile(f))
}

// watchedTypes are filesystems on which the kernel itself raises lines.
var watchedTypes = []string{"ext4", "xfs", "btrfs"}

// judgeDisks: are the directories there, and can the kernel watch them?
func judgeDisks(all *findings, f *Facts) {
	if f.Runtime.Err == nil && f.Runtime.RootsErr != nil {
		all.add(Error, "disk.images", fmt.Sprintf("where the images are is not known: %v", f.Runtime.RootsErr),
			"ebb is not ready without it", "in a pod, mount the runtime's directories at the same paths, with mountPropagation: HostToContainer")
	}
	for _, p := range places(f) {
		id, found := "disk."+p.names[0], describeDisk(p)
		if p.disk.Project.Limited {
			judgeProject(all, id, found, p.disk.Project)
			continue
		}
		if slices.Contains(watchedTypes, p.disk.Type) {
			all.ok(id, found+"; the kernel watches it")
			continue
		}
		all.add(Note, id, found+"; the kernel raises lines on "+strings.Join(watchedTypes, ", ")+" only",
			"the agent reads this one every ten seconds; a fast writer fills much in ten seconds")
	}
	for i := range f.Disks {
		if d := &f.Disks[i]; d.Err != nil && d.Name != DiskNode {
			judgeAbsent(all, f, d)
		}
	}
	judgeNodefs(all, f)
}

// judgeProject: the kernel's counters, which its lines are drawn in, are of the whole
// filesystem.
func judgeProject(all *findings, id, found string, p fs.Project) {
	if p.Unsure {
		all.add(Note, id, fmt.Sprintf("%s; the directory is of project %d, which may have a quota: it could not be asked", found, p.ID),
			"the agent reads it every ten seconds, more often near its line, in place of being woken by the kernel",
			"Linux 5.14 or newer, and CAP_SYS_ADMIN, to know it; or take the directory out of the project (chattr -P)")
		return
	}
	all.add(Note, id, fmt.Sprintf("%s; these are figures of project %d, which has a quota, not of the filesystem", found, p.ID),
		"the kernel raises lines of whole filesystems only: the agent reads this one every ten seconds, more often near its line; a fast writer can be ahead of it",
		"take the quota away, or give the directory a filesystem of its own in its place")
}

// judgeNodefs: what the kubelet counts as nodefs is where its root directory is.
func judgeNodefs(all *findings, f *Facts) {
	node, ours := f.disk(DiskNode), f.disk(DiskKubelet)
	if node == nil || ours != nil && ours.Dev == node.Dev {
		return
	}
	for _, p := range places(f) {
		if p.disk.Dev == node.Dev {
			return // watched under another name
		}
	}
	all.add(Warning, "disk.nodefs", fmt.Sprintf("the kubelet's root directory is %s; ebb watches %q", node.Path, f.Config.Filesystems.Kubelet.Path),
		"the filesystem that the kubelet counts as nodefs is not watched", "filesystems.kubelet.path: "+node.Path+" in "+ebbFile(f))
}

// judgeAbsent: the agent takes up a directory when it comes, so that only the
// images', without which it has nothing to do, are an error.
func judgeAbsent(all *findings, f *Facts, d *Disk) {
	id := "disk." + d.Name
	if d.Name == DiskImages {
		all.add(Error, id, fmt.Sprintf("%s: %s: %v", d.Name, d.Path, d.Err), "ebb is not ready without it",
			"in a pod, mount it at the same path, with mountPropagation: HostToContainer")
		return
	}
	all.add(Note, id, fmt.Sprintf("%s: %v", d.Name, d.Err), "it is watched from when it comes",
		"if it is elsewhere, say so in filesystems of "+ebbFile(f))
}

func describeDisk(p *place) string {
	d := p.disk
	at := d.Mount
	if at == "" {
		at = d.Path
	}
	return fmt.Sprintf("%s: %s at %s, %s, %s used", strings.Join(p.names, ", "), d.Type, at,
		units.BytesSize(float64(d.Figures.CapacityBytes)), usedOf(p, bytesLeft))
}

// judgeAgent: can it keep its state, and is one at work already?
func judgeAgent(all *findings, f *Facts) {
	a := &f.Agent
	if a.StateErr != nil {
		all.add(Warning, "agent.state", fmt.Sprintf("%s cannot be written: %v", a.StateDir, a.StateErr),
			"ebb works from memory then: after a restart every image counts as recently used",
			"run this as the agent is run; or make it writable, or name another state.directory in "+ebbFile(f))
	} else {
		all.ok("agent.state", "the state directory "+a.StateDir+" can be written")
	}
	judgeLock(all, f)
	const id = "agent.running"
	switch {
	case a.Address == "":
		all.add(Note, id, "server.address is empty: whether an agent runs is not known", "")
	case a.Answered && a.Ready:
		all.ok(id, "an agent runs at "+a.Address+" and is ready")
	case a.Answered:
		all.add(Warning, id, fmt.Sprintf("an agent runs at %s and is not ready: %s", a.Address, a.Says),
			"until it is, images are not looked after", "its log has more: journalctl -u ebb-agent, or kubectl logs")
	case a.PID != 0 || a.Holder != "":
		who := a.Holder
		if who == "" {
			who = fmt.Sprint("pid ", a.PID)
		}
		all.add(Note, id, fmt.Sprintf("an agent runs (%s), but does not answer at %s", who, a.Address),
			"it has another address, a network of its own (a pod without hostNetwork), or is just starting", "see its log")
	default:
		all.add(Note, id, "no agent runs here, none answers at "+a.Address, "nothing is removed by ebb while none runs", "start it: ebb-agent --config "+ebbName(f))
	}
	judgePods(all, f)
}

// judgeLock: without it no agent starts, for it could be the second one.
func judgeLock(all *findings, f *Facts) {
	const id = "agent.lock"
	a := &f.Agent
	switch {
	case a.Holder != "":
		all.ok(id, fmt.Sprintf("%s is held by one agent: %s", a.LockFile, a.Holder))
	case a.LockErr != nil:
		level := Error
		if errors.Is(a.LockErr, os.ErrPermission) {
			level = Warning // that may be only who asks
		}
		all.add(level, id, fmt.Sprintf("%s: %v", a.LockFile, a.LockErr), "the agent does not start when it cannot know whether it is alone",
			"run this as the agent is run; or make its directory writable, or name another state.lockFile in "+ebbFile(f))
	default:
		all.ok(id, "nobody holds "+a.LockFile)
	}
}

func ebbName(f *Facts) string {
	if f.ConfigFile == "" {
		return "/etc/ebb.yaml"
	}
	return f.ConfigFile
}

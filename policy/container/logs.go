package container

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// LogDirectory is the directory of one pod's logs.
type LogDirectory struct {
	Entry    string // its name in /var/log/pods
	Pod      PodID  // parsed from Entry
	Modified time.Time

	RetryAt time.Time // after a removal that failed: left alone until then
}

// LogLink is a dangling link to a container's log.
type LogLink struct {
	Entry       string // its name in /var/log/containers
	ContainerID string // parsed from Entry
}

// Logs has the log directories and dangling links of a node. The caller must read them before
// the containers and sandboxes of the snapshot, and those before its pods.
type Logs struct {
	Directories []LogDirectory
	DeadLinks   []LogLink
}

// LogDecision is why the logs of a pod are kept or removed.
type LogDecision struct {
	Entry  string
	Pod    PodID
	Reason Reason
	Detail string // a sentence for people
}

// LogPlan is the result of DecideLogs.
type LogPlan struct {
	RemoveDirectories []LogDecision // by entry
	KeepDirectories   []LogDecision // by entry
	RemoveLinks       []string      // by entry

	// Next is the earliest time at which the plan changes by itself; zero if only
	// an event can change it.
	Next time.Time
}

// KeptPod: the logs are kept because their pod exists, or may exist.
const KeptPod Reason = "pod_exists"

// DecideLogs returns which logs to remove. A directory is removed if its pod's content may be
// removed, as with the kubelet, and the pod has no containers or sandboxes left. A dangling
// link is removed if the runtime does not know its container.
//
// Only a sandbox shows whether a pod is static, and at this point the sandbox is gone. So
// while StaticPodsKnown is false, a directory is removed only if its name has a UID of the
// form that API servers assign. The kubelet generates UIDs of another form for static pods.
// If a manifest sets a UID of the API servers' form, the pod loses its logs while its mirror
// pod is missing.
//
// A directory outlives everything else of its pod, so it is judged last, and by its name
// alone. The kubelet removes the logs of a gone pod while the pod still has containers; here
// the logs wait until the containers are removed.
func DecideLogs(l Logs, s Snapshot, now time.Time) LogPlan {
	d := logDecision{decision: decision{Snapshot: s, now: now.Round(0)}}
	if problems := s.Policy.Validate(); len(problems) > 0 {
		d.blocked = "policy: " + joinProblems(problems)
	}
	d.next.now = d.now
	d.pods = d.findPods()
	d.findOwners(l.Directories)
	var p LogPlan
	for _, dir := range l.Directories {
		if reason, detail := d.whyKept(dir); reason != "" {
			p.KeepDirectories = append(p.KeepDirectories, LogDecision{dir.Entry, dir.Pod, reason, detail})
			continue
		}
		owner := d.owners[dir.Pod.UID]
		p.RemoveDirectories = append(p.RemoveDirectories, LogDecision{dir.Entry, dir.Pod, owner.ended, owner.words()})
	}
	byEntry := func(a, b LogDecision) int {
		return cmp.Or(strings.Compare(a.Entry, b.Entry), strings.Compare(a.Pod.UID, b.Pod.UID))
	}
	slices.SortFunc(p.RemoveDirectories, byEntry)
	slices.SortFunc(p.KeepDirectories, byEntry)
	p.RemoveLinks = d.deadLinks(l.DeadLinks)
	p.Next = d.next.at
	return p
}

type logDecision struct {
	decision
	owners map[string]*pod // pods of the directories, by UID
	next   nextChange
}

// findOwners judges the pods of the directories by the directories alone. An ended pod keeps
// its logs even if space is needed: they are the last record of it, and the kubelet keeps
// them too.
func (d *logDecision) findOwners(directories []LogDirectory) {
	d.owners = make(map[string]*pod, len(directories))
	for _, dir := range directories {
		if !dir.Pod.valid() {
			continue
		}
		p := d.owners[dir.Pod.UID]
		if p == nil {
			p = &pod{PodID: dir.Pod, mayStatic: !givenByServer(dir.Pod.UID)}
			d.owners[dir.Pod.UID] = p
		}
		if compareTimes(dir.Modified, p.oldest) < 0 {
			p.oldest = dir.Modified
		}
	}
	if d.PodsKnown {
		d.ReclaimEnded = false
		d.judgePods(d.owners)
	}
}

// whyKept returns why a directory is kept, or no reason if it is to be removed.
func (d *logDecision) whyKept(dir LogDirectory) (Reason, string) {
	switch {
	case d.blocked != "":
		return KeptBlocked, d.blocked
	case !dir.Pod.valid() || dir.Entry == "":
		return KeptForeign, "is not named as the kubelet names the logs of a pod"
	case d.pods[dir.Pod.UID] != nil:
		return KeptHasContainers, "its pod has containers or sandboxes"
	case !d.PodsKnown:
		return KeptPod, "it is unknown which pods are gone"
	}
	owner := d.owners[dir.Pod.UID]
	switch {
	case owner.ended == "" && !owner.goneAt.IsZero():
		d.next.consider(latest(owner.goneAt, dir.RetryAt))
		return KeptStarting, "is new, and its pod may not be known yet"
	case owner.ended == "":
		return KeptPod, "its pod exists, or may be a static one"
	case d.now.Before(dir.RetryAt):
		d.next.consider(dir.RetryAt)
		return KeptFailed, retryDetail(dir.RetryAt, d.now)
	}
	return "", ""
}

// deadLinks returns the links to remove, sorted. Links of existing containers stay, because
// the runtime may be about to open the log again.
func (d *logDecision) deadLinks(links []LogLink) []string {
	if d.blocked != "" {
		return nil
	}
	there := make(map[string]bool, len(d.Containers))
	for _, c := range d.Containers {
		there[c.ID] = true
	}
	var dead []string
	for _, l := range links {
		if l.Entry != "" && l.ContainerID != "" && !there[l.ContainerID] {
			dead = append(dead, l.Entry)
		}
	}
	slices.Sort(dead)
	return slices.Compact(dead)
}

// givenByServer reports whether a UID has the form that API servers assign (RFC 9562:
// 8-4-4-4-12 hex digits). UIDs that the kubelet generates have 32 hex digits.
func givenByServer(uid string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(uid) != len(form) {
		return false
	}
	for i := range len(uid) {
		c := uid[i]
		hex := '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
		if (form[i] == '-') != (c == '-') || form[i] == 'x' && !hex {
			return false
		}
	}
	return true
}

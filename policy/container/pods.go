package container

import (
	"cmp"
	"strings"
	"time"
)

// pod is what is known of one pod that has containers, sandboxes or logs on the node.
type pod struct {
	PodID

	ended  Reason // why its content may be removed; "" if it may not
	detail string
	// goneAt is when a pod that is missing from its source will be treated as gone; zero if
	// it never will be, or already is.
	goneAt time.Time

	oldest    time.Time // time of its oldest container, sandbox or logs; zero if unknown
	mayStatic bool      // it is, or may be, a static pod
}

// findPods returns the pods of everything that carries the kubelet's labels, by UID. If
// PodsKnown, they are judged by judgePods.
func (d *decision) findPods() map[string]*pod {
	pods := make(map[string]*pod)
	meet := func(id PodID, created time.Time) *pod {
		p := pods[id.UID]
		if p == nil {
			p = &pod{PodID: id}
			pods[id.UID] = p
		}
		// Pods with the same UID are one pod. Its name is only for people, but must not
		// depend on the order of the input.
		if cmp.Or(strings.Compare(id.Namespace, p.Namespace), strings.Compare(id.Name, p.Name)) < 0 {
			p.PodID = id
		}
		if compareTimes(created, p.oldest) < 0 {
			p.oldest = created
		}
		return p
	}
	sandboxes := make(map[string]bool, len(d.Sandboxes))
	for _, sb := range d.Sandboxes {
		sandboxes[sb.ID] = true
		if sb.Pod.valid() {
			p := meet(sb.Pod, sb.Created)
			p.mayStatic = p.mayStatic || sb.Static
		}
	}
	for _, c := range d.Containers {
		if c.Pod.valid() && validName(c.Name) {
			p := meet(c.Pod, c.Created)
			// Only its sandbox shows whether a pod is static, and the snapshot does not have
			// that sandbox.
			p.mayStatic = p.mayStatic || !sandboxes[c.SandboxID]
		}
	}
	if d.PodsKnown {
		d.judgePods(pods)
	}
	return pods
}

// judgePods sets the pods whose content may be removed: all their dead containers and
// sandboxes. A pod's content may be removed if the pod
//
//   - is not among Snapshot.Pods: deleted, or never there (the two cannot be distinguished);
//   - was evicted;
//   - is being deleted and has ended. While something of it still runs, it is treated like
//     any other pod: its last dead containers show why the deletion takes so long;
//   - has ended (a finished Job), if space is needed: ReclaimEnded. Otherwise an ended pod
//     keeps what the limits allow, for its logs.
//
// While PodsKnown is false, none of this applies, not even to pods that the source reported
// before: only the limits decide. The last dead container and the last sandbox of each
// deleted pod then stay. (For sandboxes only, the kubelet continues to use what it last
// received about pods it knows.)
func (d *decision) judgePods(pods map[string]*pod) {
	listed := make(map[string]Pod, len(d.Pods))
	for _, p := range d.Pods {
		// A pod that is listed twice is deleting, ended or evicted only if both entries
		// agree.
		if other, ok := listed[p.UID]; ok {
			p.Deleting = p.Deleting && other.Deleting
			p.Ended = p.Ended && other.Ended
			p.Evicted = p.Evicted && other.Evicted
		}
		listed[p.UID] = p
	}
	for uid, p := range pods {
		pod, ok := listed[uid]
		if !ok {
			d.judgeAbsent(p)
			continue
		}
		switch {
		case pod.Evicted:
			p.ended, p.detail = RemovedPodEvicted, "was evicted"
		case pod.Deleting && pod.Ended:
			p.ended, p.detail = RemovedPodDeleted, "is being deleted and has ended"
		case pod.Ended && d.ReclaimEnded:
			p.ended, p.detail = RemovedPodEnded, "has ended, and its space is needed"
		}
	}
}

// judgeAbsent judges a pod that is missing from its source.
//
// Static pods come from files. The API server knows only their mirror pods, which have
// another UID and appear later or never. So while StaticPodsKnown is false, a pod that is
// static, or may be because its sandbox is missing from the snapshot, is never treated as
// gone.
func (d *decision) judgeAbsent(p *pod) {
	if p.mayStatic && !d.StaticPodsKnown {
		return
	}
	old, at := reaches(p.oldest, d.Policy.StartGrace, d.now)
	if !old {
		p.goneAt = at
		return
	}
	p.ended, p.detail = RemovedPodGone, "is gone"
}

// words returns, for people, why the content of the pod is removed.
func (p *pod) words() string { return "pod " + p.String() + " " + p.detail }

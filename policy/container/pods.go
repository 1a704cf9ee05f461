package container

import (
	"cmp"
	"strings"
	"time"
)

// pod is what is known of one pod that has containers or sandboxes here.
type pod struct {
	PodID

	ended  Reason // why all that is dead of it goes; "" while the pod has its rights
	detail string
	// goneAt is when a pod that its source does not name will be taken for gone;
	// zero if it never will, or is already.
	goneAt time.Time

	oldest    time.Time // creation of the oldest thing of it; zero if not known
	mayStatic bool      // it is a static pod, or nothing says that it is not
}

// findPods looks at everything that carries the kubelet's labels, and says of each
// pod whether it is there.
func (d *decision) findPods() map[string]*pod {
	pods := make(map[string]*pod)
	meet := func(id PodID, created time.Time) *pod {
		p := pods[id.UID]
		if p == nil {
			p = &pod{PodID: id}
			pods[id.UID] = p
		}
		// Two pods of one UID are one pod; which name it bears is for people only,
		// but must not depend on the order of the input.
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
			// Only the sandbox would tell, and it is not in this reading.
			p.mayStatic = p.mayStatic || !sandboxes[c.SandboxID]
		}
	}
	if d.PodsKnown {
		d.judgePods(pods)
	}
	return pods
}

// judgePods says which pods have lost their rights. A pod has when it
//
//   - is not among Snapshot.Pods: deleted, or never there (nobody can tell the two
//     apart);
//   - was evicted;
//   - is being deleted and has ended. One that still has something to end is like any
//     other: its last dead containers tell why it took so long;
//   - has ended (a job that is done), if the space is needed: ReclaimEnded. Otherwise an
//     ended pod keeps what the limits leave it, for its logs.
//
// While PodsKnown is false none of this is believed, not even what the source reported
// before: the limits alone decide. The last dead container and the last sandbox of each
// deleted pod then stay. (The kubelet goes on to believe, for sandboxes only, what it
// heard of pods it knows.)
func (d *decision) judgePods(pods map[string]*pod) {
	listed := make(map[string]Pod, len(d.Pods))
	for _, p := range d.Pods {
		// Named twice, it has the rights of both.
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

// judgeAbsent is for a pod that its source does not name.
//
// Static pods come from files, and the API server knows them by mirror pods only, under
// another UID, some time later or not at all. While StaticPodsKnown is false, what
// belongs to a static pod, or may because its sandbox is missing from the reading, is
// never taken for gone.
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

// words says why what is dead of the pod goes.
func (p *pod) words() string { return "pod " + p.String() + " " + p.detail }

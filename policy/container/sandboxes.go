package container

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// sandbox is a sandbox of the kubelet's that is not ready.
type sandbox struct {
	Sandbox
	pod    *pod
	newest bool // the newest of its pod, ready ones included

	settled bool      // it is older than StartGrace
	startAt time.Time // if not settled, when it will be; zero if unknown

	kept Reason // "" if it goes
}

// findSandboxes collects the kubelet's sandboxes that are not ready. For all others it
// records why they are kept.
func (d *decision) findSandboxes() {
	all := slices.Clone(d.Sandboxes)
	slices.SortFunc(all, func(a, b Sandbox) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Pod.UID, b.Pod.UID))
	})
	newest := make(map[string]*sandbox)
	for len(all) > 0 {
		sb, twins := &sandbox{Sandbox: all[0]}, 1
		for twins < len(all) && all[twins].ID == sb.ID {
			twins++
		}
		all = all[twins:]
		if sb.ID == "" {
			continue // no step could name it
		}
		if sb.Sandbox.Pod.valid() {
			sb.pod = d.pods[sb.Pod.UID]
			if other := newest[sb.Pod.UID]; other == nil || compareSandboxes(other, sb) < 0 {
				newest[sb.Pod.UID] = sb
			}
		}
		if reason, detail := d.untouchableSandbox(sb, twins); reason != "" {
			d.keep = append(d.keep, Decision{"", sb.ID, reason, detail})
			continue
		}
		sb.settled, sb.startAt = reaches(sb.Created, d.Policy.StartGrace, d.now)
		d.sandboxes = append(d.sandboxes, sb)
	}
	for _, sb := range d.sandboxes {
		sb.newest = newest[sb.Pod.UID] == sb
	}
}

// untouchableSandbox returns why a sandbox is kept regardless of the policy, or "".
func (d *decision) untouchableSandbox(sb *sandbox, twins int) (Reason, string) {
	switch {
	case d.blocked != "":
		return KeptBlocked, d.blocked
	case twins > 1:
		return KeptBlocked, "listed more than once"
	case !sb.Pod.valid():
		return KeptForeign, "does not carry the kubelet's labels"
	case !sb.NotReady:
		return KeptRunning, "is ready"
	}
	return "", ""
}

// planSandboxes adds the steps for sandboxes, oldest first, and the reasons for which the
// others are kept. A sandbox may go in the same plan as its containers: the kubelet, too,
// checks sandboxes after it removed containers.
func (d *decision) planSandboxes() {
	stay := d.containersLeft()
	var going []*sandbox
	for _, sb := range d.sandboxes {
		reason, detail := d.whySandboxKept(sb, stay[sb.ID])
		sb.kept = reason
		if reason == "" {
			going = append(going, sb)
			continue
		}
		d.keep = append(d.keep, Decision{"", sb.ID, reason, detail})
	}
	slices.SortFunc(going, compareSandboxes)
	for _, sb := range going {
		why := Decision{SandboxID: sb.ID, Reason: RemovedSuperseded, Detail: "pod " + sb.pod.String() + " has a newer sandbox"}
		if sb.pod.ended != "" {
			why.Reason, why.Detail = sb.pod.ended, sb.pod.words()
		}
		// A sandbox that is not ready may still have its network. Stopping the sandbox tears
		// the network down; stopping it twice is not an error.
		d.steps = append(d.steps, Step{StopSandbox, why}, Step{RemoveSandbox, why})
	}
}

// containersLeft returns, by sandbox ID, how many containers the plan leaves, including those
// without the kubelet's labels.
func (d *decision) containersLeft() map[string]int {
	going := make(map[string]bool, len(d.chosen))
	for _, it := range d.chosen {
		going[it.ID] = it.goes
	}
	left := make(map[string]int, len(d.Sandboxes))
	for _, c := range d.Containers {
		if !going[c.ID] {
			left[c.SandboxID]++
		}
	}
	return left
}

// whySandboxKept returns why a sandbox is kept, or no reason if it is to be removed.
//
// A sandbox is removed if it is not ready, is older than StartGrace, and the plan leaves none
// of its containers. In addition, its pod's content may be removed, or its pod has a newer
// sandbox, ready or not. The limits and MinAge do not apply to sandboxes: MinAge keeps the
// logs of dead containers, and a sandbox has no logs. A sandbox with young containers stays
// because of them.
func (d *decision) whySandboxKept(sb *sandbox, containers int) (Reason, string) {
	switch {
	case containers > 0:
		return KeptHasContainers, fmt.Sprintf("has containers that stay: %d", containers)
	case !sb.settled:
		return KeptStarting, fmt.Sprintf("was created %v ago and may be about to start, start grace %v",
			rounded(sb.Created, d.now), d.Policy.StartGrace)
	case sb.pod.ended == "" && sb.newest && !d.PodsKnown:
		return KeptNewest, "is the newest of its pod, and it is unknown which pods are gone"
	case sb.pod.ended == "" && sb.newest:
		return KeptNewest, "is the newest of its pod"
	case d.now.Before(sb.RetryAt):
		return KeptFailed, retryDetail(sb.RetryAt, d.now)
	}
	return "", ""
}

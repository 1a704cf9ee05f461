package container

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// sandbox is a sandbox that is the kubelet's and not ready.
type sandbox struct {
	Sandbox
	pod    *pod
	newest bool // of its pod, the ready ones included

	settled bool      // it is not being started any more
	startAt time.Time // if not settled, when it will be; zero if nobody knows

	kept Reason // "" if it goes
}

// findSandboxes finds those that are not ready; the others stay.
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
			continue // nobody could name it
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

// untouchableSandbox says why a sandbox stays whatever the policy says.
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

// planSandboxes writes the steps for sandboxes, the oldest first, and says why
// the others stay. A sandbox may go in the same plan as its containers: the
// kubelet, too, looks again once the containers are gone.
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
		// Not ready does not mean that its network is taken down: the CRI does
		// that when it is stopped, and stopping twice is no error.
		d.steps = append(d.steps, Step{StopSandbox, why}, Step{RemoveSandbox, why})
	}
}

// containersLeft counts the containers of each sandbox that will still be
// there, whoever made them.
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

// whySandboxKept returns no reason for a sandbox that goes.
//
// A sandbox goes if it is not ready, no container of it is left after the plan, and its
// pod has lost its rights or has a newer sandbox, ready or not. Neither limit nor MinAge
// applies to sandboxes: MinAge keeps the logs of dead containers, and a sandbox has none.
// A sandbox of a pod with young containers stays for theirs.
func (d *decision) whySandboxKept(sb *sandbox, containers int) (Reason, string) {
	switch {
	case containers > 0:
		return KeptHasContainers, fmt.Sprintf("has containers that stay: %d", containers)
	case !sb.settled:
		return KeptStarting, fmt.Sprintf("was created %v ago and may be about to start, start grace %v",
			rounded(sb.Created, d.now), d.Policy.StartGrace)
	case sb.pod.ended == "" && sb.newest && !d.PodsKnown:
		return KeptNewest, "is the newest of its pod, and nobody knows which pods are gone"
	case sb.pod.ended == "" && sb.newest:
		return KeptNewest, "is the newest of its pod"
	case d.now.Before(sb.RetryAt):
		return KeptFailed, retryDetail(sb.RetryAt, d.now)
	}
	return "", ""
}

package container

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decide says which dead containers and sandboxes of the snapshot should go,
// why the others stay, and when to ask again. The package documentation has the
// rules.
func Decide(s Snapshot, now time.Time) Plan {
	d := decision{Snapshot: s, now: now.Round(0)} // wall clock only, like all times in the snapshot
	if problems := s.Policy.Validate(); len(problems) > 0 {
		d.blocked = "policy: " + joinProblems(problems)
	}
	d.pods = d.findPods()
	d.findDead()
	d.findSandboxes()
	d.enforceLimits()
	d.planContainers()
	d.planSandboxes()
	return d.plan()
}

// decision is the state of one call of Decide.
type decision struct {
	Snapshot
	now     time.Time
	blocked string          // why nothing may go; "" if something may
	pods    map[string]*pod // by UID: those that have anything here

	dead      []*dead    // the kubelet's containers that do not run, by ID
	sandboxes []*sandbox // the kubelet's sandboxes that are not ready, by ID
	chosen    []*dead    // those of dead that go, in this order

	steps []Step
	keep  []Decision
}

// dead is a container that is the kubelet's and does not run.
//
// Dead is what does not run: exited, created and never started, or lost track of by the
// runtime. The last may be running after all, so it is stopped first, in a step of its
// own.
type dead struct {
	Container
	pod   *pod
	stamp time.Time // what its age counts from; zero if not known

	// ripe: old enough to be asked for. If not, why not, and when it will be:
	// zero if nobody knows.
	ripe   bool
	unripe Reason
	ripeAt time.Time

	remove Reason // why it should go; "" if it stays
	detail string
	goes   bool // it has a step
}

// findDead finds the dead among all containers; the others stay.
func (d *decision) findDead() {
	all := make([]*dead, len(d.Containers))
	backing := make([]dead, len(d.Containers)) // one allocation for all
	for i, c := range d.Containers {
		backing[i].Container = c
		all[i] = &backing[i]
	}
	slices.SortFunc(all, func(a, b *dead) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.SandboxID, b.SandboxID))
	})
	for len(all) > 0 {
		it, twins := all[0], 1
		for twins < len(all) && all[twins].ID == it.ID {
			twins++
		}
		all = all[twins:]
		if it.ID == "" {
			continue // nobody could name it
		}
		if reason, detail := d.untouchable(it.Container, twins); reason != "" {
			d.keep = append(d.keep, Decision{it.ID, it.SandboxID, reason, detail})
			continue
		}
		it.pod, it.stamp = d.pods[it.Pod.UID], it.began(d.Policy.AgeFrom)
		it.ripen(d.Policy, d.now)
		d.dead = append(d.dead, it)
	}
}

// untouchable says why a container stays whatever the policy says.
func (d *decision) untouchable(c Container, twins int) (Reason, string) {
	switch {
	case d.blocked != "":
		return KeptBlocked, d.blocked
	case twins > 1:
		return KeptBlocked, "listed more than once"
	case c.State < StateCreated || c.State > StateUnknown:
		return KeptBlocked, fmt.Sprintf("is in state %d, which is none", c.State)
	case !c.Pod.valid() || !validName(c.Name):
		return KeptForeign, "does not carry the kubelet's labels"
	case c.State == StateRunning:
		return KeptRunning, "is running"
	}
	return "", ""
}

// ripen says whether a dead container is old enough to be asked for.
func (it *dead) ripen(p Policy, now time.Time) {
	old, oldAt := reaches(it.stamp, p.MinAge, now)
	started, startedAt := true, time.Time{}
	if it.State == StateCreated {
		started, startedAt = reaches(it.Created, p.StartGrace, now)
	}
	switch {
	case !started:
		it.unripe = KeptStarting
		it.detail = fmt.Sprintf("was created %v ago and may be about to start, start grace %v", rounded(it.Created, now), p.StartGrace)
	case !old && it.stamp.IsZero():
		it.unripe = KeptYoung
		it.detail = fmt.Sprintf("nobody knows since when it is dead, minimum age %v", p.MinAge)
	case !old:
		it.unripe = KeptYoung
		it.detail = fmt.Sprintf("is %v old, minimum age %v", rounded(it.stamp, now), p.MinAge)
	default:
		it.ripe = true
		return
	}
	// What may be starting counts from its creation in both: either both times
	// are known or neither is.
	it.ripeAt = latest(oldAt, startedAt)
}

// planContainers writes the steps for containers, in the order in which they
// were chosen, and says why the others stay.
func (d *decision) planContainers() {
	for _, it := range d.chosen {
		if d.now.Before(it.RetryAt) {
			continue
		}
		why := Decision{it.ID, it.SandboxID, it.remove, it.detail}
		if it.State == StateUnknown {
			d.steps = append(d.steps, Step{StopContainer, why})
		}
		d.steps = append(d.steps, Step{RemoveContainer, why})
		it.goes = true
	}
	for _, it := range d.dead {
		if !it.goes {
			reason, detail := d.whyKept(it)
			d.keep = append(d.keep, Decision{it.ID, it.SandboxID, reason, detail})
		}
	}
}

// whyKept is for a dead container without a step.
func (d *decision) whyKept(it *dead) (Reason, string) {
	switch {
	case !it.ripe:
		return it.unripe, it.detail
	case it.remove != "":
		return KeptFailed, retryDetail(it.RetryAt, d.now)
	case !d.PodsKnown:
		return KeptWithinLimits, "is within the limits, and nobody knows which pods are gone"
	}
	return KeptWithinLimits, "is within the limits"
}

// plan is what has been found.
func (d *decision) plan() Plan {
	slices.SortFunc(d.keep, func(a, b Decision) int {
		switch aSandbox, bSandbox := a.ContainerID == "", b.ContainerID == ""; {
		case aSandbox && !bSandbox:
			return 1
		case bSandbox && !aSandbox:
			return -1
		}
		return cmp.Or(strings.Compare(a.ContainerID, b.ContainerID), strings.Compare(a.SandboxID, b.SandboxID))
	})
	return Plan{Steps: d.steps, Keep: d.keep, Next: d.next()}
}

func rounded(t, now time.Time) time.Duration { return age(t, now).Round(time.Second) }

func retryDetail(at, now time.Time) string {
	return fmt.Sprintf("its removal failed, next try in %v", at.Sub(now).Round(time.Second))
}

package container

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decide returns which dead containers and sandboxes of the snapshot to remove, why the
// others are kept, and when to decide again. The rules are documented at judgePods,
// enforceLimits and whySandboxKept.
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
	blocked string          // why nothing may be removed; "" if removals are allowed
	pods    map[string]*pod // by UID: those with containers or sandboxes

	dead      []*dead    // the kubelet's containers that do not run, sorted by ID
	sandboxes []*sandbox // the kubelet's sandboxes that are not ready, sorted by ID
	chosen    []*dead    // those of dead to remove, in this order

	steps []Step
	keep  []Decision
}

// dead is a container of the kubelet's that does not run: it exited, it was created and never
// started, or its state is unknown. A container in state unknown may be running after all, so
// a separate step stops it first.
type dead struct {
	Container
	pod   *pod
	stamp time.Time // what its age counts from; zero if unknown

	// ripe: old enough to be removed. If not: the reason, and when it will be (zero if
	// unknown).
	ripe   bool
	unripe Reason
	ripeAt time.Time

	remove Reason // why it should go; "" if it stays
	detail string
	goes   bool // it has a step
}

// findDead collects the dead containers. For all others it records why they are kept.
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
			continue // no step could name it
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

// untouchable returns why a container is kept regardless of the policy, or "".
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

// ripen sets ripe or, if a dead container is too young, the reason and when it will be ripe.
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
		it.detail = fmt.Sprintf("the time of its end is unknown, minimum age %v", p.MinAge)
	case !old:
		it.unripe = KeptYoung
		it.detail = fmt.Sprintf("is %v old, minimum age %v", rounded(it.stamp, now), p.MinAge)
	default:
		it.ripe = true
		return
	}
	// A container that may be starting counts from its creation in both, so both times are
	// known or neither is.
	it.ripeAt = latest(oldAt, startedAt)
}

// planContainers adds the steps for containers, in the order in which they were chosen, and
// the reasons for which the others are kept.
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

// whyKept returns why a dead container has no step.
func (d *decision) whyKept(it *dead) (Reason, string) {
	switch {
	case !it.ripe:
		return it.unripe, it.detail
	case it.remove != "":
		return KeptFailed, retryDetail(it.RetryAt, d.now)
	case !d.PodsKnown:
		return KeptWithinLimits, "is within the limits, and it is unknown which pods are gone"
	}
	return KeptWithinLimits, "is within the limits"
}

// plan returns the Plan, with Keep in its documented order.
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

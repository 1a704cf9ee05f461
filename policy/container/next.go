package container

import (
	"slices"
	"time"
)

// next returns the earliest time at which something grows old enough to change the steps;
// zero if there is none.
func (d *decision) next() time.Time {
	n := nextChange{now: d.now}
	d.nextContainer(&n)
	d.nextOverLimit(&n)
	d.nextSandbox(&n)
	return n.at
}

// nextChange keeps the earliest of the times passed to consider that are after now.
type nextChange struct {
	now time.Time
	at  time.Time
}

func (n *nextChange) consider(t time.Time) {
	if t.After(n.now) && (n.at.IsZero() || t.Before(n.at)) {
		n.at = t
	}
}

// nextContainer considers when containers are removed regardless of the limits: those of pods
// whose content may be removed now or from goneAt on, and those to be retried. A container
// that is already removed for another reason no longer counts towards the limits once its pod
// is gone, which leaves more room for others.
func (d *decision) nextContainer(n *nextChange) {
	for _, it := range d.dead {
		if it.remove != "" && !it.goes {
			n.consider(it.RetryAt)
		}
		switch {
		case !it.ripe && it.ripeAt.IsZero(): // unknown when
		case it.pod.ended != "":
			n.consider(it.ripeAt)
		case !it.pod.goneAt.IsZero():
			n.consider(latest(it.ripeAt, it.pod.goneAt))
		}
	}
}

// nextOverLimit considers when the containers that are still young will exceed a limit. It
// counts them in the order in which they ripen, so that a container within the limits causes
// no wake-up.
func (d *decision) nextOverLimit(n *nextChange) {
	perPod, most := d.Policy.MaxPerPodContainer, d.Policy.MaxContainers
	ripe, total := make(map[unit]int), 0
	full := func(u unit) bool { return perPod >= 0 && ripe[u] >= perPod }
	add := func(u unit) {
		if !full(u) {
			total++
		}
		ripe[u]++
	}
	var young []*dead
	for _, it := range d.dead {
		switch {
		case it.pod.ended != "":
		case it.ripe:
			add(it.unit())
		case !it.ripeAt.IsZero():
			young = append(young, it)
		}
	}
	slices.SortFunc(young, func(a, b *dead) int { return a.ripeAt.Compare(b.ripeAt) })
	for _, it := range young {
		over := full(it.unit())
		if add(it.unit()); over || most >= 0 && total > most {
			n.consider(it.ripeAt)
			return
		}
	}
}

// nextSandbox considers sandboxes that only time keeps. A sandbox with containers waits for
// its containers.
func (d *decision) nextSandbox(n *nextChange) {
	for _, sb := range d.sandboxes {
		nobodyKnows := !sb.settled && sb.startAt.IsZero()
		if sb.kept == KeptHasContainers || nobodyKnows {
			continue
		}
		free := latest(sb.startAt, sb.RetryAt)
		if sb.pod.ended != "" || !sb.newest {
			n.consider(free)
		}
		if goneAt := sb.pod.goneAt; !goneAt.IsZero() {
			n.consider(latest(free, goneAt))
		}
	}
}

package image

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decide returns which images of the snapshot to remove, why the others are kept, and when to
// decide again. The package documentation has the rules.
func Decide(s Snapshot, now time.Time) Plan {
	d := newDecision(s, now)
	return d.decide()
}

func newDecision(s Snapshot, now time.Time) *decision {
	now = now.Round(0) // wall clock only, like all times in the snapshot
	d := &decision{Snapshot: s, now: now, images: classify(s, now), wording: &ofTheThreshold}
	if problems := s.Policy.Validate(); len(problems) > 0 {
		d.Blocked = "policy: " + joinProblems(problems)
	} else {
		d.need = d.shortfalls()
	}
	return d
}

func (d *decision) decide() Plan {
	if d.Blocked != "" {
		return d.blocked()
	}
	d.mark()
	d.choose()
	return d.plan()
}

// decision is the state of one call of Decide, Ask or Why.
type decision struct {
	Snapshot
	now     time.Time
	images  []*candidate // by ID
	wording *wording     // how the need is named in explanations
	asked   bool         // true for Ask: nothing goes for its age alone
	need    weight       // what has to become available; zero if nothing is to be reclaimed

	stays *marker // reachable from holders and from images that never go

	order  []*candidate // images that may go, in order of removal
	aged   int          // how many of order go by age
	frees  []weight     // what each of order frees after those before it
	chosen int          // how many of order go, except those in spared
	spared map[*candidate]reprieve

	stuck weight // the part of need that order cannot free
	swept bool   // a hold begins or is renewed
}

// wording has the explanations for images that may go but are kept.
type wording struct{ reached, notReached, futile string }

var ofTheThreshold = wording{
	reached:    "the low threshold is reached without it",
	notReached: "removing all unused images would not reach the low threshold",
	futile:     "the low threshold cannot be reached, and it would free ",
}

// shortfalls returns the need in both dimensions.
//
// Bytes and inodes have their own thresholds, and either starts a run. A run frees what is
// needed for the dimensions that reached their high threshold; a dimension between its
// thresholds needs nothing. The kubelet rounds the amount to free down, and can end one
// percent above its low threshold. Here it is rounded up, a difference of one byte at most.
func (d *decision) shortfalls() weight {
	disk, policy := d.Disk, d.Policy
	return weight{
		bytes: shortfall(disk.CapacityBytes, disk.AvailableBytes,
			policy.HighPercent, policy.LowPercent, d.ReclaimingBytes),
		inodes: shortfall(disk.Inodes, disk.InodesAvailable,
			policy.InodesHighPercent, policy.InodesLowPercent, d.ReclaimingInodes),
	}
}

// blocked returns a plan that keeps everything. Nothing was tried, so no hold begins, and an
// existing one stays while there is a need.
func (d *decision) blocked() Plan {
	plan := Plan{NeedBytes: d.need.bytes, NeedInodes: d.need.inodes}
	for _, c := range d.images {
		plan.Keep = append(plan.Keep, Decision{ImageID: c.ID, Reason: KeptBlocked, Detail: d.Blocked})
	}
	if d.Hold != nil && d.need != (weight{}) {
		hold := *d.Hold
		plan.Hold = &hold
	}
	return plan
}

// mark marks everything that stays in any case, and orders the images that may go.
func (d *decision) mark() {
	d.stays = newMarker(d.Graph.Nodes)
	for _, h := range d.Graph.Holders {
		d.stays.reach(h.Nodes)
	}
	for _, c := range d.images {
		if c.keep != "" {
			d.stays.reach(c.Roots)
			continue
		}
		d.order = append(d.order, c)
		if c.aged && !d.asked {
			d.aged++
		}
	}
	d.arrange(func(*candidate) bool { return false })
}

// arrange orders the images that may go: first those that go by age, then the preferred ones,
// then the others, each by last use. It also computes what each frees in that order.
func (d *decision) arrange(preferred func(*candidate) bool) {
	rank := func(c *candidate) int {
		switch {
		case c.aged:
			return 0
		case preferred(c):
			return 1
		}
		return 2
	}
	slices.SortFunc(d.order, func(a, b *candidate) int {
		if r := rank(a) - rank(b); r != 0 {
			return r
		}
		return compareUse(a, b)
	})
	d.frees = attribute(d.stays, d.order)
}

// attribute returns what each image frees when all images before it are gone and all images
// after it are still there.
//
// It marks everything that stays, then adds the images back, last one first. The nodes that
// an image newly reaches are exactly those that its removal frees after all those before it.
// The whole order costs one walk over the graph, and cycles need no special case.
func attribute(stays *marker, order []*candidate) []weight {
	m := stays.clone()
	frees := make([]weight, len(order))
	for i := len(order) - 1; i >= 0; i-- {
		frees[i] = m.reach(order[i].Roots)
	}
	return frees
}

// beside returns what each image of leave frees, in order, while the images of stay remain.
// Usually leave is empty; then it does not go through thousands of images.
func (d *decision) beside(stay, leave []*candidate) []weight {
	if len(leave) == 0 {
		return nil
	}
	stays := d.stays.clone()
	for _, c := range stay {
		stays.reach(c.Roots)
	}
	return attribute(stays, leave)
}

func sum(weights []weight) weight {
	var total weight
	for _, w := range weights {
		total = total.add(w)
	}
	return total
}

// plan returns the choice as a Plan, with a reason for each image.
func (d *decision) plan() Plan {
	plan := Plan{NeedBytes: d.need.bytes, NeedInodes: d.need.inodes}
	var remove, keep []*candidate
	low := fmt.Sprintf("%d %% used, reclaim starts at %d %%", d.Disk.UsedPercent(), d.Policy.HighPercent)
	for i, c := range d.order {
		if _, spared := d.spared[c]; i < d.chosen && !spared {
			remove = append(remove, c)
			continue
		}
		c.keep, c.detail = d.whyKept(c, low)
		keep = append(keep, c)
	}
	for i, w := range d.beside(keep, remove) {
		plan.Remove = append(plan.Remove, d.removal(remove[i], w))
	}
	plan.Keep = slices.Grow(plan.Keep, len(d.images)-len(remove))
	for _, c := range d.images {
		if c.keep != "" {
			plan.Keep = append(plan.Keep, Decision{ImageID: c.ID, Reason: c.keep, Detail: c.detail})
		}
	}
	plan.Next = d.next()
	if d.stuck != (weight{}) {
		plan.Hold = d.hold(remove)
	}
	return plan
}

// whyKept returns why an image that may go is kept. low is the explanation if nothing has to
// go.
func (d *decision) whyKept(c *candidate, low string) (Reason, string) {
	pardon, spared := d.spared[c]
	switch {
	case spared && pardon.nothing:
		return KeptFreesNothing, "its layers are held by what stays"
	case spared && d.stuck != (weight{}):
		return KeptFutile, d.futile(pardon.costs)
	case d.stuck != (weight{}):
		return KeptHold, d.wording.notReached
	case d.need != (weight{}) || d.asked:
		return KeptNotNeeded, d.wording.reached
	}
	return KeptNotNeeded, low
}

// futile returns the explanation for [KeptFutile]: what the image would free of what is
// needed, as FutileShare counts it.
func (d *decision) futile(costs weight) string {
	var parts []string
	needed := d.needed()
	if d.stuck.bytes > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s", humanBytes(costs.bytes), humanBytes(needed.bytes)))
	}
	if d.stuck.inodes > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d inodes", costs.inodes, needed.inodes))
	}
	return d.wording.futile + strings.Join(parts, " and ")
}

func (d *decision) removal(c *candidate, frees weight) Decision {
	reason := RemovedThreshold
	switch {
	case d.asked:
		reason = RemovedAsked
	case c.aged:
		reason = RemovedAge
	}
	unused := "last use unknown"
	if used := c.lastUsed(); !used.IsZero() {
		unused = fmt.Sprintf("unused for %v", age(used, d.now).Round(time.Second))
	}
	return Decision{
		ImageID:     c.ID,
		Reason:      reason,
		Detail:      fmt.Sprintf("%s, frees %s", unused, humanBytes(frees.bytes)),
		FreesBytes:  frees.bytes,
		FreesInodes: frees.inodes,
		FreesLayer:  frees.snapshots > 0,
	}
}

// next returns the earliest time at which an image grows old enough to change the plan; zero
// if there is none. Images in the plan count too: one that reaches MaximumAge goes first from
// then on, and can make another removal unnecessary.
func (d *decision) next() time.Time {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(d.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, c := range d.images {
		if !c.unused {
			continue
		}
		consider(c.agedAt)
		switch {
		case c.keep == KeptFailed:
			consider(c.RetryAt)
		case (c.keep == KeptPodsUnknown || c.keep == KeptYoung) && d.need != (weight{}):
			consider(c.oldAt)
			consider(c.RetryAt)
		}
	}
	return next
}

func joinProblems(problems []FieldError) string {
	words := make([]string, len(problems))
	for i, p := range problems {
		words[i] = p.Error()
	}
	return strings.Join(words, "; ")
}

// humanBytes writes a size the way df -h does.
func humanBytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

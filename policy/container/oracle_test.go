package container

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// oracle decides the same as Decide in the most naive way: one removal after
// the other, and after each it looks at everything again. It keeps no tables,
// and shares no code with Decide except the validation of a policy.
type oracle struct {
	s     Snapshot
	now   time.Time
	gone  []string // containers chosen so far
	share int      // agreed on when the node turned out to have too many; 0 before
}

// verdict is the part of a plan that the oracle answers for.
type verdict struct {
	Steps []string // "remove container c1: pod_gone"
	Kept  map[string]Reason
}

func summarize(p Plan) verdict {
	v := verdict{Kept: make(map[string]Reason)}
	for _, step := range p.Steps {
		v.Steps = append(v.Steps, line(step.Action, cmp.Or(step.ContainerID, step.SandboxID), step.Reason))
	}
	for _, d := range p.Keep {
		v.Kept[cmp.Or(d.ContainerID, d.SandboxID)] = d.Reason
	}
	return v
}

func line(action Action, id string, why Reason) string {
	return action.String() + " " + id + ": " + string(why)
}

func (o *oracle) decide() verdict {
	v := verdict{Kept: make(map[string]Reason)}
	for {
		c, why := o.nextContainer()
		if why == "" {
			break
		}
		o.gone = append(o.gone, c.ID)
		if c.RetryAt.After(o.now) {
			v.Kept[c.ID] = KeptFailed
			continue
		}
		if c.State == StateUnknown {
			v.Steps = append(v.Steps, line(StopContainer, c.ID, why))
		}
		v.Steps = append(v.Steps, line(RemoveContainer, c.ID, why))
	}
	for _, c := range o.s.Containers {
		if _, failed := v.Kept[c.ID]; c.ID != "" && !failed && !o.chosen(c) {
			v.Kept[c.ID] = cmp.Or(o.containerStays(c), KeptWithinLimits)
		}
	}
	o.sandboxes(&v)
	return v
}

func (o *oracle) chosen(c Container) bool {
	for _, id := range o.gone {
		if id == c.ID {
			return true
		}
	}
	return false
}

// nextContainer is the one to go now, and why; none if all may stay.
func (o *oracle) nextContainer() (Container, Reason) {
	if c, ok := o.oldest(func(c Container) bool { return o.noRights(c.Pod.UID) != "" }); ok {
		return c, o.noRights(c.Pod.UID)
	}
	p := o.s.Policy
	if c, ok := o.oldest(func(c Container) bool {
		return p.MaxPerPodContainer >= 0 && o.count(sameUnit(c)) > p.MaxPerPodContainer
	}); ok {
		return c, RemovedPerPod
	}
	if p.MaxContainers < 0 {
		return Container{}, ""
	}
	everything := func(Container) bool { return true }
	tooMany := o.count(everything) > p.MaxContainers
	if o.share == 0 && tooMany {
		o.share = max(p.MaxContainers/o.units(), 1)
	}
	// Once agreed on, the share holds for all, also when fewer would do.
	if c, ok := o.oldest(func(c Container) bool { return o.share > 0 && o.count(sameUnit(c)) > o.share }); ok {
		return c, RemovedTotal
	}
	if tooMany {
		c, _ := o.oldest(everything)
		return c, RemovedTotal
	}
	return Container{}, ""
}

func sameUnit(c Container) func(Container) bool {
	return func(other Container) bool { return other.Pod.UID == c.Pod.UID && other.Name == c.Name }
}

// ripe containers are those left that may be asked for.
func (o *oracle) ripe() (list []Container) {
	for _, c := range o.s.Containers {
		if c.ID != "" && !o.chosen(c) && o.containerStays(c) == "" {
			list = append(list, c)
		}
	}
	return list
}

func (o *oracle) count(which func(Container) bool) (n int) {
	for _, c := range o.ripe() {
		if which(c) {
			n++
		}
	}
	return n
}

func (o *oracle) units() (n int) {
	list := o.ripe()
	for i, c := range list {
		first := true
		for _, other := range list[:i] {
			first = first && !sameUnit(c)(other)
		}
		if first {
			n++
		}
	}
	return n
}

func (o *oracle) oldest(which func(Container) bool) (found Container, ok bool) {
	for _, c := range o.ripe() {
		if which(c) && (!ok || o.older(c, found)) {
			found, ok = c, true
		}
	}
	return found, ok
}

func (o *oracle) older(a, b Container) bool {
	for _, pair := range [][2]time.Time{{o.began(a), o.began(b)}, {a.Created, b.Created}} {
		if x, y := pair[0], pair[1]; !x.Equal(y) {
			return !x.IsZero() && (y.IsZero() || x.Before(y))
		}
	}
	if a.Attempt != b.Attempt {
		return a.Attempt < b.Attempt
	}
	return a.ID < b.ID
}

// began is when a container's age began.
func (o *oracle) began(c Container) time.Time {
	if o.s.Policy.AgeFrom == FromTermination && c.State == StateExited {
		if !c.Finished.IsZero() && c.Finished.Before(c.Created) {
			return c.Created
		}
		return c.Finished
	}
	return c.Created
}

func (o *oracle) since(t time.Time) time.Duration {
	if t.IsZero() || t.After(o.now) {
		return 0
	}
	return o.now.Sub(t)
}

func labelled(p PodID) bool { return isName(p.UID) && isName(p.Namespace) && isName(p.Name) }

var nameRule = regexp.MustCompile(`^[-.:\w]{1,253}$`)

func isName(s string) bool { return nameRule.MatchString(s) && s != "." && s != ".." }

// containerStays is why the limits do not ask about a container.
func (o *oracle) containerStays(c Container) Reason {
	listed := 0
	for _, other := range o.s.Containers {
		if other.ID == c.ID {
			listed++
		}
	}
	switch {
	case len(o.s.Policy.Validate()) > 0, listed > 1, c.State == 0, c.State > StateUnknown:
		return KeptBlocked
	case !labelled(c.Pod) || !isName(c.Name):
		return KeptForeign
	case c.State == StateRunning:
		return KeptRunning
	case c.State == StateCreated && o.since(c.Created) < o.s.Policy.StartGrace:
		return KeptStarting
	case o.since(o.began(c)) < o.s.Policy.MinAge:
		return KeptYoung
	}
	return ""
}

// noRights is why all that is dead of a pod goes; "" if it has its rights.
func (o *oracle) noRights(uid string) Reason {
	if !o.s.PodsKnown {
		return ""
	}
	named, evicted, deleted, ended := false, true, true, true
	for _, p := range o.s.Pods {
		if p.UID == uid {
			named = true
			evicted, deleted, ended = evicted && p.Evicted, deleted && p.Deleting, ended && p.Ended
		}
	}
	switch {
	case !named && (o.s.StaticPodsKnown || !o.mayBeStatic(uid)) && o.firstSeen(uid) >= o.s.Policy.StartGrace:
		return RemovedPodGone
	case !named:
		return ""
	case evicted:
		return RemovedPodEvicted
	case deleted && ended:
		return RemovedPodDeleted
	case ended && o.s.ReclaimEnded:
		return RemovedPodEnded
	}
	return ""
}

func (o *oracle) mayBeStatic(uid string) bool {
	for _, sb := range o.s.Sandboxes {
		if labelled(sb.Pod) && sb.Pod.UID == uid && sb.Static {
			return true
		}
	}
	for _, c := range o.s.Containers {
		listed := false
		for _, sb := range o.s.Sandboxes {
			listed = listed || sb.ID == c.SandboxID
		}
		if labelled(c.Pod) && isName(c.Name) && c.Pod.UID == uid && !listed {
			return true
		}
	}
	return false
}

// firstSeen is the age of the oldest thing of a pod.
func (o *oracle) firstSeen(uid string) (oldest time.Duration) {
	for _, sb := range o.s.Sandboxes {
		if labelled(sb.Pod) && sb.Pod.UID == uid {
			oldest = max(oldest, o.since(sb.Created))
		}
	}
	for _, c := range o.s.Containers {
		if labelled(c.Pod) && isName(c.Name) && c.Pod.UID == uid {
			oldest = max(oldest, o.since(c.Created))
		}
	}
	return oldest
}

func (o *oracle) sandboxes(v *verdict) {
	for {
		var next Sandbox
		for _, sb := range o.s.Sandboxes {
			_, done := v.Kept[sb.ID]
			for _, step := range v.Steps {
				done = done || strings.HasPrefix(step, RemoveSandbox.String()+" "+sb.ID+":")
			}
			if sb.ID != "" && !done && (next.ID == "" || olderSandbox(sb, next)) {
				next = sb
			}
		}
		if next.ID == "" {
			return
		}
		if why := o.sandboxStays(next, *v); why != "" {
			v.Kept[next.ID] = why
			continue
		}
		why := cmp.Or(o.noRights(next.Pod.UID), RemovedSuperseded)
		v.Steps = append(v.Steps, line(StopSandbox, next.ID, why), line(RemoveSandbox, next.ID, why))
	}
}

func (o *oracle) sandboxStays(sb Sandbox, v verdict) Reason {
	listed, newest, containers := 0, true, false
	for _, other := range o.s.Sandboxes {
		if other.ID == sb.ID {
			listed++
		}
		if other.ID != "" && labelled(other.Pod) && other.Pod.UID == sb.Pod.UID && olderSandbox(sb, other) {
			newest = false
		}
	}
	for _, c := range o.s.Containers {
		_, kept := v.Kept[c.ID]
		containers = containers || c.SandboxID == sb.ID && (kept || c.ID == "")
	}
	switch {
	case len(o.s.Policy.Validate()) > 0, listed > 1:
		return KeptBlocked
	case !labelled(sb.Pod):
		return KeptForeign
	case !sb.NotReady:
		return KeptRunning
	case containers:
		return KeptHasContainers
	case o.since(sb.Created) < o.s.Policy.StartGrace:
		return KeptStarting
	case o.noRights(sb.Pod.UID) == "" && newest:
		return KeptNewest
	case sb.RetryAt.After(o.now):
		return KeptFailed
	}
	return ""
}

func olderSandbox(a, b Sandbox) bool {
	if !a.Created.Equal(b.Created) {
		return !a.Created.IsZero() && (b.Created.IsZero() || a.Created.Before(b.Created))
	}
	if a.Attempt != b.Attempt {
		return a.Attempt < b.Attempt
	}
	return a.ID < b.ID
}

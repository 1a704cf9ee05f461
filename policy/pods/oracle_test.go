package pods_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/pods"
)

// oracle decides what is to go, from all that was observed, by looking at all of it each time.
type oracle struct {
	config              pods.Config // with nothing left to defaults
	now                 time.Time
	pods                map[string]*pod // by UID, as they were observed
	nodes               map[string]pods.Node
	podsRead, nodesRead bool
	since, absentAt     map[string]time.Time // of nodes that are lost
	late                map[string]bool      // by UID: Pods seen there since
	latest              map[string]time.Time // by node: the last of them
	left                map[string]time.Time // by node: when it was lost first
	seen                map[string]bool      // by node: it was there while Pods were bound to it
	confirmed           map[string]bool      // by node
	settled             map[string]time.Time // by node: of those that were held with others, and whose Pods are gone
	counted, wasHeld    map[string]bool      // by node: as of the last change
	refused             map[string]string    // by UID: the version that nobody may delete
}

func newOracle(config pods.Config) *oracle {
	return &oracle{config: config, pods: map[string]*pod{}, nodes: map[string]pods.Node{}, since: map[string]time.Time{}, absentAt: map[string]time.Time{}, late: map[string]bool{}, latest: map[string]time.Time{},
		left: map[string]time.Time{}, seen: map[string]bool{}, confirmed: map[string]bool{}, settled: map[string]time.Time{}, refused: map[string]string{}}
}

func over(p *pod) bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

func (o *oracle) selected(p *pod) bool {
	return !slices.Contains(o.config.Excluded, p.Namespace) && (len(o.config.Namespaces) == 0 || slices.Contains(o.config.Namespaces, p.Namespace))
}

// futile: it was deleted by force, and finalizers hold what ended.
func (o *oracle) futile(p *pod) bool {
	return p.Terminating && p.NoGrace && len(p.Finalizers) > 0 && over(p)
}

func (o *oracle) observePod(p pod) {
	old := o.pods[p.UID]
	if old != nil && old.ResourceVersion == p.ResourceVersion {
		return
	}
	if over(&p) && p.Ended.IsZero() {
		p.Ended = o.now
		if old != nil && over(old) {
			p.Ended = old.Ended
		}
	}
	o.pods[p.UID] = &p
	if old == nil || old.Node != p.Node {
		delete(o.late, p.UID)
		if _, lost := o.since[p.Node]; lost {
			o.late[p.UID], o.latest[p.Node] = true, o.now
		}
	}
	o.update()
}

// observeNode notes that one is there. One that comes back is another's.
func (o *oracle) observeNode(name string, n pods.Node) {
	if _, there := o.nodes[name]; !there {
		for uid, p := range o.pods {
			if p.Node == name {
				delete(o.refused, uid)
			}
		}
	}
	o.nodes[name] = n
}

// update which nodes are lost.
func (o *oracle) update() {
	maps.DeleteFunc(o.late, func(uid string, _ bool) bool { return o.pods[uid] == nil })
	lost := map[string]bool{}
	for _, p := range o.pods {
		if _, there := o.nodes[p.Node]; o.nodesRead && p.Node != "" && !there && o.selected(p) && !o.futile(p) {
			lost[p.Node] = true
		}
	}
	for name := range o.since {
		if _, there := o.nodes[name]; !lost[name] {
			if o.nodesRead && !there && o.counted[name] && (o.wasHeld[name] || o.confirmed[name]) {
				o.settled[name] = o.left[name]
			}
			delete(o.since, name)
			delete(o.absentAt, name)
		}
	}
	for name := range o.nodes {
		o.seen[name] = true
		delete(o.settled, name)
	}
	maps.DeleteFunc(o.seen, func(name string, _ bool) bool { return !o.hasPods(name) })
	for name := range o.left {
		if _, there := o.nodes[name]; there || !o.hasPods(name) {
			delete(o.left, name)
			delete(o.confirmed, name)
		}
	}
	for name := range lost {
		if _, already := o.left[name]; !already {
			switch settled, is := o.settled[name]; {
			case is:
				o.left[name] = settled
			case o.seen[name]:
				o.left[name] = o.now
			default: // with all others that nobody saw go
				o.left[name] = time.Unix(0, 0)
			}
		}
		delete(o.settled, name)
		if _, already := o.since[name]; !already {
			o.since[name] = o.now
		}
	}
	o.wasHeld, o.counted = map[string]bool{}, map[string]bool{}
	for name := range lost {
		o.counted[name] = o.counts(name)
		if o.held(name) {
			o.wasHeld[name] = true
		}
	}
	if len(o.wasHeld) == 0 && o.nodesRead {
		clear(o.settled)
	}
}

// counts reports whether a node that is lost counts against others.
func (o *oracle) counts(name string) bool {
	for uid, p := range o.pods {
		if p.Node == name && o.selected(p) && !o.futile(p) && o.refused[uid] != p.ResourceVersion {
			return true
		}
	}
	return false
}

func (o *oracle) cover(name string) {
	maps.DeleteFunc(o.late, func(uid string, _ bool) bool { return o.pods[uid].Node == name })
}

func (o *oracle) hasPods(name string) bool {
	for _, p := range o.pods {
		if p.Node == name {
			return true
		}
	}
	return false
}

// held reports whether a node was lost together with too many others.
func (o *oracle) held(name string) bool {
	all := 1
	for other := range o.since {
		if other != name && o.counts(other) && o.left[name].Sub(o.left[other]).Abs() <= nodes.LostTogether {
			all++
		}
	}
	for _, left := range o.settled {
		if o.left[name].Sub(left).Abs() <= nodes.LostTogether {
			all++
		}
	}
	_, lost := o.since[name]
	return lost && o.counts(name) && !o.confirmed[name] && all > 1 && float64(all-1) >= o.config.MaxShare*float64(len(o.nodes)+all)
}

// group is the Pods that are counted with p under one limit, and that limit.
func (o *oracle) group(p *pod, kind gc.Reason) (with []*pod, keep int) {
	limits := o.config.Succeeded
	if p.Phase == "Failed" {
		limits = o.config.Failed
	}
	keep = map[gc.Reason]int{pods.OverLimit: o.config.Keep, pods.OverNamespaceLimit: limits.PerNamespace, pods.OverOwnerLimit: limits.PerOwner}[kind]
	for _, q := range o.pods {
		same := true
		switch kind {
		case pods.OverNamespaceLimit:
			same = q.Phase == p.Phase && q.Namespace == p.Namespace
		case pods.OverOwnerLimit:
			same = q.Phase == p.Phase && len(p.Owners) > 0 && len(q.Owners) > 0 && q.Owners[0].UID == p.Owners[0].UID
		}
		if same && over(q) && !q.Terminating && o.selected(q) {
			with = append(with, q)
		}
	}
	return with, keep
}

func (o *oracle) overLimit(p *pod, kind gc.Reason) bool {
	with, keep := o.group(p, kind)
	if keep <= 0 || len(with) <= keep {
		return false
	}
	slices.SortFunc(with, func(a, b *pod) int {
		if a.Evicted != b.Evicted {
			return map[bool]int{true: -1, false: 1}[a.Evicted]
		}
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return slices.Contains(with[:len(with)-keep], p)
}

// verdict is why p goes now; empty if it does not.
func (o *oracle) verdict(p *pod) gc.Reason {
	n, there := o.nodes[p.Node]
	_, absent := o.absentAt[p.Node]
	late := o.late[p.UID]
	var why gc.Reason
	switch {
	case !o.selected(p):
		return ""
	case p.Node == "" && p.Terminating:
		why = pods.NeverScheduled
	case p.Node != "" && o.nodesRead && there && n.OutOfService && !n.Ready && p.Terminating:
		why = pods.OutOfService
	case p.Node != "" && o.nodesRead && !there && absent && !late && !o.held(p.Node):
		why = pods.NodeGone
	}
	if why != "" && !o.futile(p) {
		return why
	}
	if p.Terminating || !over(p) {
		return ""
	}
	if o.podsRead {
		for _, kind := range []gc.Reason{pods.OverLimit, pods.OverNamespaceLimit, pods.OverOwnerLimit} {
			if o.overLimit(p, kind) {
				return kind
			}
		}
	}
	after := o.config.Succeeded.After
	if p.Phase == "Failed" {
		after = o.config.Failed.After
	}
	if after > 0 && !p.Ended.Add(after).After(o.now) {
		return pods.TimeUp
	}
	return ""
}

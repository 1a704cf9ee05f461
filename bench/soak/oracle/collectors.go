package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The configuration of the controllers, and what marks objects for it.
const (
	PodsAfter      = 30 * time.Second // pods: succeeded.after
	PodsKept       = 12               // pods: keep
	FailedPerSpace = 2                // pods: failed.perNamespace
	FailedPerOwner = 1                // pods: failed.perOwner
	RequestsAfter  = time.Minute      // csrs: all times, which cannot be shorter
	Quarantine     = 10 * time.Second // of pods, leases and volumes
	ElectionsAfter = time.Minute      // leases: elections.after, which cannot be shorter
	NodesAfter     = 10 * time.Minute // nodes: notReadyFor, which cannot be shorter
	VolumesAfter   = 24 * time.Hour   // volumes: releasedFor, which cannot be shorter

	// PatientSigner is the signer whose requests stay for days, whether pending, issued or refused.
	PatientSigner = "example.com/patient"
	// RetiredLabel is on Nodes that may be deleted. Nodes with NoMachine are in no inventory.
	RetiredLabel, NoMachine = "soak.example.com/retired", "no-machine"
	// OutOfService is the taint of Nodes whose Pods are deleted by force, once they are being deleted.
	OutOfService = "node.kubernetes.io/out-of-service"
	// Driver is the CSI driver that the soak serves.
	Driver = "soak.csi.example.com"
	// ProvisionerFinalizer is on a PersistentVolume until its data is deleted.
	ProvisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

	nodeLeases = "kube-node-lease"
	// early is how much later than a controller the oracle may receive a Node or a Lease.
	early = 3 * time.Second
)

// reason is why a collector may delete an object, and must: from a moment on, while no keeper
// exists. One reason is enough.
type reason struct {
	from    time.Time
	keepers []*Object
}

func (r reason) String() string {
	return fmt.Sprintf("from %s, kept by %v", r.from.Format(time.TimeOnly), r.keepers)
}

// reasons returns the reasons to delete an object. An object that is being deleted has some only if
// a collector must still act.
func (o *Oracle) reasons(x *Object, now time.Time) (all []reason) {
	switch {
	case x.Kind == "Pod":
		return o.podReasons(x, now)
	case x.Terminating && !(x.Kind == "PersistentVolume" && x.has(ProvisionerFinalizer)):
		return nil
	case x.Kind == "Lease" && x.Node != "":
		if len(x.Owners) == 0 && (x.Holder == "" || x.Holder == x.Node) {
			return []reason{o.lost(x.Node, now, "")}
		}
	case x.Kind == "VolumeAttachment", x.Kind == "CSINode":
		if len(x.Owners) == 0 {
			return []reason{o.lost(x.Node, now, "Pod")}
		}
	case x.Due.IsZero():
	case x.Kind == "Node":
		// The Node's Lease is a sign of life, and its volumes keep it.
		return []reason{{x.Due, append(o.signs(x.Name, now, NodesAfter), o.naming("VolumeAttachment", x.Name)...)}}
	case x.Kind == "Lease":
		pod, _, _ := strings.Cut(x.Holder, "_")
		return []reason{{x.Due, o.at(place{kind: "Pod", namespace: x.Namespace, name: pod})}}
	case x.Kind == "PersistentVolume":
		return []reason{{x.Due, o.naming("volume", x.Name)}}
	default:
		return []reason{{from: x.Due}}
	}
	return nil
}

// podReasons returns the reasons that come from a Pod's Node, from its end, and from the number of
// Pods that have ended.
func (o *Oracle) podReasons(x *Object, now time.Time) (all []reason) {
	if x.Node != "" {
		nodes := o.at(place{kind: "Node", name: x.Node})
		all = append(all, reason{o.absent[x.Node].Add(Quarantine - early), nodes})
		if x.Terminating && len(nodes) > 0 && nodes[0].Tainted {
			all = append(all, reason{})
		}
	}
	if x.Terminating {
		return all
	}
	if !x.Due.IsZero() {
		all = append(all, reason{from: x.Due})
	}
	for group, most := range x.groups() {
		all = append(all, o.tooMany(x, group, most, now)...)
	}
	return all
}

// lost returns the reason to delete what a Node has left: the Node was absent for the quarantine,
// and its Lease was expired for as long. Objects of a kind that are bound to the Node are keepers.
func (o *Oracle) lost(node string, now time.Time, kind string) reason {
	keepers := append(o.at(place{kind: "Node", name: node}), o.signs(node, now, Quarantine)...)
	return reason{o.absent[node].Add(Quarantine - early), append(keepers, o.naming(kind, node)...)}
}

// signs returns the Lease of a Node, unless that has been expired and unchanged for the time long.
func (o *Oracle) signs(node string, now time.Time, long time.Duration) (lease []*Object) {
	for _, l := range o.at(place{group: "coordination.k8s.io", kind: "Lease", namespace: nodeLeases, name: node}) {
		if l.Expires.Add(long).After(now) || l.written.Add(long-early).After(now) {
			lease = append(lease, l)
		}
	}
	return lease
}

// at returns the object at a place, in a list.
func (o *Oracle) at(p place) []*Object {
	if x := o.places[p]; x != nil {
		return []*Object{x}
	}
	return nil
}

// naming returns the objects of a kind that name a Node, or the attachments of a volume. See names.
func (o *Oracle) naming(kind, name string) (all []*Object) {
	for _, x := range o.dependents[kind+" "+name] {
		all = append(all, x)
	}
	return all
}

// names returns the names under which Oracle.dependents has an object, besides the UIDs of its
// owners.
func (o *Object) names() (all []string) {
	switch o.Kind {
	case "Pod":
		if o.Node != "" {
			all = append(all, "Pod "+o.Node)
		}
		for group := range o.groups() {
			all = append(all, group)
		}
	case "VolumeAttachment":
		all = append(all, "VolumeAttachment "+o.Node, "volume "+o.Volume)
	}
	return all
}

// groups returns the groups of ended Pods to which a Pod belongs, and how many of each are kept.
func (o *Object) groups() map[string]int {
	if o.Kind != "Pod" || o.Terminating || o.Phase != "Succeeded" && o.Phase != "Failed" {
		return nil
	}
	all := map[string]int{"ended": PodsKept}
	if o.Phase == "Failed" {
		all["failed in "+o.Namespace] = FailedPerSpace
		if len(o.Owners) > 0 {
			all["failed of "+o.Owners[0].UID] = FailedPerOwner
		}
	}
	return all
}

// tooMany returns the reason to delete a Pod of a group of which most are kept: at least that many
// come after it in the order of deletion. A Pod that left the group a moment ago counts as a
// keeper, because a collector may not have seen that.
func (o *Oracle) tooMany(x *Object, group string, most int, now time.Time) (all []reason) {
	var later, left []*Object
	for _, p := range o.dependents[group] {
		if x.before(p) {
			later = append(later, p)
		}
	}
	for _, p := range o.left {
		if p.groups()[group] > 0 && x.before(p) && o.dependents[group][p.Key] == nil && o.unseen(p, p.written, now) {
			left = append(left, p)
		}
	}
	switch {
	case len(later) >= most:
		return []reason{{}}
	case len(later)+len(left) >= most:
		return []reason{{keepers: left}}
	}
	return nil
}

// leave records that a version of an object is replaced, or that the object is gone.
func (o *Oracle) leave(x *Object, at time.Time) {
	if x.written = at; x.groups() != nil {
		o.left[x.UID] = x
	}
	if x.Kind == "Node" {
		o.absent[x.Name] = at // until it is placed again
	}
}

func (o *Oracle) unseen(x *Object, written, now time.Time) bool {
	return o.config.Unseen != nil && o.config.Unseen(x, written, now)
}

// mustGo reports whether a collector must delete an object by now or, if it is a Node, NodesAfter
// from now.
func (o *Oracle) mustGo(x *Object, now time.Time) bool {
	if x.Kind == "Node" {
		now = now.Add(NodesAfter)
	}
	return slices.ContainsFunc(o.reasons(x, now), func(r reason) bool { return !r.from.After(now) && len(r.keepers) == 0 })
}

// mayGo reports whether a collector may delete an object. It is excused if it may not have seen the
// keepers.
func (o *Oracle) mayGo(x *Object, now time.Time) bool {
	return slices.ContainsFunc(o.reasons(x, now), func(r reason) bool {
		if now.Before(r.from) || slices.ContainsFunc(r.keepers, func(k *Object) bool { return k == x || !o.unseen(k, k.written, now) }) {
			return false
		}
		o.counts.Unseen += min(len(r.keepers), 1)
		return true
	})
}

// forced judges the forced deletion of a Pod that was being deleted with a grace period.
func (o *Oracle) forced(rev int64, at time.Time, x *Object) {
	if o.mayGo(x, at) {
		o.collected(x)
	} else if !o.emptied(x) {
		o.violated(Forced, rev, at, x, "its Node "+x.Node+" may be there")
	}
}

func (o *Oracle) collected(x *Object) {
	o.counts.Deletions++
	o.counts.Ended++
	o.counts.Collected[x.Kind]++
}

// Erased reports that the data of a PersistentVolume was deleted within the last ten seconds. The
// volume must be one that may be deleted. If its object has changed since, or a collector has done
// its part, that was judged already.
func (o *Oracle) Erased(at time.Time, volume string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.at(place{kind: "PersistentVolume", name: volume}) {
		if at.Sub(x.written) > 10*time.Second && x.has(ProvisionerFinalizer) && !o.mayGo(x, at) {
			o.violated(DataErased, o.rev, at, x, "it stays")
		}
	}
}

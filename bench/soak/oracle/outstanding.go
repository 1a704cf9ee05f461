package oracle

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// Due is something that the collector has still to do.
type Due struct {
	What string // "delete", "orphan", "finalize", "tidy", "collect" for other garbage, or "empty" for a namespace
	UID  string
	Name string
	// Outside reports whether the object, one of its owners, or an object that it waits for, is in
	// another API server. It is also true of Nodes and volumes to be collected. All of these take
	// minutes: a Node is watched for ten, and a volume that was refused is tried again after some.
	Outside bool
}

// Outstanding returns all that the collector still has to do, sorted by name. It looks at
// everything each time.
func (o *Oracle) Outstanding(now time.Time) (due []Due) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.objects {
		if what := o.outstanding(x, now); what != "" {
			slow := what == "collect" && (x.Kind == "Node" || x.Kind == "PersistentVolume") || o.reachesOutside(x, map[*Object]bool{})
			due = append(due, Due{what, x.UID, x.String(), slow})
		}
	}
	sort.Slice(due, func(i, j int) bool { return due[i].Name < due[j].Name })
	return due
}

// reachesOutside reports whether an object, or one that it waits for, is in another API server or
// has an owner there. seen are the objects that were looked at.
func (o *Oracle) reachesOutside(x *Object, seen map[*Object]bool) bool {
	seen[x] = true
	if x.Outside || slices.ContainsFunc(x.Owners, o.outside) {
		return true
	}
	if !x.waiting() {
		return false
	}
	for _, d := range o.dependents[x.UID] {
		if !seen[d] && o.reachesOutside(d, seen) {
			return true
		}
	}
	return false
}

func (o *Oracle) outside(r Owner) bool {
	return o.config.Outside != nil && o.config.Outside(Kind{r.APIVersion, r.Kind})
}

func (o *Oracle) outstanding(x *Object, now time.Time) string {
	switch {
	case x.Kind == "Namespace" && x.Terminating:
		return "empty"
	case !o.judged(x):
		return ""
	case x.orphaning():
		return "orphan"
	case x.waiting():
		if o.heldLawfully(x, map[*Object]bool{}) {
			return ""
		}
		return "finalize"
	case x.Terminating:
		if (len(x.Finalizers) == 0 || x.has(ProvisionerFinalizer)) && o.mustGo(x, now) {
			return "collect"
		}
		return ""
	case o.emptied(x):
		return ""
	case o.mustGo(x, now):
		return "collect"
	case len(x.Owners) == 0:
		return ""
	}
	count := o.wanted(x)
	stays := count[solid] + count[orphans] + count[unclear] + count[unknown] + count[unresolvable]
	switch {
	case stays == 0 && count[absent]+count[waits] > 0:
		return "delete"
	case count[orphaned] > 0, count[orphans] > 0:
		return "tidy"
	case count[solid] > 0 && count[absent]+count[waits] > 0:
		return "tidy"
	}
	return ""
}

// wanted counts the states of an object's owners, as far as the collector must know them. The
// collector need not know of an owner that is gone and that is named by a version which is not
// served: a collector that was started since can never find out.
func (o *Oracle) wanted(x *Object) (count [unresolvable + 1]int) {
	for _, r := range x.Owners {
		s := o.standing(x, r)
		if s == orphaned && !o.served(r) {
			s = unclear
		}
		count[s]++
	}
	return count
}

// heldLawfully reports whether a dependent that may stay blocks an object's end. A dependent may
// stay if another owner of it is gone in a way that cannot be known. It may stay if it was deleted
// and nothing of the cascade's holds it (a Pod without a kubelet that ends it, a volume). And it
// may stay if it is held lawfully itself. seen are the objects that were looked at.
func (o *Oracle) heldLawfully(x *Object, seen map[*Object]bool) bool {
	seen[x] = true
	for _, d := range o.dependents[x.UID] {
		if seen[d] {
			continue
		}
		stays := d.Terminating && !d.waiting() && !d.orphaning() || !d.Terminating && o.wanted(d)[unclear] > 0 ||
			d.waiting() && o.heldLawfully(d, seen)
		if stays && slices.ContainsFunc(d.Owners, func(r Owner) bool { return r.blocks(d, x) && o.served(r) }) {
			return true
		}
	}
	return false
}

// entry is an entry in an object's history.
type entry struct {
	epoch      int
	rev        int64
	at         time.Time
	what, name string
	owners     []Owner
	finalizers []string
}

func (o *Oracle) remember(x *Object, rev int64, at time.Time, what string) {
	if o.judged(x) || x.Kind == "Namespace" {
		o.histories[x.UID] = append(o.histories[x.UID], entry{o.epoch, rev, at, what, x.String(), x.Owners, x.Finalizers})
	}
}

// Report returns all that happened to the objects of a violation.
func (o *Oracle) Report(v Violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", v, o.History(v.UID))
	for _, uid := range v.others {
		b.WriteString(o.History(uid))
	}
	return b.String()
}

// History returns the history of an object, and whether the object exists.
func (o *Oracle) History(uid string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "history of %s:\n", uid)
	for i, e := range o.histories[uid] {
		if i == 0 {
			fmt.Fprintf(&b, "  %s\n", e.name)
		}
		fmt.Fprintf(&b, "  %s epoch %d revision %d %s", e.at.Format("15:04:05.000"), e.epoch, e.rev, e.what)
		for _, r := range e.owners {
			fmt.Fprintf(&b, " < %s %s %s (%s)", r.APIVersion, r.Kind, r.Name, r.UID)
			if r.Block {
				b.WriteString("!")
			}
		}
		if len(e.finalizers) > 0 {
			fmt.Fprintf(&b, " + %s", strings.Join(e.finalizers, " "))
		}
		b.WriteString("\n")
	}
	if o.uids[uid] != nil {
		b.WriteString("  it is there\n")
	}
	return b.String()
}

package orphans

import (
	"fmt"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Stuck returns the namespaces whose deletion is overdue. The caller must read their
// conditions, which show why and are not in the metadata.
func (l *Inspection) Stuck(now time.Time) (list []gc.Coordinates) {
	if k := l.types[typeName{"v1", "Namespace"}]; k != nil {
		for _, d := range k.deleted {
			if l.overdue(now, d) {
				list = append(list, d.Coordinates)
			}
		}
	}
	return list
}

// overdue reports whether a deletion was requested at least Config.OlderThan ago. An object
// with an unreadable deletionTimestamp is overdue, too.
func (l *Inspection) overdue(now time.Time, d deleted) bool {
	return d.at.IsZero() || now.Sub(d.at) >= l.config.OlderThan
}

// stuck reports objects whose deletion is overdue, and what holds them.
func (l *Inspection) stuck(now time.Time) (list []Finding) {
	for _, k := range l.types {
		for _, d := range k.deleted {
			if !l.overdue(now, d) {
				continue
			}
			for at, f := range d.finalizers {
				list = append(list, l.held(d, at, f))
			}
			switch {
			case k.APIVersion == "v1" && k.Kind == "Namespace":
				list = append(list, l.namespace(d)...)
			case len(d.finalizers) == 0:
				list = append(list, l.unheld(d))
			}
		}
	}
	return list
}

// held returns the finding for one finalizer of an object.
func (l *Inspection) held(d deleted, at int, finalizer string) Finding {
	f := Finding{Object: d.Coordinates, By: finalizer, Since: d.at}
	switch finalizer {
	case gc.ForegroundFinalizer:
		if waits := l.graph.Holding(key(d.Coordinates)); len(waits) > 0 {
			f.Reason, f.By = HeldByDependents, named(waits[0], d.Namespace)
			f.Why = "it waits for dependents that block its deletion"
			if len(waits) > 1 {
				f.Why += fmt.Sprintf(", %d or more objects", len(waits))
			}
			f.Command, f.Looks = get(waits[0]), true
			return f
		}
		fallthrough
	case gc.OrphanFinalizer:
		f.Reason = HeldForCollector
		f.Why = "only a garbage collector may remove this finalizer: is one running? Without the finalizer, a collector that starts later deletes what should be kept"
		if finalizer == gc.ForegroundFinalizer {
			f.Why = "only a garbage collector may remove this finalizer: is one running?"
		}
		f.Command, f.Looks = get(d.Coordinates), true
		return f
	}
	by, gone := l.server(d.Coordinates, finalizer)
	switch {
	case by != "":
		f.Reason, f.Why = HeldByFinalizer, "its controller belongs to "+by+" and has not removed it: is that controller running, and what does it log?"
	case gone:
		f.Reason, f.Why = HeldByUnserved, "no type of this finalizer's domain is served here. If its controller was uninstalled, the command removes the finalizer; what its controller would have cleaned up stays"
		f.Command = removeFinalizer(d.Coordinates, at, finalizer)
		return f
	default:
		f.Reason, f.Why = HeldByUnknown, "the cluster does not show which controller removes this finalizer: find it before you remove the finalizer by hand"
	}
	f.Command, f.Looks = get(d.Coordinates), true
	return f
}

// unheld returns the finding for an object that has no finalizers.
func (l *Inspection) unheld(d deleted) Finding {
	why := "it has no finalizers: the API server that keeps it has not removed it"
	if d.APIVersion == "v1" && d.Kind == "Pod" {
		why = "its kubelet has not reported that it ended: is its Node there, and ready?"
	}
	return Finding{Reason: HeldByNothing, Object: d.Coordinates, Since: d.at, Why: why, Command: get(d.Coordinates), Looks: true}
}

// conditions maps the types of conditions that the namespace controller sets to reasons.
var conditions = map[string]gc.Reason{
	"NamespaceDeletionDiscoveryFailure":           NamespaceDiscovery,
	"NamespaceDeletionGroupVersionParsingFailure": NamespaceVersions,
	"NamespaceDeletionContentFailure":             NamespaceDeletion,
	"NamespaceContentRemaining":                   NamespaceContent,
	"NamespaceFinalizersRemaining":                NamespaceFinalizers,
}

// namespace returns the findings for a namespace, from its conditions.
func (l *Inspection) namespace(d deleted) (list []Finding) {
	n, known := l.namespaces[d.UID]
	f := Finding{Object: d.Coordinates, Since: d.at, By: strings.Join(n.Finalizers, ","), Command: get(d.Coordinates), Looks: true}
	for _, c := range n.Conditions {
		reason := conditions[c.Type]
		if reason == "" || c.Status != "True" {
			continue
		}
		f := f
		f.Reason, f.By, f.Why = reason, c.Reason, c.Message
		for _, s := range l.services {
			if down(s) && (reason == NamespaceDiscovery || reason == NamespaceDeletion) && strings.Contains(c.Message, s.Version) {
				f.By, f.Command, f.Looks = s.Name, unregister(s), false
			}
		}
		list = append(list, f)
	}
	switch {
	case len(list) > 0:
		return list
	case !known || n.Unread != "":
		f.Why = "its conditions could not be read: " + n.Unread
	default:
		f.Why = "the namespace controller has reported nothing about it: does a kube-controller-manager run?"
	}
	f.Reason = NamespaceSilent
	return []Finding{f}
}

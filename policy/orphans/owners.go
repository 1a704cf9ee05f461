package orphans

import (
	"fmt"
	"strings"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// owners reports owner references that cannot be resolved.
func (l *Inspection) owners() (list []Finding) {
	for x := range l.graph.Owned {
		if x.Terminating || !l.wanted(x.Object) {
			continue // stuck reports objects that are being deleted
		}
		for at, o := range x.Owners {
			reason, why := l.judge(x.Object, o)
			if reason == "" {
				continue
			}
			f := Finding{Reason: reason, Object: x.Object, By: named(o.Coordinates, x.Object.Namespace), Why: why}
			switch reason {
			case OwnerUnknown:
				f.Command, f.Looks = get(l.withResource(o.Coordinates)), true
			case OwnerVersionNotServed:
				f.Command = replaceVersion(x.Object, at, o.UID, l.versionOf(o))
			default:
				f.Command = removeReference(x.Object, at, o.UID)
			}
			list = append(list, f)
		}
	}
	return list
}

// judge returns what is wrong with a reference; no reason if nothing is.
func (l *Inspection) judge(dependent gc.Coordinates, o cascade.Explained) (gc.Reason, string) {
	t := l.types[typeName{o.APIVersion, o.Kind}]
	switch o.Judgement {
	case "unresolvable":
		return OwnerNamespaced, "the object has no namespace, so the namespace of its owner is unknown: no collector ever deletes it because of that owner"
	case "dangling":
		return l.gone(dependent, o)
	case "unknown":
		if t == nil {
			return l.unserves(o)
		}
		why := l.unread[key(o.Coordinates)]
		if why == "" {
			why = t.unread
		}
		if why == "" {
			why = "it was not read"
		}
		return OwnerUnknown, "it is not known whether the owner exists: " + why
	}
	if t == nil && l.partial[o.APIVersion] == "" {
		return OwnerVersionNotServed, "the owner exists, but " + o.APIVersion + " is not served any more. ebb treats it as the same owner. " +
			"The kube-controller-manager cannot find it there, and may treat it as gone. The command names the served version"
	}
	return "", ""
}

// versionOf returns the version in which an owner was seen, or that of the reference.
func (l *Inspection) versionOf(o cascade.Explained) string {
	for _, s := range l.graph.Seen(o.UID) {
		if gc.GroupOf(s.APIVersion) == gc.GroupOf(o.APIVersion) && s.Kind == o.Kind && s.Name == o.Name {
			return s.APIVersion
		}
	}
	return o.APIVersion
}

// gone judges a reference whose owner is proven not to be at its coordinates.
func (l *Inspection) gone(dependent gc.Coordinates, o cascade.Explained) (gc.Reason, string) {
	const deletes = "; a running garbage collector deletes or changes it"
	seen := l.graph.Seen(o.UID)
	for _, s := range seen {
		if s.Namespace != dependent.Namespace && s.Namespace != "" && s.Kind == o.Kind && s.Name == o.Name && gc.GroupOf(s.APIVersion) == gc.GroupOf(o.APIVersion) {
			return OwnerElsewhere, "the owner is in namespace " + s.Namespace + ", and owners must be in the same one" + deletes
		}
	}
	if len(seen) > 0 {
		return OwnerIsAnother, "that UID is of " + named(seen[0], "") + deletes
	}
	if other, ok := l.replaced[key(o.Coordinates)]; ok {
		return OwnerReplaced, "the owner of UID " + o.UID + " is gone, and another object has its name, with UID " + other + deletes
	}
	return OwnerAbsent, "there is no such owner" + deletes
}

// unserves judges a reference whose type is not served.
func (l *Inspection) unserves(o cascade.Explained) (gc.Reason, string) {
	if why, ok := l.partial[o.APIVersion]; ok {
		return OwnerUnknown, "it is not known whether the owner exists, nor what " + o.APIVersion + " serves: " + why
	}
	why := "no type " + o.Kind + " of " + o.APIVersion + " is served"
	switch {
	case !l.groups[gc.GroupOf(o.APIVersion)]:
		why = "nothing of the group " + gc.GroupOf(o.APIVersion) + " is served"
	case l.servedOtherwise(o) != "":
		why += ", but one of " + l.servedOtherwise(o)
	}
	if seen := l.graph.Seen(o.UID); len(seen) > 0 {
		why += "; that UID is of " + named(seen[0], "")
	}
	return OwnerTypeNotServed, why + ": no collector can tell whether the owner is gone, so none deletes the object"
}

// servedOtherwise returns another version of the group that has the kind; "" if there is
// none.
func (l *Inspection) servedOtherwise(o cascade.Explained) (first string) {
	for n := range l.types {
		if n.kind == o.Kind && gc.GroupOf(n.apiVersion) == gc.GroupOf(o.APIVersion) && (first == "" || n.apiVersion < first) {
			first = n.apiVersion
		}
	}
	return first
}

// withResource completes coordinates for kubectl.
func (l *Inspection) withResource(o gc.Coordinates) gc.Coordinates {
	if t := l.types[typeName{o.APIVersion, o.Kind}]; t != nil {
		o.Resource = t.Resource
	}
	return o
}

// named returns an object as words for a sentence, with its namespace unless that is beside.
func named(o gc.Coordinates, beside string) string {
	kind := cascade.BaseKind(o.Kind)
	if group := gc.GroupOf(o.APIVersion); group != "" {
		kind = strings.ToLower(kind) + "." + group
	} else {
		kind = strings.ToLower(kind)
	}
	if o.Namespace != "" && o.Namespace != beside {
		return fmt.Sprintf("%s/%s in namespace %s", kind, o.Name, o.Namespace)
	}
	return kind + "/" + o.Name
}

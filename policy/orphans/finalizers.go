package orphans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// maxNames bounds how many finalizers of a type are told apart: whoever makes one up for
// each object must not fill the memory.
const maxNames = 1000

// use is how many objects have a finalizer, and one of them.
type use struct {
	count int
	first gc.Coordinates
	at    int // in its list
}

func (k *kind) uses(finalizers []string, o gc.Coordinates) {
	for at, f := range finalizers {
		u := k.finalizers[f]
		switch {
		case u != nil:
			u.count++
		case len(k.finalizers) < maxNames:
			if k.finalizers == nil {
				k.finalizers = make(map[string]*use)
			}
			k.finalizers[strings.Clone(f)] = &use{1, o, at}
		}
	}
}

// unserved reports the finalizers of objects that nobody deletes yet, by finalizer: the
// day somebody does, they are stuck.
func (l *Inspection) unserved() (list []Finding) {
	all := make(map[string]*use)
	for _, k := range l.types {
		for f, u := range k.finalizers {
			if _, known := l.serves(f); known {
				continue
			}
			was := all[f]
			switch {
			case was == nil:
				copied := *u
				all[f] = &copied
			case before(u.first, was.first):
				all[f] = &use{was.count + u.count, u.first, u.at}
			default:
				was.count += u.count
			}
		}
	}
	for f, u := range all {
		list = append(list, Finding{Reason: FinalizerUnserved, Object: u.first, By: f,
			Why: fmt.Sprintf("%s with this finalizer, and no type that is served here is of its domain: nobody known would take it off. "+
				"Whoever set it may still run; the command is for this object alone", objects(u.count)),
			Command: removeFinalizer(u.first, u.at, f)})
	}
	return list
}

func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

func before(a, b gc.Coordinates) bool {
	x, y := []string{a.APIVersion, a.Kind, a.Namespace, a.Name}, []string{b.APIVersion, b.Kind, b.Namespace, b.Name}
	return slices.Compare(x, y) < 0
}

// own are the finalizers of Kubernetes itself that have no domain.
var own = []string{gc.OrphanFinalizer, gc.ForegroundFinalizer, "kubernetes"}

// serves says who, as far as anybody knows: a group that is served here, of the same
// domain. Kubernetes' own domains are always served. The domain is what stands before the
// slash, and of that the last two labels: a controller's finalizers are rarely called just
// as its types are.
func (l *Inspection) serves(finalizer string) (by string, known bool) {
	if slices.Contains(own, finalizer) {
		return "Kubernetes", true
	}
	name, _, _ := strings.Cut(finalizer, "/")
	domain := domainOf(name)
	if domain == "kubernetes.io" || domain == "k8s.io" {
		return "Kubernetes or one of its projects", true
	}
	if domain == "" {
		return "", false
	}
	for group := range l.groups {
		if domainOf(group) != domain {
			continue
		}
		// The group that is called so, else the first by name.
		switch {
		case strings.EqualFold(group, name):
			return group, true
		case by == "" || group < by:
			by = group
		}
	}
	return by, by != ""
}

// domainOf are the last two labels of a name that has so many; else there is none.
func domainOf(name string) string {
	labels := strings.Split(strings.ToLower(name), ".")
	if len(labels) < 2 || slices.Contains(labels[len(labels)-2:], "") {
		return ""
	}
	return strings.Join(labels[len(labels)-2:], ".")
}

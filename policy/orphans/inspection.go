package orphans

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
)

// moment is the time of all inputs to the graph: time does not advance during an inspection.
var moment = time.Unix(1_000_000_000, 0).UTC()

// Inspection is what was read of a cluster, and the findings from it. It is not safe for
// concurrent use.
type Inspection struct {
	config Config
	graph  *cascade.Collector
	types  map[typeName]*kind
	groups map[string]bool
	// drivers are the CSIDrivers, by attacherName.
	drivers map[string]string
	// partial are the versions of groups whose types are not known, each with the reason.
	partial map[string]string

	questions map[uint64]gc.Coordinates
	replaced  map[gc.Coordinates]string // by an object with this UID
	unread    map[gc.Coordinates]string // why it could not be read

	namespaces map[string]Namespace // being deleted, by UID
	services   []APIService
	webhooks   []Webhook
	releases   map[[2]string][]revision // by namespace and name
	objects    int
}

type typeName struct{ apiVersion, kind string }

// kind is a type and what is kept of its objects beside the graph.
type kind struct {
	gc.Type
	listed  bool
	unread  string // why it is not listed; empty if that was not tried
	objects int
	deleted []deleted
}

// deleted is an object that is being deleted.
type deleted struct {
	gc.Coordinates
	at         time.Time
	finalizers []string
}

// New makes an empty Inspection.
func New(c Config) *Inspection {
	return &Inspection{config: c, graph: cascade.New(cascade.Config{TrustAggregated: true}),
		types: make(map[typeName]*kind), groups: make(map[string]bool), drivers: make(map[string]string), partial: make(map[string]string),
		questions: make(map[uint64]gc.Coordinates), replaced: make(map[gc.Coordinates]string), unread: make(map[gc.Coordinates]string),
		namespaces: make(map[string]Namespace), releases: make(map[[2]string][]revision)}
}

// Types sets the served types, and the versions of groups whose types are not known, each
// with the reason.
func (l *Inspection) Types(types []gc.Type, partial map[string]string) {
	for _, t := range types {
		l.types[typeName{t.APIVersion, t.Kind}] = &kind{Type: t}
		l.groups[gc.GroupOf(t.APIVersion)] = true
		l.graph.TypeCame(moment, t)
	}
	for version, why := range partial {
		l.groups[gc.GroupOf(version)] = true
		l.partial[version] = why
	}
}

// Listing records that the list of a type begins, or starts over.
func (l *Inspection) Listing(t gc.Type) {
	k := l.types[typeName{t.APIVersion, t.Kind}]
	l.objects -= k.objects
	k.objects, k.deleted = 0, nil
	l.graph.Listing(moment, t.APIVersion, t.Kind)
}

// Observe receives an object of a list; at is its deletionTimestamp. Strings are copied.
func (l *Inspection) Observe(o gc.Object, at time.Time) {
	k := l.types[typeName{o.APIVersion, o.Kind}]
	l.objects++
	k.objects++
	l.graph.Observe(moment, o)
	if o.Kind == "CSIDriver" && gc.GroupOf(o.APIVersion) == "storage.k8s.io" {
		l.drivers[strings.Clone(attacherName(o.Name))] = "CSIDriver " + o.Name
	}
	if !o.Terminating || !l.wanted(gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}) {
		return
	}
	where := gc.Coordinates{APIVersion: k.APIVersion, Kind: k.Kind, Resource: k.Resource,
		Namespace: strings.Clone(o.Namespace), Name: strings.Clone(o.Name), UID: strings.Clone(o.UID)}
	finalizers := make([]string, len(o.Finalizers))
	for i, f := range o.Finalizers {
		finalizers[i] = strings.Clone(f)
	}
	k.deleted = append(k.deleted, deleted{where, at, finalizers})
}

// Synced records that the list of a type is complete.
func (l *Inspection) Synced(t gc.Type) {
	l.types[typeName{t.APIVersion, t.Kind}].listed = true
	l.graph.Synced(moment, t.APIVersion, t.Kind)
}

// Unreadable records that a type cannot be listed, or not completely.
func (l *Inspection) Unreadable(t gc.Type, why string) {
	l.types[typeName{t.APIVersion, t.Kind}].unread = why
	l.graph.Unreadable(moment, t.APIVersion, t.Kind)
}

// Objects returns how many objects were observed.
func (l *Inspection) Objects() int { return l.objects }

// Question is an owner that was not seen, to be read live.
type Question struct {
	ID         uint64
	Object     gc.Coordinates
	Namespaced bool
}

// Questions returns what is to be answered next; none if everything is answered.
func (l *Inspection) Questions() (list []Question) {
	for {
		actions := l.graph.Ready(moment, 256)
		for _, a := range actions {
			switch a.Verb {
			case gc.Verify, gc.Read:
				l.questions[a.ID] = key(a.Object)
				list = append(list, Question{a.ID, a.Object, a.Object.Namespace != ""})
			case gc.Warn, gc.Withdraw:
			default:
				l.graph.Finished(moment, a.ID, gc.Withheld) // an inspection takes no action
			}
		}
		if len(list) > 0 || len(actions) == 0 {
			return list
		}
	}
}

// Answer receives the result of a live read; why explains Unknown.
func (l *Inspection) Answer(id uint64, a gc.Answer, why string) {
	o, asked := l.questions[id]
	if !asked {
		return
	}
	delete(l.questions, id)
	switch {
	case a.State == gc.Exists && a.Object.UID != o.UID:
		l.replaced[o] = strings.Clone(a.Object.UID)
	case a.State != gc.Exists && a.State != gc.Absent:
		l.unread[o] = why
	}
	l.graph.Answered(moment, moment, id, a)
}

// Namespace receives the finalizers and conditions of a namespace that is being deleted.
func (l *Inspection) Namespace(uid string, n Namespace) { l.namespaces[uid] = n }

// APIService receives the registration of an API server.
func (l *Inspection) APIService(s APIService) {
	l.services = append(l.services, s)
	l.groups[gc.GroupOf(s.Version)] = true
}

// Webhook receives one entry of a webhook configuration.
func (l *Inspection) Webhook(w Webhook) { l.webhooks = append(l.webhooks, w) }

// Findings returns the findings at a time of the API server's clock: first outages, then
// objects stuck in their deletion, then unresolvable owners, then release histories.
func (l *Inspection) Findings(now time.Time) []Finding {
	var all []Finding
	for _, part := range [][]Finding{l.outages(now), l.stuck(now), l.owners(), l.histories()} {
		slices.SortStableFunc(part, func(a, b Finding) int {
			x, y := &a.Object, &b.Object
			return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.APIVersion, y.APIVersion), strings.Compare(x.Kind, y.Kind),
				strings.Compare(x.Name, y.Name), strings.Compare(x.UID, y.UID), strings.Compare(a.By, b.By))
		})
		all = append(all, part...)
	}
	return all
}

// rank puts namespaces before what is in them.
func rank(f Finding) int {
	if f.Object.Kind == "Namespace" && f.Object.APIVersion == "v1" {
		return 0
	}
	return 1
}

// wanted reports whether Config asks for findings about an object.
func (l *Inspection) wanted(o gc.Coordinates) bool {
	n := l.config.Namespace
	if n == "" || o.Namespace == n {
		return true
	}
	return o.Namespace == "" && o.APIVersion == "v1" && o.Kind == "Namespace" && o.Name == n
}

// key returns coordinates as the keys of maps have them: without the resource.
func key(o gc.Coordinates) gc.Coordinates {
	o.Resource = ""
	return o
}

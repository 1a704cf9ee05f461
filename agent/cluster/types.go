package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/discovery"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// minMissing is how long discovery must lack a type before it may be gone. Two API servers of
	// two versions behind one address answer in turn.
	minMissing = 5 * time.Second
	// minRefused and minRefusals are for a type that is followed, and not read in another version.
	// Its list or watch must also have been answered a bare 404 for that long, and so often in a
	// row. The API server that answers discovery may be older than those that serve the type.
	minRefused  = 30 * time.Second
	minRefusals = 4
	// minUnreadable is how long a type must have been missing if it cannot be read for another
	// reason. Without the right to read it, the answer does not show whether it is served.
	minUnreadable = 10 * time.Minute
)

// States of a type.
const (
	stateListing    = "listing"
	stateSynced     = "synced"
	stateUnreadable = "unreadable"
	stateReferred   = "unwatched" // served, but only read where references name it
)

type typeKey struct{ apiVersion, kind string }

// servedType is a type that the controller knows.
type servedType struct {
	gc.Type
	following    *following          // nil: unwatched
	listeners    []*runningCollector // collectors that watch it
	definesTypes bool                // its objects define types
	state        string
	why          string // why it is unreadable
	since        time.Time
	lastHeard    time.Time // when the last batch came
	skipped      int       // objects since its last list that cannot be followed
	skipLogged   bool
	listedUpTo   uint64    // while it is listed again: the version up to which everything was reported before
	missingSince time.Time // the first discovery in a row that lacked it; zero: none did
	refusedSince time.Time // the first bare 404 in a row that its list or watch was answered; zero: none
	refusals     int       // number of these 404s
}

// typeSet is the set of known types.
type typeSet struct {
	all            map[typeKey]*servedType
	partial        map[string]error // of the last discovery
	askedAt        time.Time        // when the last discovery began
	definitions    *discovery.Definitions
	absences       uint64 // of the API server, as far as followers reported
	memoryReturned bool   // the memory of the first lists was returned to the system
}

// following is one run of listing and watching a type.
type following struct {
	Follower
	stop context.CancelFunc
	over bool
}

func (s *servedType) setState(state, why string, now time.Time) {
	if s.state != state {
		s.since = now
	}
	s.state, s.why = state, why
}

func (s *servedType) key() typeKey { return typeKey{s.APIVersion, s.Kind} }

// name returns the name of a type, as kubectl shows it.
func (s *servedType) name() string { return resourceName(s.Resource, gc.GroupOf(s.APIVersion)) }

func resourceName(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

const (
	crds        = "customresourcedefinitions.apiextensions.k8s.io"
	apiServices = "apiservices.apiregistration.k8s.io"
)

// discovered applies a discovery that began at asked: it adds and removes types.
func (c *Controller) discovered(now, asked time.Time, d metadata.Discovery) {
	if asked.Before(c.types.askedAt) {
		return // a discovery that began later was faster
	}
	c.types.askedAt = asked
	if st := c.server.status.Load(); st.discovery != "" {
		c.log.Info("types can be discovered again", "reason", "discovered")
	}
	c.types.partial = d.Partial
	c.setUncertain(d.Unsure)
	found := c.chooseVersions(d.Types)
	for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
		c.typeAdded(now, found[key])
	}
	var again time.Duration
	for _, key := range slices.SortedFunc(maps.Keys(c.types.all), compareKeys) {
		s := c.types.all[key]
		_, served := found[key]
		if _, unsure := d.Partial[s.APIVersion]; served || unsure {
			s.missingSince = time.Time{}
			continue
		}
		if s.missingSince.IsZero() {
			s.missingSince = asked
		}
		if c.isGone(asked, s) {
			c.typeRemoved(now, s)
		} else if s.following == nil || s.state == stateUnreadable || c.inOtherVersion(s) {
			// The next discovery may show whether it is gone. For other types the end of their
			// watch will.
			again = minMissing
			if asked.Sub(s.missingSince) > 2*minRefused {
				again = discovery.UnversionedInterval
			}
		}
	}
	c.types.definitions.Discovered(asked, again, c.servedNames(d))
	st := *c.server.status.Load()
	st.discovery, st.discovered = "", true
	c.server.status.Store(&st)
	c.publish(now)
}

// isGone reports whether a type that discovery lacks is served by no API server, as far as ebb
// knows. That holds if its definition was deleted. It also holds if discovery has lacked it for a
// while, and nothing follows it, or it is followed in another version, or its own list and watch
// are refused or have failed for long.
func (c *Controller) isGone(asked time.Time, s *servedType) bool {
	long := asked.Sub(s.missingSince) >= minMissing
	switch {
	case c.types.definitions.DeletedBefore(s.name(), asked):
		return true
	case s.following == nil, c.inOtherVersion(s):
		return long
	}
	return long && s.refusals >= minRefusals && asked.Sub(s.refusedSince) >= minRefused ||
		s.state == stateUnreadable && asked.Sub(s.missingSince) >= minUnreadable && asked.Sub(s.since) >= minUnreadable
}

// inOtherVersion reports whether a resource is read in another version.
func (c *Controller) inOtherVersion(s *servedType) bool {
	for _, o := range c.types.all {
		if o != s && o.state == stateSynced && o.Resource == s.Resource && o.Kind == s.Kind && gc.GroupOf(o.APIVersion) == gc.GroupOf(s.APIVersion) {
			return true
		}
	}
	return false
}

// servedNames returns the names of the CRDs and APIServices of served types; nil if no definition
// waits for discovery.
func (c *Controller) servedNames(d metadata.Discovery) map[string]bool {
	if !c.types.definitions.Pending() {
		return nil
	}
	names := make(map[string]bool, 2*len(d.Types))
	for _, t := range d.Types {
		names[resourceName(t.Resource, gc.GroupOf(t.APIVersion))] = true
		names[discovery.APIServiceOf(t.APIVersion)] = true
	}
	for groupVersion := range d.Partial {
		names[discovery.APIServiceOf(groupVersion)] = true // whether its types are served is not known
	}
	return names
}

func compareKeys(a, b typeKey) int {
	return strings.Compare(a.apiVersion+" "+a.kind, b.apiVersion+" "+b.kind)
}

// chooseVersions returns discovered types by key. A resource stays in the version in which it is
// followed, as long as that is served: the order of versions may change from answer to answer.
func (c *Controller) chooseVersions(types []gc.Type) map[typeKey]gc.Type {
	found := make(map[typeKey]gc.Type, len(types))
	excluded := config.Patterns(c.gate.Settings().Exclude.Types)
	for _, t := range types {
		if g := gc.GroupOf(t.APIVersion); t.Resource == "events" && (g == "" || g == "events.k8s.io") {
			continue // as the kube-controller-manager does
		}
		t.Excluded = excluded.Match(t.Resource, gc.GroupOf(t.APIVersion))
		found[typeKey{t.APIVersion, t.Kind}] = t
	}
	for key, s := range c.types.all {
		t, ok := found[key]
		if s.following == nil || !ok || t.Resource != s.Resource || !t.Unwatched {
			continue
		}
		for other, o := range found {
			if o.Resource == t.Resource && o.Kind == t.Kind && gc.GroupOf(o.APIVersion) == gc.GroupOf(t.APIVersion) && !o.Unwatched {
				o.Unwatched = true
				found[other] = o
				t.Unwatched = false
				found[key] = t
				break
			}
		}
	}
	return found
}

// typeAdded adds a type to the graph, and follows it. A type whose identity has changed is removed
// and added again.
func (c *Controller) typeAdded(now time.Time, t gc.Type) {
	s := c.types.all[typeKey{t.APIVersion, t.Kind}]
	if s != nil && (s.Resource != t.Resource || s.Namespaced != t.Namespaced || s.Unwatched != t.Unwatched || s.Aggregated != t.Aggregated) {
		c.typeRemoved(now, s)
		s = nil
	}
	if s != nil {
		if s.Type != t {
			s.Type = t
			c.owners.TypeCame(now, t)
		}
		return
	}
	s = &servedType{Type: t, state: stateReferred, since: now}
	s.definesTypes = s.name() == crds || s.name() == apiServices
	s.listeners = c.listeners(s.key())
	c.types.all[s.key()] = s
	c.owners.TypeCame(now, t)
	c.log.Debug("type discovered", "type", s.name(), "apiVersion", t.APIVersion, "watched", !t.Unwatched)
	if c.wanted(s) {
		c.follow(s)
	}
}

// wanted reports whether any collector watches the objects of a type.
func (c *Controller) wanted(s *servedType) bool {
	return !s.Unwatched && (c.owners.on || len(s.listeners) > 0)
}

// typeRemoved stops following a type, and forgets it. Its objects stay in the graph and are left
// alone.
func (c *Controller) typeRemoved(now time.Time, s *servedType) {
	c.log.Info("type is no longer served", "type", s.name(), "apiVersion", s.APIVersion, "reason", "not served any more")
	s.unfollow()
	s.notify(c.serverTime(now), &metadata.Event{Kind: metadata.Unreadable})
	delete(c.types.all, s.key())
	c.owners.TypeWent(now, s.APIVersion, s.Kind)
}

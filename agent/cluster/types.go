package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// goneAfter is how long a type must be missing before it is taken to be gone:
	// two API servers of two versions behind one address answer in turn.
	goneAfter = 5 * time.Second
	// discoveryGap is the least time between two discoveries.
	discoveryGap = 400 * time.Millisecond
	// discoveryRetry bounds the pause after one that failed.
	discoveryRetryMin, discoveryRetryMax = 250 * time.Millisecond, 10 * time.Second
)

// looks are when types are discovered after something told that they changed: what
// is served lags behind what was written, for some seconds.
var looks = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, time.Second, 2500 * time.Millisecond, 6 * time.Second}

// States of a type.
const (
	stateListing    = "listing"
	stateSynced     = "synced"
	stateUnreadable = "unreadable"
	stateReferred   = "unwatched" // served, but only read where references name it
)

type typeKey struct{ apiVersion, kind string }

// served is a type that the collector was told of.
type served struct {
	cascade.Type
	following *following // nil: unwatched
	tells     bool       // its objects are types themselves
	state     string
	why       string // it is unreadable
	since     time.Time
	heard     time.Time // the last batch
	told      uint64    // while it is listed again: the version up to which all was told before
	missing   time.Time // the first discovery in a row that lacked it; zero: none did
}

// following is one go at listing and watching a type.
type following struct {
	Follower
	stop context.CancelFunc
	over bool
}

func (s *served) become(state, why string, now time.Time) {
	if s.state != state {
		s.since = now
	}
	s.state, s.why = state, why
}

func (s *served) key() typeKey { return typeKey{s.APIVersion, s.Kind} }

// name of a type, as kubectl has it.
func (s *served) name() string { return resourceName(s.Resource, groupOf(s.APIVersion)) }

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

// poke has the scout look soon.
func (c *Controller) poke() {
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

// scout asks which types there are: at the start, when something told that they
// changed, and now and then.
func (c *Controller) scout(ctx context.Context) {
	plan := []time.Duration{0}
	pause := discoveryRetryMin
	var last time.Time
	for {
		wait := time.Duration(float64(c.discoveryInterval) * (0.9 + rand.Float64()/5))
		if len(plan) > 0 {
			wait = plan[0]
		}
		if !last.IsZero() {
			wait = max(wait, discoveryGap-time.Since(last))
		}
		if c.awaitPoke(ctx, wait) {
			plan = looks
			continue
		}
		if ctx.Err() != nil {
			return
		}
		plan = plan[min(1, len(plan)):]
		last = time.Now()
		again, err := c.discover(ctx)
		switch {
		case err != nil:
			plan, pause = []time.Duration{pause}, min(2*pause, discoveryRetryMax)
		case again && len(plan) == 0:
			plan, pause = []time.Duration{goneAfter}, discoveryRetryMin
		default:
			pause = discoveryRetryMin
		}
	}
}

// awaitPoke waits; true says that it was poked before the time was over.
func (c *Controller) awaitPoke(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	if d <= looks[0] {
		select { // what is due is not put off by one more who asks for it
		case <-ctx.Done():
		case <-timer.C:
		}
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.poked:
		return true
	case <-timer.C:
		return false
	}
}

var errNoTypes = errors.New("the API server names no types at all")

// discover asks once, and has the loop take the answer. again says that some type
// is missing for a time that is too short to tell.
func (c *Controller) discover(ctx context.Context) (again bool, err error) {
	asked := time.Now()
	d, err := c.api.Discover(ctx)
	if err == nil && len(d.Types) == 0 {
		err = errNoTypes // kubernetes issue 60037: nothing is gone because of that
	}
	if err != nil {
		c.metrics.discoveries.WithLabelValues("failed").Inc()
		_ = c.enter(ctx, func(now time.Time) { c.discoveryFailed(now, err) })
		return false, fmt.Errorf("discover types: %w", err)
	}
	c.metrics.discoveries.WithLabelValues("done").Inc()
	err = c.enter(ctx, func(now time.Time) { again = c.discovered(now, asked, d) })
	return again, err
}

func (c *Controller) discoveryFailed(now time.Time, err error) {
	st := *c.status.Load()
	if st.discovery == "" {
		c.log.Warn("types cannot be discovered; those that are known go on", "reason", err.Error())
	}
	st.discovery = err.Error()
	c.status.Store(&st)
	c.publish(now)
}

// discovered compares what is served with what the collector was told.
func (c *Controller) discovered(now, asked time.Time, d metadata.Discovery) (again bool) {
	if asked.Before(c.askedAt) {
		return false // one that was asked for later came earlier
	}
	c.askedAt = asked
	if st := c.status.Load(); st.discovery != "" {
		c.log.Info("types can be discovered again", "reason", "discovered")
	}
	c.partial = d.Partial
	found := c.chooseVersions(d.Types)
	for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
		c.came(now, found[key])
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.types), compareKeys) {
		s := c.types[key]
		if _, ok := found[key]; ok {
			s.missing = time.Time{}
			continue
		}
		if _, unsure := d.Partial[s.APIVersion]; unsure {
			continue
		}
		crd, wentBefore := c.crdGone[s.name()]
		switch {
		case wentBefore && crd.Before(asked), !s.missing.IsZero() && asked.Sub(s.missing) >= goneAfter:
			c.went(now, s)
		case s.missing.IsZero():
			s.missing, again = asked, true
		default:
			again = true
		}
	}
	for name, at := range c.crdGone {
		if now.Sub(at) > time.Minute {
			delete(c.crdGone, name)
		}
	}
	st := *c.status.Load()
	st.discovery, st.discovered = "", true
	c.status.Store(&st)
	c.publish(now)
	return again
}

func compareKeys(a, b typeKey) int {
	return strings.Compare(a.apiVersion+" "+a.kind, b.apiVersion+" "+b.kind)
}

// chooseVersions keeps a resource in the version in which it is followed, as long
// as that is served: the order of versions may change from answer to answer.
func (c *Controller) chooseVersions(types []cascade.Type) map[typeKey]cascade.Type {
	found := make(map[typeKey]cascade.Type, len(types))
	excluded := config.Patterns(c.door.settings().Exclude.Types)
	for _, t := range types {
		if g := groupOf(t.APIVersion); t.Resource == "events" && (g == "" || g == "events.k8s.io") {
			continue // as the kube-controller-manager does
		}
		t.Excluded = excluded.Match(t.Resource, groupOf(t.APIVersion))
		found[typeKey{t.APIVersion, t.Kind}] = t
	}
	for key, s := range c.types {
		t, ok := found[key]
		if s.following == nil || !ok || t.Resource != s.Resource || !t.Unwatched {
			continue
		}
		for other, o := range found {
			if o.Resource == t.Resource && o.Kind == t.Kind && groupOf(o.APIVersion) == groupOf(t.APIVersion) && !o.Unwatched {
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

// came tells the collector of a type, and follows it. One that has changed in
// what matters comes anew.
func (c *Controller) came(now time.Time, t cascade.Type) {
	s := c.types[typeKey{t.APIVersion, t.Kind}]
	if s != nil && (s.Resource != t.Resource || s.Namespaced != t.Namespaced || s.Unwatched != t.Unwatched) {
		c.went(now, s)
		s = nil
	}
	if s != nil {
		if s.Type != t {
			s.Type = t
			c.collector.TypeCame(now, t)
		}
		return
	}
	s = &served{Type: t, state: stateReferred, since: now}
	s.tells = s.name() == crds || s.name() == apiServices
	c.types[s.key()] = s
	delete(c.crdGone, s.name())
	c.collector.TypeCame(now, t)
	c.log.Debug("type came", "type", s.name(), "apiVersion", t.APIVersion, "watched", !t.Unwatched)
	if !t.Unwatched {
		c.follow(s)
	}
}

// went ends a type. Its objects stay in the graph and are left alone.
func (c *Controller) went(now time.Time, s *served) {
	c.log.Info("type went", "type", s.name(), "apiVersion", s.APIVersion, "reason", "not served any more")
	s.unfollow()
	delete(c.types, s.key())
	c.collector.TypeWent(now, s.APIVersion, s.Kind)
	c.kickBarrier() // it may have waited for that
}

// crdWent remembers that a definition was deleted: then one discovery is enough.
func (c *Controller) crdWent(now time.Time, s *served, name string) {
	if s.name() == crds && len(c.crdGone) < 1024 {
		c.crdGone[strings.Clone(name)] = now
	}
	c.poke()
}

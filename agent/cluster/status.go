package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
)

// status is what is known without asking the loop.
type status struct {
	discovered bool   // once, at least
	discovery  string // why it fails at present; "" if it does not
	uncertain  string // why nobody says which types other API servers serve; "" if somebody does
	problems   []string
}

// maxNamed bounds the names in one line of text.
const maxNamed = 10

// publish publishes the states of types, after one of them changed.
func (c *Controller) publish(now time.Time) {
	counts := map[string]int{stateListing: 0, stateSynced: 0, stateUnreadable: 0, stateReferred: 0}
	var listing []string
	for _, s := range c.types.all {
		counts[s.state]++
		if s.state == stateListing {
			listing = append(listing, s.name())
		}
	}
	for state, n := range counts {
		c.metrics.types.WithLabelValues(state).Set(float64(n))
	}
	st := *c.server.status.Load()
	st.problems = nil
	switch {
	case !st.discovered:
		st.problems = append(st.problems, "types are not known yet: "+st.discovery)
	case len(listing) > 0:
		st.problems = append(st.problems, fmt.Sprintf("%d types are being listed: %s", len(listing), firstNames(listing)))
	}
	c.server.status.Store(&st)
	if len(st.problems) == 0 && !c.types.memoryReturned {
		c.types.memoryReturned = true
		// The lists took more than what is kept of them.
		c.lifetime.group.Go(debug.FreeOSMemory)
	}
}

// unreadableTypes names some of those that cannot be read.
func (c *Controller) unreadableTypes() string {
	var names []string
	for _, s := range c.types.all {
		if s.state == stateUnreadable {
			names = append(names, s.name())
		}
	}
	return firstNames(names)
}

// firstNames are some of many names, in order.
func firstNames(names []string) string {
	slices.Sort(names)
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// TypeStatus is how a type stands.
type TypeStatus struct {
	Type       string    `json:"type"` // as kubectl has it
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	State      string    `json:"state"` // listing, synced, unreadable or unwatched
	Why        string    `json:"why,omitempty"`
	Since      time.Time `json:"since"`
	Heard      time.Time `json:"heard"`   // when the API server last sent anything for it; bookmarks come every minute
	Objects    int       `json:"objects"` // tracked, with owners that were never seen
	Namespaced bool      `json:"namespaced"`
	Aggregated bool      `json:"aggregated,omitempty"`
	Skipped    int       `json:"skipped,omitempty"`        // objects that cannot be followed: without a UID, for instance
	Unproven   int       `json:"unproven,omitempty"`       // owners that seem to be gone, and are not believed to be yet
	Alone      int       `json:"withoutWitness,omitempty"` // of those: nothing else of the type can be read
	Excluded   bool      `json:"excluded,omitempty"`
}

// Types is how all types stand, by name.
func (c *Controller) Types(ctx context.Context) (list []TypeStatus, err error) {
	err = c.loop.query(ctx, func(time.Time) { list = c.typesNow() })
	slices.SortFunc(list, func(a, b TypeStatus) int {
		return strings.Compare(a.Type+" "+a.APIVersion, b.Type+" "+b.APIVersion)
	})
	return list, err
}

func (c *Controller) typesNow() (list []TypeStatus) {
	for _, s := range c.types.all {
		unproven, alone := c.owners.Unproven(s.APIVersion, s.Kind)
		list = append(list, TypeStatus{
			Type: s.name(), APIVersion: s.APIVersion, Kind: s.Kind, State: s.state, Why: s.why, Since: s.since, Heard: s.lastHeard,
			Objects:    c.owners.Objects(s.APIVersion, s.Kind),
			Namespaced: s.Namespaced, Aggregated: s.Aggregated, Excluded: s.Excluded,
			Skipped: s.skipped, Unproven: unproven, Alone: alone,
		})
	}
	return list
}

// objectsByType sums up, with no more than gate.MaxTypes names.
func objectsByType(types []TypeStatus) map[string]int {
	slices.SortStableFunc(types, func(a, b TypeStatus) int { return b.Objects - a.Objects })
	sums := make(map[string]int)
	for _, t := range types {
		name := t.Type
		if _, known := sums[name]; !known && len(sums) >= gate.MaxTypes {
			name = gate.OtherTypes
		}
		sums[name] += t.Objects
	}
	return sums
}

// Configure takes what can change while the controller runs: mode, pause, circuit breaker,
// exclusions, what orphaning does not wait for, and the concurrency. What was
// withheld is decided anew.
func (c *Controller) Configure(ctx context.Context, next config.Config) error {
	if off := next.ModeOf(gc.Owners) == config.Off; off == c.owners.on {
		return errors.New("collectors.owners.mode: a change to or from off needs a restart; the new configuration was rejected")
	}
	c.gate.Configure(next) // at once
	err := c.loop.query(ctx, func(now time.Time) { c.apply(now, next) })
	if errors.Is(err, errIdle) {
		return nil // Run begins with it
	}
	return err
}

// apply what the loop has to do with a configuration.
func (c *Controller) apply(now time.Time, next config.Config) {
	c.requests.limit.Resize(next.Concurrency.Max)
	for _, s := range c.types.all {
		t := s.Type
		if t.Excluded = config.Patterns(next.Exclude.Types).Match(t.Resource, gc.GroupOf(t.APIVersion)); t != s.Type {
			s.Type = t
			c.owners.TypeCame(now, t)
		}
	}
	c.owners.ExcludeNamespaces(now, next.Exclude.Namespaces)
	c.owners.Release(now)
	c.configureCollectors(now, next)
	c.journal.Notify() // it may have to be taken over
}

// Explain says why an object is still there. Without a UID, it is looked up.
func (c *Controller) Explain(ctx context.Context, o gc.Coordinates) (x Explanation, err error) {
	if o.UID == "" {
		if err := c.lookUp(ctx, &o); err != nil {
			return x, err
		}
	}
	err = c.loop.query(ctx, func(time.Time) {
		x = explained(c.owners.Explain(o))
		for _, a := range c.collectors.all {
			if f, known := a.Explain(o); known {
				made := found(a.name, f)
				if c.gate.Awaits(a.name) {
					made.Held = "etcd was restored; a person confirms that by ebb control confirm-restore"
				}
				x.Collectors = append(x.Collectors, made)
			}
		}
	})
	return x, err
}

// lookUp completes coordinates from the live object.
func (c *Controller) lookUp(ctx context.Context, o *gc.Coordinates) error {
	var t gc.Type
	known := false
	if err := c.loop.query(ctx, func(time.Time) {
		if s := c.types.all[typeKey{o.APIVersion, o.Kind}]; s != nil {
			t, known = s.Type, true
		}
	}); err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("%s %s is not a type that is served", o.APIVersion, o.Kind)
	}
	o.Resource = t.Resource
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	answer, err := c.api.Read(ctx, *o, t.Namespaced)
	if err != nil {
		return err
	}
	if answer.State != gc.Exists {
		return fmt.Errorf("%s %s/%s is not there", o.Kind, o.Namespace, o.Name)
	}
	o.UID = strings.Clone(answer.Object.UID)
	return nil
}

// Decisions are the last ones, the latest first.
func (c *Controller) Decisions() []gate.Decision { return c.gate.Decisions() }

// Pause has nothing sent from now on, and waits a moment for what is on its way;
// left is what has no answer by then.
func (c *Controller) Pause(ctx context.Context) (left int) { return c.gate.Pause(ctx) }

// Resume ends a pause and closes the circuit breaker. still says why nothing is sent
// nevertheless.
func (c *Controller) Resume(ctx context.Context) (still string) {
	still = c.gate.Resume()
	// Any query wakes the loop, which then checks the gate. A loop that does not
	// answer in time checks it later.
	_ = c.loop.query(ctx, func(time.Time) {})
	return still
}

// ConfirmRestore has the collectors go on that wait since etcd was restored. was says
// whether they did.
func (c *Controller) ConfirmRestore(ctx context.Context) (was bool) {
	was = c.gate.ConfirmRestore()
	_ = c.loop.query(ctx, func(time.Time) {})
	return was
}

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

// status is what can be answered without asking the loop.
type status struct {
	discovered bool   // types were, at least once
	discovery  string // why discovery fails at present; "" if it does not
	uncertain  string // why APIServices cannot be listed; "" if they can
	problem    string // why types are not all known; "" if they are
}

// maxNamed bounds the names in one line of text.
const maxNamed = 10

// publish updates metrics and status after the state of a type has changed.
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
	st.problem = ""
	switch {
	case !st.discovered:
		st.problem = "types are not known yet: " + st.discovery
	case len(listing) > 0:
		st.problem = fmt.Sprintf("%d types are being listed: %s", len(listing), firstNames(listing))
	}
	c.server.status.Store(&st)
	if st.problem == "" && !c.types.memoryReturned {
		c.types.memoryReturned = true
		// The first lists took more memory than what is kept of them.
		c.lifetime.group.Go(debug.FreeOSMemory)
	}
}

// unreadableTypes joins the names of the types that cannot be read: see firstNames.
func (c *Controller) unreadableTypes() string {
	var names []string
	for _, s := range c.types.all {
		if s.state == stateUnreadable {
			names = append(names, s.name())
		}
	}
	return firstNames(names)
}

// firstNames joins the first maxNamed names, in order, and adds how many more there are.
func firstNames(names []string) string {
	slices.Sort(names)
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// TypeStatus is the state of a type.
type TypeStatus struct {
	Type       string    `json:"type"` // as kubectl shows it
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	State      string    `json:"state"` // listing, synced, unreadable or unwatched
	Why        string    `json:"why,omitempty"`
	Since      time.Time `json:"since"`
	Heard      time.Time `json:"heard"`   // last message of the API server; bookmarks come every minute
	Objects    int       `json:"objects"` // tracked, including owners that were never seen
	Namespaced bool      `json:"namespaced"`
	Aggregated bool      `json:"aggregated,omitempty"`
	Skipped    int       `json:"skipped,omitempty"`        // cannot be followed, e.g. without a UID
	Unproven   int       `json:"unproven,omitempty"`       // owners that seem to be gone, without proof yet
	Alone      int       `json:"withoutWitness,omitempty"` // of those: no other object is readable
	Excluded   bool      `json:"excluded,omitempty"`
}

// Types returns the states of all types, by name.
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

// objectsByType returns the numbers of objects by type, with no more than gate.MaxTypes names.
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

// Configure applies what can change while the controller runs: mode, pause, circuit breaker,
// exclusions, the types that orphaning does not wait for, the concurrency and the other collectors.
// Withheld actions are decided again. It returns an error if the mode of owners changes to or from
// off.
func (c *Controller) Configure(ctx context.Context, next config.Config) error {
	if off := next.ModeOf(gc.Owners) == config.Off; off == c.owners.on {
		return errors.New("collectors.owners.mode: a change to or from off needs a restart; the new configuration was rejected")
	}
	c.gate.Configure(next) // at once
	if !c.loop.leads.Load() {
		return nil // Run begins with this configuration
	}
	// However long the loop takes, as the gate has the configuration already. But the next one, which
	// may pause, must not wait for that.
	applied := make(chan struct{})
	go func() {
		_ = c.loop.do(context.WithoutCancel(ctx), func(now time.Time) { c.apply(now, c.gate.Settings()) }) // ends with the loop
		close(applied)
	}()
	select {
	case <-applied:
	case <-ctx.Done():
	case <-time.After(answerWait):
		c.log.Warn("the configuration is applied once the controller is less busy; mode, pause and limits are in force", "reason", "busy")
	}
	return nil
}

// apply applies a configuration to what the loop owns.
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
	c.journal.Notify() // the journal may have to be taken over
}

// Explain returns why an object is still there. If o has no UID, the live object is read for it.
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

// Decisions returns the last decisions, the latest first.
func (c *Controller) Decisions() []gate.Decision { return c.gate.Decisions() }

// Pause admits nothing from now on, and waits up to 5 s for requests in flight; left is how many
// have no answer by then.
func (c *Controller) Pause(ctx context.Context) (left int) { return c.gate.Pause(ctx) }

// Resume ends a pause and closes the circuit breaker. still is why nothing is sent nevertheless, or
// "".
func (c *Controller) Resume(ctx context.Context) (still string) {
	still = c.gate.Resume()
	// Any query wakes the loop, which then checks the gate. A loop that does not
	// answer in time checks it later.
	_ = c.loop.query(ctx, func(time.Time) {})
	return still
}

// ConfirmRestore lets the collectors continue that wait since etcd was restored. was reports
// whether there was something to confirm.
func (c *Controller) ConfirmRestore(ctx context.Context) (was bool) {
	was = c.gate.ConfirmRestore()
	_ = c.loop.query(ctx, func(time.Time) {})
	return was
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/cascade"
	foresight "github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

const (
	// maxPreviewed bounds the part of the graph that is copied for one preview. The copy holds the
	// loop for some 3 µs an object. The copy and what is computed on it take some 2 KiB an object.
	maxPreviewed = 20_000
	previewWait  = 30 * time.Second
)

// Errors of Preview, beside those of agent/preview and runtime/kube/naming.
var (
	errBusy = errors.New("another preview is being computed")
	errOff  = errors.New("collectors.owners.mode is off, so the controller watches no owners: ask the API server instead (ebb cascade without --controller)")
	errMany = fmt.Errorf("more than %d objects bear on it: ask the API server instead (ebb cascade without --controller)", maxPreviewed)
)

// Preview returns what a deletion would do, from what the controller watches. One preview is
// computed at a time. The loop only copies the objects that matter to it.
func (c *Controller) Preview(ctx context.Context, q preview.Query) (preview.Answer, error) {
	if !c.loop.leads.Load() {
		return preview.Answer{}, errIdle
	}
	ctx, cancel := context.WithTimeout(ctx, previewWait)
	defer cancel()
	select {
	case c.server.previews <- struct{}{}:
		defer func() { <-c.server.previews }()
	case <-ctx.Done():
		return preview.Answer{}, errBusy
	}
	names, err := c.api.Names(ctx)
	if err != nil {
		c.log.Debug("cannot discover the names of types", "error", err) // plurals and kinds still work
	}
	var v graphView
	if err := c.loop.query(ctx, func(now time.Time) { err = v.copyFrom(c, now, q, names) }); err != nil {
		return preview.Answer{}, err
	}
	if err != nil {
		return preview.Answer{}, err
	}
	p, lacks, err := preview.Decide(ctx, c.api, v.world, q.At(v.target), q)
	if err != nil {
		return preview.Answer{}, q.Failed(v.target, err)
	}
	preview.NameFinalizers(ctx, c.api, &p)
	if err := c.recount(ctx, p.Notes); err != nil {
		return preview.Answer{}, err
	}
	a := v.answer
	a.Preview, a.NotSeen = p, append(a.NotSeen, lacks...)
	a.Finish()
	return a, nil
}

// graphView is a copy of what matters to a preview: later changes of the graph do not change it.
type graphView struct {
	target gc.Type
	world  foresight.World
	answer preview.Answer
}

func (v *graphView) copyFrom(c *Controller, now time.Time, q preview.Query, names []naming.Resource) (err error) {
	if !c.owners.on {
		return errOff
	}
	settings := c.gate.Settings()
	v.answer = preview.Answer{Source: preview.FromController, Controller: c.gatePreview(now, settings)}
	v.answer.Excluded = &preview.Excluded{Types: settings.Exclude.Types, Namespaces: settings.Exclude.Namespaces}
	v.world = foresight.World{ExcludedNamespaces: settings.Exclude.Namespaces, Known: make(map[gc.Coordinates]gc.Answer)}
	v.types(c, settings)
	if v.target, err = preview.Choose(q.Resource, names, v.served(c)); err != nil {
		return err
	}
	if s := c.types.all[typeKey{v.target.APIVersion, v.target.Kind}]; s.state != stateSynced {
		return q.Failed(v.target, fmt.Errorf("%w: it is %s %s", preview.ErrNotRead, s.state, s.why))
	}
	part, err := c.owners.Part(q.At(v.target), maxPreviewed)
	if errors.Is(err, cascade.ErrTooMany) {
		err = errMany
	}
	if err != nil {
		return q.Failed(v.target, err)
	}
	v.world.Objects = part.Objects
	for _, o := range part.Absent {
		v.world.Known[o] = gc.Answer{State: gc.Absent}
	}
	v.world.Orphaned = part.Orphaned
	return nil
}

// served returns the types that a name may refer to, sorted. Unreadable types are among them.
func (v *graphView) served(c *Controller) (list []gc.Type) {
	for _, s := range c.types.all {
		list = append(list, s.Type)
	}
	slices.SortFunc(list, func(a, b gc.Type) int {
		return compareKeys(typeKey{a.APIVersion, a.Kind}, typeKey{b.APIVersion, b.Kind})
	})
	return list
}

// types adds which types are known, how old that is, and which cannot be seen.
func (v *graphView) types(c *Controller, settings config.Config) {
	a := &v.answer
	for _, s := range c.types.all {
		t := s.Type
		t.Unwatched = s.state != stateSynced
		v.world.Types = append(v.world.Types, t)
		if s.state == stateReferred {
			continue
		}
		w := preview.Watched{Type: s.name(), APIVersion: s.APIVersion, State: s.state, Since: s.since, Heard: s.lastHeard,
			Objects: c.owners.Objects(s.APIVersion, s.Kind), Excluded: s.Excluded}
		a.Controller.Watched = append(a.Controller.Watched, w)
		if s.state == stateSynced {
			a.Types++
			a.Objects += w.Objects
			continue
		}
		why := s.why
		if why == "" {
			why = "it is being listed"
		}
		v.addNotSeen(s.name(), why)
	}
	for groupVersion, why := range c.types.partial {
		v.addNotSeen(groupVersion, why.Error())
	}
	if !c.server.status.Load().discovered {
		v.addNotSeen("types", "they are not known yet")
	}
	slices.SortFunc(a.Controller.Watched, func(a, b preview.Watched) int {
		return strings.Compare(a.Type+" "+a.APIVersion, b.Type+" "+b.APIVersion)
	})
	a.Controller.OrphaningHeld = truncate(c.journal.Problem())
}

// addNotSeen adds a type, or a group version, that cannot be seen.
func (v *graphView) addNotSeen(name, why string) {
	v.answer.NotSeen = append(v.answer.NotSeen, preview.NotSeen{Type: name, Why: truncate(why)})
}

// recount sets the counts in notes: of everything in a namespace, or of a custom type. It counts in
// the whole graph, because the copy does not have all of it.
func (c *Controller) recount(ctx context.Context, notes []foresight.Note) error {
	if len(notes) == 0 {
		return nil
	}
	var namespaces map[string]int
	var types map[gc.Type]int
	if err := c.loop.query(ctx, func(time.Time) { namespaces, types = c.owners.Census() }); err != nil {
		return err
	}
	for i := range notes {
		n := &notes[i]
		if n.Object.Kind == "Namespace" {
			n.Content = namespaces[n.Object.Name]
			continue
		}
		n.Content = 0
		for t, count := range types {
			if resourceName(t.Resource, gc.GroupOf(t.APIVersion)) == n.Object.Name {
				n.Content += count
			}
		}
	}
	return nil
}

func (c *Controller) servePreview(w http.ResponseWriter, r *http.Request) {
	q, err := preview.ParseQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := c.Preview(r.Context(), q)
	code := 0
	for _, known := range []struct {
		err  error
		code int
	}{
		{preview.ErrNotFound, http.StatusNotFound}, {naming.ErrUnknown, http.StatusNotFound}, {naming.ErrAmbiguous, http.StatusBadRequest},
		{foresight.ErrPending, http.StatusConflict}, {errOff, http.StatusConflict}, {errMany, http.StatusRequestEntityTooLarge},
	} {
		if errors.Is(err, known.err) {
			code = known.code
		}
	}
	if code != 0 {
		http.Error(w, err.Error(), code)
		return
	}
	c.replyJSON(w, a, err)
}

// gatePreview returns what the gate would allow now.
func (c *Controller) gatePreview(now time.Time, settings config.Config) *preview.Controller {
	s := &preview.Controller{Mode: string(settings.ModeOf(gc.Owners)), Halted: strings.Join(c.gate.Halts(), ", ")}
	if left, limited := c.gate.Left(now); limited {
		s.BreakerAllows = &left
	}
	if e := settings.Envelope; e.Burst > 0 {
		s.Envelope = &preview.Envelope{Burst: e.Burst, PerMinute: e.PerMinute}
	}
	return s
}

func truncate(s string) string {
	const most = 300
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

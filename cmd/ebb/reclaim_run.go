package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

const (
	// nodesAtOnce is on how many nodes images are removed at the same time.
	nodesAtOnce = 5
	// mostPlans is how many plans onOne tries before it gives up, because each has changed by the
	// time it is sent.
	mostPlans = 10
)

// choose returns the nodes where images would be removed, those where most is freed first. With
// --max-nodes it returns only so many. An agent that observes or is paused would refuse: its node is
// left out, and its plan with it. Of the other nodes, r.rest gets those whose outcome counts.
func (r *reclaimer) choose(results []desk.Result[page.Plan]) (chosen []candidate, left int) {
	for _, n := range results {
		rest := show.Run{Node: n.Agent.Node, Result: "left out"}
		switch p := n.Value; {
		case n.Err != nil:
			rest.Result, rest.Err = "no answer", n.Err
		case len(p.Remove) == 0 && p.Hold == nil:
			continue
		case len(p.Remove) == 0:
			rest.Result = "short"
		case p.Mode != "" && p.Mode != string(config.ModeEnforce):
			rest.Err = fmt.Errorf("its agent runs in mode %s, which removes nothing", p.Mode)
		case p.Paused != nil:
			rest.Err = fmt.Errorf("its agent is paused %s", show.Paused(p.Time, *p.Paused))
		default:
			chosen = append(chosen, candidate{n.Agent, p})
			continue
		}
		if rest.Result == "left out" {
			r.say("%s is left out: %s.\n", show.Clean(rest.Node), show.Clean(rest.Err.Error()))
			left++
		}
		if r.most == 0 || n.Err != nil { // without --max-nodes, each of these nodes was asked for
			r.rest = append(r.rest, rest)
		}
	}
	slices.SortStableFunc(chosen, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.plan.Frees.Bytes, a.plan.Frees.Bytes), cmp.Compare(b.plan.Frees.Inodes, a.plan.Frees.Inodes))
	})
	if r.most > 0 {
		chosen = chosen[:min(len(chosen), r.most)]
	}
	return chosen, left
}

// onOne carries out a plan. If the plan has changed, it shows the new one and asks again; with
// --yes it fails.
func (r *reclaimer) onOne(ctx context.Context, c candidate) error {
	r.say("\n")
	for range mostPlans {
		run, other := r.run(ctx, c, func(run *show.Run, e page.ReclaimEvent) {
			if line := run.Progress(e, false); line != "" {
				r.say("%s\n", line)
			}
		})
		if other == nil {
			return r.ended([]show.Run{run})
		}
		unchanged := other.Digest == c.plan.Digest
		if c.plan = *other; unchanged {
			continue
		}
		r.say("\nThe plan is another one now; nothing was removed.\n\n")
		if err := r.showPlans([]candidate{c}, nil); err != nil {
			return err
		}
		if r.yes {
			return errors.New("the plan has changed, and --yes was for the one before: nothing was removed; ask again")
		}
		if len(c.plan.Remove) == 0 {
			return outcome(c.plan.Hold != nil, false)
		}
		if agreed, err := r.agreed(ctx, []candidate{c}); err != nil || !agreed {
			return err
		}
	}
	return errors.New("the plan changes all the time: nothing was removed")
}

// onMany carries out plans on several nodes. After the first failure it begins with no other node.
func (r *reclaimer) onMany(ctx context.Context, chosen []candidate) error {
	r.say("\n")
	runs := make([]show.Run, len(chosen))
	var failed atomic.Bool
	var output sync.Mutex
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	for i, c := range chosen {
		group.Go(func() error {
			if failed.Load() || ctx.Err() != nil {
				runs[i] = show.Run{Node: c.agent.Node, Result: "not begun"}
				return nil
			}
			run, other := r.run(ctx, c, func(run *show.Run, e page.ReclaimEvent) {
				output.Lock()
				defer output.Unlock()
				if line := run.Progress(e, true); line != "" {
					r.say("%s\n", line)
				}
			})
			if other != nil { // this node is left out, the others go on
				run.Result, run.Err = "not begun", errors.New("its plan is another one now")
			} else if run.Err != nil || run.Failed > 0 {
				failed.Store(true)
			}
			runs[i] = run
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
	return r.ended(runs)
}

// run lets an agent carry out a plan. If the plan has changed, nothing is removed, and other is the
// plan as it is now. Otherwise other is nil.
func (r *reclaimer) run(ctx context.Context, c candidate, progress func(*show.Run, page.ReclaimEvent)) (run show.Run, other *page.Plan) {
	run = show.Run{Node: c.agent.Node, Of: len(c.plan.Remove)}
	client := c.agent.Client(ctx)
	defer client.Close()
	resp, err := client.Do(ctx, http.MethodPost, "/reclaim", page.ReclaimRequest{PlanRequest: r.request, Digest: c.plan.Digest})
	if err != nil {
		var refused *desk.Refused
		run.Result, run.Err = "unknown", err // the agent may have received the request
		if errors.As(err, &refused) {
			run.Result = "not begun"
			other = planIn(refused)
		}
		return run, other
	}
	defer resp.Body.Close()
	for e, err := range show.Events(resp.Body) {
		if err != nil {
			run.Result, run.Err = "unknown", err
			break
		}
		run.Note(e)
		progress(&run, e)
	}
	return run, nil
}

// planIn returns the current plan from a refusal; nil: the refusal has none.
func planIn(refused *desk.Refused) *page.Plan {
	var e page.Error
	if refused.Code != http.StatusConflict || json.Unmarshal(refused.Body, &e) != nil {
		return nil
	}
	return e.Plan
}

// ended writes the outcomes of all runs and of r.rest, and returns that of the command.
func (r *reclaimer) ended(runs []show.Run) error {
	runs = append(append([]show.Run{}, runs...), r.rest...) // in JSON no runs are []
	for i := range runs {
		if runs[i].Err != nil {
			runs[i].Error = runs[i].Err.Error()
		}
	}
	var err error
	if r.output == "json" {
		err = show.WriteJSON(r.out, map[string]any{"format": show.Format, "nodes": runs})
	} else {
		r.say("\n")
		err = show.Ended(r.out, viewOf(r.out), runs)
	}
	if err != nil {
		return err
	}
	return outcomeOf(runs)
}

// outcomeOf returns the outcome of the command. An error takes precedence over an unknown outcome or
// a missing answer, and that over a run that did not free enough.
func outcomeOf(runs []show.Run) error {
	refused, unknown, short := false, false, false
	for _, run := range runs {
		switch {
		case run.Result == "unknown" || run.Result == "no answer":
			unknown = true
		case run.Err != nil || run.Failed > 0:
			refused = true
		case run.Result != "done":
			short = true
		}
	}
	switch {
	case refused:
		return exitCode(exitError)
	case unknown:
		return exitIncomplete
	}
	return outcome(short, false)
}

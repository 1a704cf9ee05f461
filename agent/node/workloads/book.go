package workloads

import (
	"context"
	"errors"
	"slices"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/podlogs"
)

// stepEntry returns the history entry for a step.
func stepEntry(kind, id, name string, pod container.PodID, s container.Step) page.HistoryEntry {
	e := page.HistoryEntry{Kind: kind, ID: id, Rule: string(s.Reason), Reason: string(s.Reason), Detail: s.Detail}
	if text := podText(pod); text != "" {
		e.Names = []string{text}
		if name != "" {
			e.Names[0] += "/" + name
		}
	}
	return e
}

// begin appends a removal to the history before it is done. A step that only stops something has no
// entry.
func (e *executor) begin(ctx context.Context, entry page.HistoryEntry, s container.Step) *history.Attempt {
	if !s.Action.Removes() {
		return nil
	}
	attempt := e.history.Begin(entry)[0]
	e.history.Durable(ctx, attempt)
	return attempt
}

// book records in the history how a step ended; attempt is nil if the step removes nothing. why is
// the reason if the step was not done.
func (e *executor) book(ctx context.Context, attempt *history.Attempt, entry page.HistoryEntry, why string, err error) {
	switch {
	case ctx.Err() != nil:
		attempt.Unknown("the agent stopped during the removal")
	case errors.Is(err, inventory.ErrUnavailable):
		attempt.Unknown(err.Error())
	case err != nil && attempt == nil:
		entry.Outcome, entry.Reason, entry.Error = page.OutcomeFailed, "removal failed", err.Error()
		e.history.Refused(entry)
	case err != nil:
		attempt.Failed(err)
	case why != "" && attempt == nil:
		entry.Reason = why
		e.history.Refused(entry)
	case why != "":
		attempt.Stays(why)
	default:
		attempt.Removed(nil)
	}
}

// logEntries returns the history entries for logs that are about to be removed.
func logEntries(kind string, logs []container.LogDecision) []page.HistoryEntry {
	list := make([]page.HistoryEntry, len(logs))
	for n, l := range logs {
		list[n] = page.HistoryEntry{Kind: kind, ID: l.Entry, Rule: string(l.Reason), Reason: string(l.Reason), Detail: l.Detail}
		if text := podText(l.Pod); text != "" {
			list[n].Names = []string{text}
		}
	}
	return list
}

// cancel drops the entries of removals that are not tried after all.
func cancel(attempts []*history.Attempt) {
	for _, a := range attempts {
		a.Cancel()
	}
}

// bookListed gives the history what was listed, to settle removals with an unknown outcome.
func (w *Workloads) bookListed(here inventory.Workloads) {
	w.gate.History.Listed(func(id string) bool {
		return slices.ContainsFunc(here.Containers, func(c container.Container) bool { return c.ID == id })
	}, page.KindContainer)
	w.gate.History.Listed(func(id string) bool {
		return slices.ContainsFunc(here.Sandboxes, func(s container.Sandbox) bool { return s.ID == id })
	}, page.KindSandbox)
}

func (w *Workloads) bookListedLogs(directories []podlogs.Directory, links []podlogs.Link) {
	w.gate.History.Listed(func(entry string) bool {
		return slices.ContainsFunc(directories, func(d podlogs.Directory) bool { return d.Entry == entry })
	}, page.KindLogDirectory)
	w.gate.History.Listed(func(entry string) bool {
		return slices.ContainsFunc(links, func(l podlogs.Link) bool { return l.Entry == entry })
	}, page.KindLogLink)
}

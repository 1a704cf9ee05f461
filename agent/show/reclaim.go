package show

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// longestEvent bounds one line of a run's events, in bytes.
const longestEvent = 1 << 20

// ErrCut is the error of [Events] if the events end before the run has ended.
var ErrCut = errors.New("the connection ended before the run did")

// Events reads the events of a run, one JSON object a line. The last item is an event with a
// result, or an error that wraps ErrCut.
func Events(r io.Reader) iter.Seq2[page.ReclaimEvent, error] {
	return func(yield func(page.ReclaimEvent, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, longestEvent)
		for lines.Scan() {
			if len(lines.Bytes()) == 0 {
				continue
			}
			var e page.ReclaimEvent
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				err = fmt.Errorf("%w: the last line is not an event: %s", ErrCut, Clean(err.Error()))
				yield(page.ReclaimEvent{}, err)
				return
			}
			if !yield(e, nil) || e.Result != "" {
				return
			}
		}
		err := ErrCut
		if cause := lines.Err(); cause != nil {
			err = fmt.Errorf("%w: %s", ErrCut, Clean(cause.Error()))
		}
		yield(page.ReclaimEvent{}, err)
	}
}

// Run is the progress of a run on one node.
type Run struct {
	Node    string `json:"node"`
	Removed int    `json:"removed"`
	Of      int    `json:"of"`
	Failed  int    `json:"failed"`
	Freed   uint64 `json:"freedBytes"`
	Result  string `json:"result"`           // of the agent; or "unknown" (see Err), "not begun", "left out" or "no answer"
	Reason  string `json:"reason,omitempty"` // why it ended so, if the agent reports that
	Err     error  `json:"-"`
	Error   string `json:"error,omitempty"`

	step int
}

// Note applies an event to the progress.
func (r *Run) Note(e page.ReclaimEvent) {
	r.Removed, r.Of = e.Removed, e.Of
	switch e.Event {
	case "failed":
		r.Failed++
	case "removed":
		r.Freed += e.FreedBytes
	case "ended":
		r.Freed, r.Result, r.Reason = e.FreedBytes, e.Result, e.Reason
	}
	if e.Event != "begun" && e.Event != "ended" {
		r.step = min(r.step+1, r.Of) // an image that stays can be reported twice
	}
}

// Progress returns a line for an event that Note has applied, or "" if the event needs none.
// several means that more than one node is at work: then the line begins with the node.
func (r *Run) Progress(e page.ReclaimEvent, several bool) string {
	head := fmt.Sprintf("%d/%d  ", r.step, r.Of)
	if several {
		head = Clean(r.Node) + "  " + head
	}
	head += Clean(imageName(e.ID, e.References)) + "  "
	switch e.Event {
	case "removed":
		return head + "removed, " + size(e.FreedBytes) + " freed"
	case "kept":
		return head + "stays: " + Clean(e.Reason)
	case "failed":
		return head + "not removed: " + Clean(e.Reason)
	}
	return ""
}

// results describe the results of a run.
var results = map[string]string{
	"done":       "done",
	"short":      "everything that the plan showed and that may be removed is gone, and it is not enough",
	"paused":     "the agent was paused during the run",
	"capped":     "the cap on removals (images.maxRemovalsPerHour) is reached",
	"incomplete": "not all of it was done",
	"unknown":    "the outcome of the rest is unknown",
	"not begun":  "not begun",
	"left out":   "left out",
	"no answer":  "no answer, and nothing was begun",
}

// Ended shows the outcomes of runs.
func Ended(w io.Writer, v View, runs []Run) error {
	t := &text{View: v}
	removed, freed, ended := 0, uint64(0), 0
	for _, r := range runs {
		removed, freed = removed+r.Removed, freed+r.Freed
		ended += count(r.Result == "done")
		outcome := cmp.Or(results[r.Result], Clean(r.Result))
		if r.Of > 0 && r.Result != "not begun" {
			outcome += fmt.Sprintf("; %d of %s removed, %s freed", r.Removed, plural(r.Of, "image"), size(r.Freed))
		}
		if r.Failed > 0 {
			outcome += fmt.Sprintf(", %d failed", r.Failed)
		}
		if r.Reason != "" {
			outcome += ": " + Clean(r.Reason)
		}
		if r.Err != nil {
			outcome += ": " + Clean(r.Err.Error())
		}
		if r.Result == "unknown" {
			outcome += fmt.Sprintf(". See: ebb history --node %s", Clean(r.Node))
		}
		t.hang(Clean(r.Node)+": ", outcome+".")
	}
	if len(runs) > 1 {
		t.line("%d of %s done: %s removed, %s freed.", ended, plural(len(runs), "node"), plural(removed, "image"), size(freed))
	}
	_, err := io.WriteString(w, t.String())
	return err
}

package show

import (
	"fmt"
	"io"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Pauses shows which nodes are paused.
func Pauses(w io.Writer, v View, nodes []Node[page.Pause]) error {
	return changed(w, v, nodes, "paused", func(p page.Pause) string {
		return "paused " + Paused(p.Since, p) + notSaved(p.NotSaved)
	})
}

// Resumes shows which nodes are no longer paused.
func Resumes(w io.Writer, v View, nodes []Node[page.Resume]) error {
	return changed(w, v, nodes, "not paused", func(r page.Resume) string {
		if r.WasPaused {
			return "resumed" + notSaved(r.NotSaved)
		}
		return "was not paused"
	})
}

func notSaved(why string) string {
	if why == "" {
		return ""
	}
	return "; a restart of the agent would not know of it: " + Clean(why)
}

func changed[P any](w io.Writer, v View, nodes []Node[P], state string, describe func(P) string) error {
	t := &text{View: v}
	for _, n := range answered(nodes) {
		t.hang(Clean(n.Name)+"  ", describe(n.Page))
	}
	silent(t, nodes)
	if len(nodes) > 1 {
		t.WriteByte('\n')
		s := fmt.Sprintf("%s %s", plural(len(answered(nodes)), "node"), state)
		if n := Silent(nodes); n > 0 {
			s += fmt.Sprintf("; unknown on %s", plural(n, "node"))
		}
		t.line("%s.", s)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// LongestPause is how long a pause may last.
const LongestPause = 30 * 24 * time.Hour

// PauseSeconds converts the length of a pause to whole seconds, as an agent takes it. The length
// must be between 1 s and LongestPause.
func PauseSeconds(d time.Duration) (int64, error) {
	if d < time.Second || d > LongestPause {
		return 0, fmt.Errorf("%s: want 1s to %dh", d, int(LongestPause.Hours()))
	}
	return int64(d / time.Second), nil
}

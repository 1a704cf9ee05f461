package cluster

import (
	"fmt"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// skip notes an object of another API server that cannot be followed. It is said once,
// until a list of the type had none.
func (c *Controller) skip(s *served, e *metadata.Event) {
	s.skipped++
	c.metrics.skipped.Inc()
	if !s.skipSaid {
		s.skipSaid = true
		c.log.Warn("an object cannot be followed; the others of its type are", "type", s.name(),
			"namespace", e.Object.Namespace, "name", e.Object.Name, "reason", fmt.Sprint(e.Err))
	}
}

// sure notes whether somebody says which types other API servers serve.
func (c *Controller) sure(unsure error) {
	st := *c.status.Load()
	was := st.unsure
	if st.unsure = ""; unsure != nil {
		st.unsure = unsure.Error()
	}
	switch {
	case was == "" && unsure != nil:
		c.log.Warn("nobody says which types other API servers serve; those of which it was not known are treated as if", "reason", st.unsure)
	case was != "" && unsure == nil:
		c.log.Info("it is known again which types other API servers serve", "reason", "listed")
	}
	c.status.Store(&st)
}

// doubts in words, for people.
func (t *TypeStatus) doubts() (text string) {
	if t.Aggregated {
		text = ", of another API server"
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", t.Skipped)
	}
	if t.Unproven > 0 {
		text += fmt.Sprintf(", %d owners seem to be gone", t.Unproven)
	}
	if t.Alone > 0 {
		text += fmt.Sprintf(", %d of them without a witness", t.Alone)
	}
	return text
}

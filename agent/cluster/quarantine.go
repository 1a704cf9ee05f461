package cluster

import (
	"fmt"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// skipObject notes an object of another API server that cannot be followed. It is logged
// once, until a list of the type has none.
func (c *Controller) skipObject(s *servedType, e *metadata.Event) {
	s.skipped++
	c.metrics.skipped.Inc()
	if !s.skipLogged {
		s.skipLogged = true
		c.log.Warn("an object cannot be followed; the others of its type are", "type", s.name(),
			"namespace", e.Object.Namespace, "name", e.Object.Name, "reason", fmt.Sprint(e.Err))
	}
}

// setUncertain notes whether it is known which types other API servers serve.
func (c *Controller) setUncertain(unsure error) {
	st := *c.server.status.Load()
	was := st.uncertain
	if st.uncertain = ""; unsure != nil {
		st.uncertain = unsure.Error()
	}
	switch {
	case was == "" && unsure != nil:
		c.log.Warn("nobody says which types other API servers serve; those of which it was not known are treated as if", "reason", st.uncertain)
	case was != "" && unsure == nil:
		c.log.Info("it is known again which types other API servers serve", "reason", "listed")
	}
	c.server.status.Store(&st)
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

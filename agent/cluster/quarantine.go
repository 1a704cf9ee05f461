package cluster

import (
	"fmt"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// skipObject counts an object of an aggregated API server that cannot be followed. It is logged
// once, until a list of the type has none.
func (c *Controller) skipObject(s *servedType, e *metadata.Event) {
	s.skipped++
	c.metrics.skipped.Inc()
	if !s.skipLogged {
		s.skipLogged = true
		c.log.Warn("skipping an object that cannot be read; the others of its type are watched", "type", s.name(),
			"namespace", e.Object.Namespace, "name", e.Object.Name, "reason", fmt.Sprint(e.Err))
	}
}

// setUncertain notes whether it is known which types aggregated API servers serve.
func (c *Controller) setUncertain(unsure error) {
	st := *c.server.status.Load()
	was := st.uncertain
	if st.uncertain = ""; unsure != nil {
		st.uncertain = unsure.Error()
	}
	switch {
	case was == "" && unsure != nil:
		c.log.Warn("cannot list APIServices: types not known to be built in are treated as aggregated", "reason", st.uncertain)
	case was != "" && unsure == nil:
		c.log.Info("APIServices can be listed again", "reason", "listed")
	}
	c.server.status.Store(&st)
}

// doubts describes what is uncertain about a type, for people.
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

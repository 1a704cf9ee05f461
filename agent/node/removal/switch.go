package removal

import (
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// Switch stops everything that is removed on a node: mode observe for good, a pause for a time. Any
// goroutine may use it.
type Switch struct {
	Observe bool
	Now     func() time.Time // ebb's clock; used while there is a pause

	pause atomic.Pointer[state.Pause]
}

// Pause replaces the pause; nil ends it.
func (s *Switch) Pause(p *state.Pause) { s.pause.Store(p) }

// Paused is the pause that is on now; nil if there is none. It is replaced, and never changed.
func (s *Switch) Paused() *state.Pause {
	if p := s.pause.Load(); p != nil && s.Now().Before(p.Until) {
		return p
	}
	return nil
}

// Next is when the pause ends, or has ended without a word; the zero time if there is none.
func (s *Switch) Next() time.Time {
	if p := s.pause.Load(); p != nil {
		return p.Until
	}
	return time.Time{}
}

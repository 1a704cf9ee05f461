package removal

import (
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// Switch stops all removals on a node: always in mode observe, for a time during a pause, and as long as
// a file exists. Any goroutine may use it.
type Switch struct {
	Observe bool
	File    PauseFile
	Now     func() time.Time // ebb's clock; used while there is a pause

	pause atomic.Pointer[state.Pause]
}

// Pause replaces the pause that a caller asked for; nil ends it.
func (s *Switch) Pause(p *state.Pause) { s.pause.Store(p) }

// Paused returns the current pause, by the file or as a caller asked for it; nil if there is none.
func (s *Switch) Paused() *state.Pause {
	if p := s.File.Read(); p != nil {
		return p
	}
	return s.Asked()
}

// Asked returns the current pause that a caller asked for; nil if there is none. A pause is replaced, and
// never changed.
func (s *Switch) Asked() *state.Pause {
	if p := s.pause.Load(); p != nil && s.Now().Before(p.Until) {
		return p
	}
	return nil
}

// Next returns when the pause that a caller asked for ends, or has ended if nothing has replaced it
// since; the zero time if there is none.
func (s *Switch) Next() time.Time {
	if p := s.pause.Load(); p != nil {
		return p.Until
	}
	return time.Time{}
}

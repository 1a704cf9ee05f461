// Package condition keeps what lasts: that the runtime does not answer, that the state cannot be
// written. It logs the beginning and the end of each condition, once. A metric, readiness or a page
// that shows the same fact follows the condition or asks for it.
package condition

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Set has the conditions that hold. It may be used by several goroutines.
type Set struct {
	log *slog.Logger

	mu        sync.Mutex
	holds     map[string]bool
	followers map[string]func(holds bool)
}

// NewSet returns a set in which nothing holds.
func NewSet(log *slog.Logger) *Set {
	return &Set{log: log, holds: make(map[string]bool), followers: make(map[string]func(bool))}
}

// Follow calls f now, and whenever the condition begins or ends. f runs under the lock of the Set.
func (s *Set) Follow(name string, f func(holds bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers[name] = f
	f(s.holds[name])
}

// Begin sets a condition, and logs msg. Only its beginning is logged at that level; while it holds,
// further calls go to the debug log.
func (s *Set) Begin(name string, level slog.Level, msg string, args ...any) {
	if !s.change(name, true) {
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, msg, args...)
}

// End clears a condition, and logs msg if it held.
func (s *Set) End(name, msg string) {
	if s.change(name, false) {
		s.log.Info(msg, "reason", name)
	}
}

// Drop clears a condition of something that no longer exists. It logs nothing.
func (s *Set) Drop(name string) { s.change(name, false) }

// Holds reports whether a condition holds.
func (s *Set) Holds(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds[name]
}

// Names returns the names of the conditions that hold, sorted.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.holds))
}

func (s *Set) change(name string, holds bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds[name] == holds {
		return false
	}
	if holds {
		s.holds[name] = true
	} else {
		delete(s.holds, name)
	}
	if f := s.followers[name]; f != nil {
		f(holds)
	}
	return true
}

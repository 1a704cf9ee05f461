package node

import (
	"context"
	"log/slog"
)

// said keeps a state that lasts from being logged again and again: the first
// time counts, and the end of it. The zero value is ready.
type said struct {
	now map[string]bool
}

// once logs unless the same topic is already standing.
func (s *said) once(log *slog.Logger, topic string, level slog.Level, msg string, args ...any) {
	if s.now[topic] {
		log.Debug(msg, args...)
		return
	}
	if s.now == nil {
		s.now = make(map[string]bool)
	}
	s.now[topic] = true
	log.Log(context.Background(), level, msg, args...)
}

// stands says whether a topic does.
func (s *said) stands(topic string) bool { return s.now[topic] }

// forget ends a topic that is gone itself.
func (s *said) forget(topic string) { delete(s.now, topic) }

// clear ends a topic, and says so if it was standing.
func (s *said) clear(log *slog.Logger, topic, msg string) {
	if s.now[topic] {
		delete(s.now, topic)
		log.Info(msg, "reason", topic)
	}
}

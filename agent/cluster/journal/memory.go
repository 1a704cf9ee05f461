package journal

import (
	"context"
	"maps"
	"strconv"
	"sync"
)

// Memory is a [Store] in memory, for tests.
type Memory struct {
	mu       sync.Mutex
	version  int
	segments map[string]Segment
	// Fail, if set, is called before each write, and Put returns its error. With done, the write is
	// carried out all the same: its answer is lost.
	Fail func(s Segment) (done bool, err error)
	Deaf error // if set, returned by each Get
	Puts int   // writes that were carried out
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, name string) (Segment, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Deaf != nil {
		return Segment{}, m.Deaf
	}
	s, ok := m.segments[name]
	if !ok {
		return Segment{}, ErrNotFound
	}
	return s, nil
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, s Segment) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if m.Fail != nil {
		var done bool
		if done, err = m.Fail(s); err != nil && !done {
			return "", err
		}
	}
	if m.segments[s.Name].Version != s.Version {
		return "", ErrConflict
	}
	if m.segments == nil {
		m.segments = map[string]Segment{}
	}
	m.version++
	s.Version = strconv.Itoa(m.version)
	m.segments[s.Name] = s
	m.Puts++
	if err != nil {
		return "", err
	}
	return s.Version, nil
}

// Delete implements [Store].
func (m *Memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.segments, name)
	return nil
}

// Backup returns a function that restores what is stored now.
func (m *Memory) Backup() (restore func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	saved := maps.Clone(m.segments)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.segments = saved
	}
}

// Set changes the store, between two requests.
func (m *Memory) Set(change func(*Memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

// List implements [Store].
func (m *Memory) List(context.Context) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.segments {
		if s.Token == "" {
			names = append(names, name)
		}
	}
	return names, nil
}

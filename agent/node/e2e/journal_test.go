package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/agentrun"
)

// patience is how long a test waits for anything. It is long because the
// machine may be busy with other tests; nobody waits for it when all is well.
const patience = 90 * time.Second

// journal is the log of all agents of a fixture, in order.
type journal struct {
	mu    sync.Mutex
	lines []agentrun.Line
	grown chan struct{} // closed and replaced with each line
}

func newJournal() *journal { return &journal{grown: make(chan struct{})} }

func (j *journal) add(l agentrun.Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
	close(j.grown)
	j.grown = make(chan struct{})
}

// Write takes one line of a slog handler.
func (j *journal) Write(b []byte) (int, error) {
	l, err := agentrun.ParseLine(string(b))
	if err != nil {
		return 0, err
	}
	j.add(l)
	return len(b), nil
}

// mark is a place in the journal: its end now.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

// since returns the lines with that message after a mark.
func (j *journal) since(mark int, message string) []agentrun.Line {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []agentrun.Line
	for _, l := range j.lines[mark:] {
		if l.Message == message {
			found = append(found, l)
		}
	}
	return found
}

// await returns the first line with that message after a mark.
func (j *journal) await(t *testing.T, mark int, message string) agentrun.Line {
	t.Helper()
	deadline := time.After(patience)
	for {
		j.mu.Lock()
		grown := j.grown
		j.mu.Unlock()
		if found := j.since(mark, message); len(found) > 0 {
			return found[0]
		}
		select {
		case <-grown:
		case <-deadline:
			t.Fatalf("the agent did not say %q", message)
		}
	}
}

// String is the end of the journal, for the log of a failed test.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	const most = 60
	var b strings.Builder
	for _, l := range j.lines[max(0, len(j.lines)-most):] {
		fmt.Fprintf(&b, "%s %s %s %v\n", l.Time.Format("15:04:05.000"), l.Level, l.Message, l.Fields)
	}
	return b.String()
}

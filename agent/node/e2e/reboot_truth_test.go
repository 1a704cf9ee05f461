package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// fact is a line of the truth. An image was used from Begun to At or, if Begun is zero,
// began to be used at At.
type fact struct {
	At    time.Time
	IDs   map[string]string `json:",omitempty"`
	Image string            `json:",omitempty"`
	Begun time.Time         `json:",omitzero"`
	Armed bool              `json:",omitempty"` // the machine is reset from now on
}

// truth is what happened, on the disk before it does.
type truth struct {
	mu   sync.Mutex
	file *os.File
}

func (t *truth) write(f fact) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(json.NewEncoder(t.file).Encode(f), unix.Fdatasync(int(t.file.Fd())))
}

func readTruth(t *testing.T) (facts []fact) {
	f, err := os.Open(truthFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var one fact
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			break // the last one, cut short
		}
		facts = append(facts, one)
	}
	if !slices.ContainsFunc(facts, func(f fact) bool { return f.Armed }) {
		t.Fatal("the machine went down before it was to be reset")
	}
	return facts
}

// span is one use of an image.
type span struct{ begun, ended time.Time }

// usesOf are the uses of one image, one after the other; what has no end goes on until then.
// clear is the end of the last one before the machine could be reset.
func usesOf(name string, facts []fact, until time.Time) (uses []span, clear time.Time) {
	armed := false
	for _, f := range facts {
		armed = armed || f.Armed
		switch {
		case f.Image != name:
		case f.Begun.IsZero():
			uses = append(uses, span{f.At, until})
		default:
			uses[len(uses)-1].ended = f.At
			if !armed {
				clear = f.At
			}
		}
	}
	return uses, clear
}

// checkSaved: what was saved of each image's last use is true, and no use was missed that
// had ended before the run began.
func (b *fixture) checkSaved(saved state.Records, facts []fact) {
	b.Helper()
	var worst time.Duration
	for name, id := range b.scenario.ids {
		record, there := saved.Images[id]
		if !there {
			continue // removed
		}
		uses, clear := usesOf(name, facts, saved.Meta.Saved)
		off := time.Duration(1<<63 - 1)
		for _, u := range uses {
			off = min(off, max(0, u.begun.Sub(record.LastUsed), record.LastUsed.Sub(u.ended)))
		}
		if worst = max(worst, off); off > rebootLate || record.LastUsed.Before(clear.Add(-rebootLate)) {
			b.Errorf("image %s: its saved last use is %v, %v from a true one; one ended at %v", name, record.LastUsed, off, clear)
		}
	}
	b.Logf("saved last uses are at most %v from the truth", worst.Round(time.Microsecond))
}

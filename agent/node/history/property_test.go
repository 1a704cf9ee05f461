package history

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// thing is an entry as the model has it.
type thing struct {
	id      string
	outcome string // "": it is no entry
	dirty   bool   // to be written
	began   time.Time
	wall    time.Time
	attempt *Attempt
}

// model is a naive history: every thing in the order of its beginning, and by ID what the file has
// of it.
type model struct {
	*rapid.T
	k      *kit
	path   string
	things []*thing
	file   map[string]string // outcome, by ID
	made   int
}

var modelLimits = limits{entries: 5, age: 10 * time.Hour}

func (m *model) begin() {
	var entries []page.HistoryEntry
	now, wall := m.k.clocks.read()
	first := len(m.things)
	for range rapid.IntRange(1, 4).Draw(m.T, "images") {
		m.made++
		id := fmt.Sprint("i", m.made)
		m.things = append(m.things, &thing{id: id, outcome: page.OutcomeBegun, dirty: true, began: now, wall: wall})
		entries = append(entries, imageEntry(id))
	}
	for n, a := range m.k.Begin(entries...) {
		m.things[first+n].attempt = a
	}
}

func (m *model) end() {
	var open []*thing
	for _, one := range m.things {
		if one.attempt != nil {
			open = append(open, one)
		}
	}
	if len(open) == 0 {
		return
	}
	one := rapid.SampledFrom(open).Draw(m.T, "which")
	a := one.attempt
	one.attempt, one.dirty = nil, true
	switch rapid.IntRange(0, 4).Draw(m.T, "outcome") {
	case 0, 1:
		a.Removed(nil)
		one.outcome = page.OutcomeRemoved
	case 2:
		a.PutBack("needed")
		one.outcome = page.OutcomePutBack
	case 3:
		a.Failed(os.ErrInvalid)
		one.outcome = page.OutcomeFailed
	case 4:
		a.Cancel()
		one.outcome = ""
	}
}

func (m *model) refuse() {
	m.made++
	id := fmt.Sprint("r", m.made)
	now, wall := m.k.clocks.read()
	m.things = append(m.things, &thing{id: id, outcome: page.OutcomeRefused, dirty: true, began: now, wall: wall})
	m.k.Refused(imageEntry(id))
}

func (m *model) write() {
	m.k.write()
	added := map[string]int{}
	for _, one := range m.things {
		if !one.dirty {
			continue
		}
		one.dirty = false
		if shelfOf(m.file[one.id]) != shelfOf(one.outcome) {
			added[shelfOf(one.outcome)]++
		}
		m.file[one.id] = one.outcome
	}
	now, wall := m.k.clocks.read()
	for _, bucket := range []string{"removals", "refusals"} {
		for range 4 * added[bucket] {
			on := slices.DeleteFunc(slices.Clone(m.things), func(one *thing) bool { return shelfOf(m.file[one.id]) != bucket })
			if len(on) == 0 {
				break
			}
			tooOld := now.Sub(on[0].began) >= 10*time.Hour && wall.Sub(on[0].wall) >= 10*time.Hour
			if len(on) <= 5 && !tooOld {
				break
			}
			delete(m.file, on[0].id)
		}
	}
}

func shelfOf(outcome string) string {
	switch outcome {
	case "", page.OutcomeBegun:
		return outcome
	case page.OutcomeRemoved:
		return "removals"
	}
	return "refusals"
}

// restart closes the file and opens it as the next agent does, which then lists what there is.
func (m *model) restart() {
	m.write()
	m.k.close()
	m.k.restart(modelLimits)
	m.k.attachQuick(m.path)
	there := make(map[string]bool)
	for _, one := range m.things {
		if one.attempt == nil {
			continue
		}
		one.attempt, one.dirty, one.outcome = nil, true, page.OutcomeRemoved
		if rapid.Bool().Draw(m.T, "there") {
			there[one.id], one.outcome = true, page.OutcomePutBack
		}
	}
	m.k.Listed(func(id string) bool { return there[id] }, page.KindImage)
}

func (m *model) check() {
	var want []string
	for _, one := range slices.Backward(m.things) {
		if outcome := m.file[one.id]; outcome != "" {
			want = append(want, one.id+" "+outcome)
		}
	}
	if got := m.k.all(rapid.IntRange(1, 7).Draw(m.T, "page")); !slices.Equal(got, want) {
		m.Fatalf("got  %q\nwant %q", got, want)
	}
}

// What is kept, in which order, is what a naive history keeps: whatever ends when, whatever the
// clocks do, over restarts.
func TestLikeANaiveHistory(t *testing.T) {
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := &model{T: rt, k: newKit(t, modelLimits), path: filepath.Join(dir, fmt.Sprint(runs)), file: map[string]string{}}
		m.k.attachQuick(m.path)
		defer func() {
			m.k.close()
			os.Remove(m.path)
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"begin":  func(t *rapid.T) { m.T = t; m.begin() },
			"end":    func(t *rapid.T) { m.T = t; m.end() },
			"ended":  func(t *rapid.T) { m.T = t; m.end() },
			"refuse": func(t *rapid.T) { m.T = t; m.refuse() },
			"write":  func(t *rapid.T) { m.T = t; m.write() },
			"pass":   func(t *rapid.T) { m.k.clocks.pass(time.Duration(rapid.IntRange(0, 5).Draw(t, "hours")) * time.Hour) },
			"set the wall clock": func(t *rapid.T) {
				m.k.clocks.setWall(t0.AddDate(rapid.IntRange(-60, 60).Draw(t, "years"), 0, 0))
			},
			"restart": func(t *rapid.T) { m.T = t; m.restart() },
			"":        func(t *rapid.T) { m.T = t; m.check() },
		})
	})
}

// A storm of refusals pushes no removal out, and however much is too old, an append deletes a few.
func TestStorm(t *testing.T) {
	k := newKit(t, limits{entries: 50, age: time.Hour})
	k.attachQuick(quickFile(t))
	for _, a := range k.Begin(ids(40)...) {
		a.Removed(nil)
	}
	k.write()
	for n := range 1000 {
		k.Refused(imageEntry(fmt.Sprint("r", n)))
		k.write()
	}
	if f := k.file; f.count[removals] != 40 || f.count[refusals] != 50 {
		t.Errorf("%d removals, %d refusals", f.count[removals], f.count[refusals])
	}
	k.clocks.pass(2 * time.Hour)
	for n, want := range []int{37, 34, 31} { // one more each, and four less
		k.Begin(imageEntry(fmt.Sprint("late", n)))[0].Removed(nil)
		k.write()
		if got := k.file.count[removals]; got != want {
			t.Errorf("%d removals, want %d", got, want)
		}
	}
}

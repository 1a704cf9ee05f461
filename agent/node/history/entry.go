package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Bounds of an entry, in bytes.
const (
	entryMost = 4096 // encoded
	namesMost = 8    // names, not bytes
	nameMost  = 256
	textMost  = 384
	wordMost  = 64
)

const cut = "…"

// clip cuts a text to at most that many bytes, between two runes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len(cut)
	if end < 0 {
		return ""
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

// bounded returns the entry with its texts cut to their bounds, or to most if that is less, and
// with times that JSON can represent.
func bounded(e page.HistoryEntry, most int) page.HistoryEntry {
	e.Names = slices.Clone(e.Names[:min(len(e.Names), namesMost)])
	for n := range e.Names {
		e.Names[n] = clip(strings.ToValidUTF8(e.Names[n], "\ufffd"), min(most, nameMost))
	}
	for _, text := range []*string{&e.Reason, &e.Detail, &e.Error} {
		*text = clip(strings.ToValidUTF8(*text, "\ufffd"), min(most, textMost))
	}
	for _, text := range []*string{&e.ID, &e.UsedBy, &e.By} {
		*text = clip(strings.ToValidUTF8(*text, "\ufffd"), min(most, nameMost))
	}
	for _, text := range []*string{&e.Rule, &e.Kind, &e.Outcome} {
		*text = clip(strings.ToValidUTF8(*text, "\ufffd"), wordMost)
	}
	e.Time, e.Wall = possible(e.Time), possible(e.Wall)
	for _, t := range []**time.Time{&e.Ended, &e.LastUsed} {
		if *t != nil && possible(**t).IsZero() {
			*t = nil
		}
	}
	return e
}

// possible returns a time whose year JSON can represent; others, from a broken clock, become zero.
func possible(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if y := t.Year(); y < 0 || y > 9999 {
		return time.Time{}
	}
	return t
}

// encode returns an entry as the file has it. JSON makes control characters several times longer,
// so encode may have to cut the texts further.
func encode(e page.HistoryEntry) []byte {
	for most := textMost; ; most -= 32 {
		b, err := json.Marshal(bounded(e, most))
		if err != nil || len(b) <= entryMost || most == 0 {
			return b // an error is impossible: all in it is bounded or a number
		}
	}
}

// decode reads an entry of the file.
func decode(b []byte) (e page.HistoryEntry, err error) {
	if len(b) > entryMost {
		return e, fmt.Errorf("history entry of %d bytes", len(b))
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("history entry: %w", err)
	}
	if e.Kind == "" || e.Outcome == "" {
		return e, errors.New("history entry without kind or outcome")
	}
	return bounded(e, textMost), nil
}

// age returns how old an entry is: the smaller of its ages by two clocks. Either clock can have
// been wrong when the entry was written, or can be wrong now. An entry that cannot be read is older
// than all others.
func age(b []byte, now, wall time.Time) time.Duration {
	var at struct{ Time, Wall time.Time }
	old := time.Duration(math.MaxInt64)
	if json.Unmarshal(b, &at) != nil {
		return old
	}
	for _, clock := range [][2]time.Time{{at.Time, now}, {at.Wall, wall}} {
		if was, is := clock[0], clock[1]; !was.IsZero() {
			old = min(old, is.Sub(was))
		}
	}
	return old
}

package show

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
)

func TestParseAmount(t *testing.T) {
	for s, want := range map[string]uint64{
		"1": 1, "20Gi": 20 << 30, "500M": 500_000_000, "1.5Gi": 3 << 29, "1e3": 1000, "5Ei": 5 << 60, "0.5Ki": 512,
	} {
		if got, err := ParseAmount(s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"": "quantity", "lots": "quantity", "20 GiB": "quantity", "20GB": "quantity", "\x1b[2J": "quantity",
		"0": "more than 0", "-1Gi": "more than 0", "0.5": "whole", "1500m": "whole", "1n": "whole",
		"9Ei": "larger than any disk", "1e40": "larger than any disk", "1e1000000000": "quantity", "9223372036854775807": "larger than any disk",
		strings.Repeat("9", 100): "quantity",
	} {
		got, err := ParseAmount(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for s, want := range map[string]int{"0": 0, "60": 60, "60%": 60, "100%": 100} {
		if got, err := ParsePercent(s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "%", "-1", "101", "+5", "60%%", "0x10", "1e1", "６０", "300"} {
		if got, err := ParsePercent(s); err == nil {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"20Gi", "-1", "1e40", "0.5", "60%", "\x1b[2J", "9Ei", "1E1000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		amount, err := ParseAmount(s)
		if err == nil && (amount == 0 || amount >= math.MaxInt64) {
			t.Errorf("%q: %d", s, amount)
		}
		percent, other := ParsePercent(s)
		if other == nil && (percent < 0 || percent > 100) {
			t.Errorf("%q: %d", s, percent)
		}
		for _, err := range []error{err, other} {
			if err != nil && strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Errorf("%q: %q", s, err)
			}
		}
	})
}

const run = `{"event":"begun","of":2}
{"event":"removed","id":"a","freedBytes":5,"removed":1,"of":2}

{"event":"ended","freedBytes":5,"removed":1,"of":2,"result":"done"}
{"event":"removed","id":"after the end"}
`

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     io.Reader
		events int
		err    string // "": it ended
	}{
		{"whole", strings.NewReader(run), 3, ""},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(run)), 3, ""},
		{"cut between", strings.NewReader(run[:strings.Index(run, "{\"event\":\"ended")]), 2, "before the run did"},
		{"cut within", strings.NewReader(run[:60]), 1, "not an event"},
		{"lost", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(run))), 0, "not an event"},
		{"broken", io.MultiReader(strings.NewReader(run[:25]), iotest.ErrReader(errors.New("reset\x1b[2J"))), 1, "before the run did: reset"},
		{"no event", strings.NewReader("<html>\x1b[2J"), 0, "not an event"},
		{"endless", io.LimitReader(zeros{}, 64<<20), 0, "too long"},
		{"nothing", strings.NewReader(""), 0, "before the run did"},
	} {
		events, failed := 0, error(nil)
		for _, err := range Events(c.in) {
			if failed != nil {
				t.Errorf("%s: something after an error", c.name)
			}
			if failed = err; err == nil {
				events++
			}
		}
		if events != c.events || (failed == nil) != (c.err == "") || failed != nil && (!strings.Contains(failed.Error(), c.err) || !errors.Is(failed, ErrCut)) {
			t.Errorf("%s: %d events, %v", c.name, events, failed)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{'0'}, len(p))), nil }

func FuzzEvents(f *testing.F) {
	f.Add([]byte(run))
	f.Add([]byte(`{"event":"ended","result":"\u001b[2J"}`))
	f.Add([]byte("{}\n[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, last, ended := Run{Node: "n"}, error(nil), false
		for e, err := range Events(bytes.NewReader(data)) {
			if last = err; err == nil {
				r.Note(e)
				ended = e.Result != ""
				if line := r.Progress(e, true); strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
					t.Errorf("%q", line)
				}
			}
		}
		if ended == (last != nil) {
			t.Errorf("ended %v, and %v", ended, last)
		}
	})
}

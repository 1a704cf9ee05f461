package main

import (
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
)

func TestReport(t *testing.T) {
	for name, o := range map[string]options{"cascade": {}, "shapes": {others: true}} {
		if err := result.Check("../results", name, text(o)); err != nil {
			t.Error(err)
		}
	}
}

// TestMeasured: medians and spread by contender, of one policy.
func TestMeasured(t *testing.T) {
	w := waves{}
	for _, v := range []float64{3, 1, 2} {
		w.add(gc.Background, ebbBest, wave{perSecond: v, requests: v, others: []float64{v, 10 * v}})
	}
	w.add(gc.Orphan, ebbBest, wave{perSecond: 9})
	got := w.measured(gc.Background)
	want := measured{PerSecond: result.Spread{Median: 2, Min: 1, Max: 3, Runs: 3}, Requests: 2, Others: 30}
	if len(got) != 1 || got[ebbBest] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f := figures{Best: map[gc.Policy]map[string]measured{gc.Background: got}}
	if text := f.markdown(); !strings.Contains(text, "2 (1-3)") {
		t.Errorf("no spread in:\n%s", text)
	}
}

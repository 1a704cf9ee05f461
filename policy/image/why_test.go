package image

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// genDoubtful draws snapshots of which some make no sense.
func genDoubtful(t *rapid.T) Snapshot {
	s := genSnapshot(t)
	for i := range s.Images {
		if rapid.IntRange(0, 5).Draw(t, "failed") == 0 {
			s.Images[i].RetryAt = genTime(t, "retry")
		}
	}
	makeNonsense(t, &s)
	return s
}

func TestWhyAgreesWithDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genDoubtful(t)
		plan, places := Decide(s, noon), map[int]bool{}
		last := 0
		for _, goes := range []bool{true, false} {
			list := plan.Keep
			if goes {
				list = plan.Remove
			}
			for _, want := range list {
				e, ok := Why(s, want.ImageID, noon)
				if diff := cmp.Diff(want, e.Decision); diff != "" || !ok || e.Goes != goes {
					t.Fatalf("%q: goes %v, found %v, -Decide +Why:\n%s", want.ImageID, e.Goes, ok, diff)
				}
				checkRules(t, e)
				if goes && e.Place <= last {
					t.Fatalf("%q has place %d and goes after place %d", want.ImageID, e.Place, last)
				}
				if e.Place > 0 && (places[e.Place] || e.Place > e.Of) {
					t.Fatalf("%q has place %d of %d, as another", want.ImageID, e.Place, e.Of)
				}
				last, places[e.Place] = e.Place, true
			}
		}
	})
}

// checkRules: the first that holds is the verdict, and nothing about the disk is asked after that.
func checkRules(t *rapid.T, e Explanation) {
	first := slices.IndexFunc(e.Rules, func(r Rule) bool { return r.State == Holds })
	if first < 0 || e.Rules[first].Reason != e.Reason || e.Rules[first].Text != e.Detail {
		t.Fatalf("%+v does not follow from %+v", e.Decision, e.Rules)
	}
	for i, r := range e.Rules {
		protects := i < len(protections)
		switch {
		case r.Text == "":
			t.Fatalf("%s has no text", r.Reason)
		case protects && r.State == NotReached, !protects && (i > first) != (r.State == NotReached):
			t.Fatalf("%s %v, and the first that holds is %s", r.Reason, r.State, e.Reason)
		case e.Goes && r.State == Holds && i != first:
			t.Fatalf("goes although %s holds", r.Reason)
		}
	}
	if mayGo := first >= len(protections); mayGo != (e.Place > 0) {
		t.Fatalf("%s, and place %d", e.Reason, e.Place)
	}
}

// The protections are what the oracle finds, each by itself; the figures are what it weighs.
func TestWhyAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genDoubtful(t)
		if len(s.Images) == 0 {
			t.Skip("no images")
		}
		o, img := oracle{s, noon}, rapid.SampledFrom(s.Images).Draw(t, "image")
		e, _ := Why(s, img.ID, noon)
		arrived := known(img.Arrived, img.Observed)
		blocked := o
		blocked.s.Images = slices.Clone(s.Images)
		for i := range blocked.s.Images { // nothing else keeps it
			other := &blocked.s.Images[i]
			*other = Image{ID: other.ID, Roots: other.Roots, Arrived: noon.Add(-time.Hour * 1000)}
		}
		blocked.s.Pods = Pods{}
		cleared := blocked.s.Images[slices.IndexFunc(blocked.s.Images, func(i Image) bool { return i.ID == img.ID })]
		want := map[Reason]bool{
			KeptBlocked: blocked.fixed(cleared) == KeptBlocked,
			KeptInUse:   len(img.UsedBy) > 0, KeptWanted: len(img.Wanted) > 0,
			KeptPinned: img.Pinned, KeptSandbox: img.Sandbox, KeptByRule: img.Keep != "", KeptUseUnknown: img.Unread != "",
			KeptPodsUnknown: o.unheardOf(arrived), KeptYoung: o.since(arrived) < s.Policy.MinimumAge,
			KeptFailed: img.RetryAt.After(noon),
		}
		for _, r := range e.Rules {
			if holds, known := want[r.Reason]; known && holds != (r.State == Holds) {
				t.Fatalf("%s %v: %s", r.Reason, r.State, r.Text)
			}
		}
		if e.Place == 0 {
			return
		}
		before := make([]string, e.Of)
		for _, other := range s.Images {
			if w, _ := Why(s, other.ID, noon); w.Place > 0 {
				before[w.Place-1] = other.ID
			}
		}
		less, lessInodes, _, _ := o.freed(before[:e.Place-1])
		more, moreInodes, _, _ := o.freed(before[:e.Place])
		if e.InTurn != (Size{more - less, moreInodes - lessInodes}) {
			t.Fatalf("in its turn %v: %d to %d bytes", e.InTurn, less, more)
		}
	})
}

// A rule with a time of change changes then, and not before, whatever the disk reports.
func TestRulesChangeInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genDoubtful(t)
		if len(s.Images) == 0 {
			t.Skip("no images")
		}
		id := rapid.SampledFrom(s.Images).Draw(t, "image").ID
		e, _ := Why(s, id, noon)
		for i, r := range e.Rules {
			if r.Changes.IsZero() {
				continue
			}
			if !r.Changes.After(noon) {
				t.Fatalf("%s changed at %v already", r.Reason, r.Changes)
			}
			sooner, _ := Why(s, id, r.Changes.Add(-1))
			then, _ := Why(s, id, r.Changes)
			if sooner.Rules[i].State != r.State || then.Rules[i].State == r.State {
				t.Fatalf("%s %v, just before %v %v, then %v", r.Reason, r.State, r.Changes, sooner.Rules[i].State, then.Rules[i].State)
			}
		}
	})
}

func TestWhyOfNoImage(t *testing.T) {
	if e, ok := Why(Snapshot{Images: []Image{{ID: "a"}}}, "b", noon); ok {
		t.Errorf("%+v", e)
	}
}

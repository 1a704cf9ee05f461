package gc

import (
	"slices"
	"testing"
)

// The same table is held against the real API server in agent/preview/e2e.
func TestFinalizersOfADelete(t *testing.T) {
	const orphan, foreground, other = OrphanFinalizer, ForegroundFinalizer, "example.io/other"
	for _, test := range []struct {
		policy       Policy
		before, want []string
	}{
		{Background, nil, nil},
		{Background, []string{other}, []string{other}},
		{Background, []string{other, orphan}, []string{other}},
		{Background, []string{foreground, other}, []string{other}},
		{Foreground, nil, []string{foreground}},
		{Foreground, []string{orphan, other}, []string{other, foreground}},
		{Foreground, []string{foreground, other}, []string{foreground, other}},
		{Orphan, []string{foreground}, []string{orphan}},
		{Orphan, []string{orphan, other}, []string{orphan, other}},
		{Orphan, []string{other}, []string{other, orphan}},
		{"", []string{orphan, other}, []string{orphan, other}},
		{"", []string{other, foreground}, []string{other, foreground}},
	} {
		before := slices.Clone(test.before)
		if got := test.policy.Finalizers(test.before); !slices.Equal(got, test.want) {
			t.Errorf("%s of %v: %v, want %v", test.policy, test.before, got, test.want)
		}
		if !slices.Equal(before, test.before) {
			t.Errorf("%s changed what it was given: %v", test.policy, test.before)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	o := Object{Name: "o", UID: "u", ResourceVersion: "7", Owners: []Reference{{Name: "a", UID: "ua", Block: true}, {Name: "b", UID: "ub"}}, Finalizers: []string{OrphanFinalizer}}
	at := func(index int, name, uid string) []Position {
		return []Position{{index, Reference{Name: name, UID: uid}}}
	}
	for _, test := range []struct {
		name   string
		action Action
		ok     bool
	}{
		{"delete", Action{Verb: Delete, ResourceVersion: "7"}, true},
		{"delete whatever the version", Action{Verb: Delete}, false},
		{"delete another version", Action{Verb: Delete, ResourceVersion: "6"}, false},
		{"remove a reference", Action{Verb: RemoveReferences, Refs: at(1, "b", "ub")}, true},
		{"remove one that is elsewhere", Action{Verb: RemoveReferences, Refs: at(0, "b", "ub")}, false},
		{"remove one that is beyond", Action{Verb: RemoveReferences, Refs: at(2, "b", "ub")}, false},
		{"unblock", Action{Verb: Unblock, Refs: at(0, "a", "ua")}, true},
		{"unblock another", Action{Verb: Unblock, Refs: at(0, "a", "ub")}, false},
		{"take the finalizer off", Action{Verb: RemoveFinalizer, Finalizer: OrphanFinalizer, ResourceVersion: "7"}, true},
		{"take it off another version", Action{Verb: RemoveFinalizer, Finalizer: OrphanFinalizer, ResourceVersion: "6"}, false},
		{"take another off", Action{Verb: RemoveFinalizer, Finalizer: ForegroundFinalizer}, false},
		{"take one off that is beyond", Action{Verb: RemoveFinalizer, Finalizer: OrphanFinalizer, ResourceVersion: "7", Index: 1}, false},
		{"read", Action{Verb: Read}, false},
	} {
		test.action.Object = Coordinates{Name: "o", UID: "u"}
		after, ok := test.action.Apply(o)
		if ok != test.ok {
			t.Errorf("%s: %v", test.name, ok)
		}
		if same := slices.Equal(after.Owners, o.Owners) && slices.Equal(after.Finalizers, o.Finalizers) && after.Terminating == o.Terminating; same && ok && test.action.Verb != Delete {
			t.Errorf("%s changes nothing", test.name)
		}
		test.action.Object.UID = "another"
		if _, ok := test.action.Apply(o); ok {
			t.Errorf("%s of another object", test.name)
		}
	}
	if len(o.Owners) != 2 || !o.Owners[0].Block || len(o.Finalizers) != 1 {
		t.Errorf("what was given was changed: %+v", o)
	}
}

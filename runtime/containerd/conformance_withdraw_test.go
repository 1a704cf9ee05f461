package containerd_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func (s *suite) withdraw(t *testing.T, id string) inventory.Withdrawal {
	t.Helper()
	i, there := s.check(t, id)
	if !there {
		t.Fatalf("image %s is not there", id)
	}
	return s.withdrawKnown(t, i)
}

func (s *suite) withdrawKnown(t *testing.T, i inventory.Image) inventory.Withdrawal {
	t.Helper()
	w, err := s.Runtime.Withdraw(t.Context(), i)
	if err != nil {
		t.Fatalf("withdraw: %v", err)
	}
	return w
}

func (s *suite) users(t *testing.T, w inventory.Withdrawal) []string {
	t.Helper()
	users, err := s.Runtime.Users(t.Context(), w)
	if err != nil {
		t.Fatalf("users: %v", err)
	}
	return users[0]
}

// eventuallyThere waits for the runtime to know an image again, or not any more:
// it learns of names by events.
func (s *suite) eventuallyThere(t *testing.T, id string, want bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, there := s.check(t, id); there == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("image %s: there %v, want %v", id, !want, want)
		}
	}
}

func (s *suite) withdrawAndComplete(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Tags: []string{name("w2")}, Layers: []Layer{{"withdraw", 4 * mib}}})
	computed, before := s.frees(t, id), s.Node.StoredBytes(t)
	known := s.find(t, id)
	w := s.withdrawKnown(t, known)
	s.eventuallyThere(t, id, false)
	if now := s.Node.StoredBytes(t); now+mib < before {
		t.Errorf("%d bytes went with the names", before-now)
	}
	if users := s.users(t, w); len(users) > 0 {
		t.Errorf("used by %q", users)
	}
	if err := w.Complete(t.Context(), true); err != nil {
		t.Fatalf("complete: %v", err)
	}
	// No waiting: it is synchronous.
	wantNear(t, "freed", before-s.Node.StoredBytes(t), computed.total())
	if mended, err := s.Runtime.Mend(t.Context()); len(mended) > 0 || err != nil {
		t.Errorf("mended %q, %v", mended, err)
	}
	if _, err := s.Runtime.Withdraw(t.Context(), known); !errors.Is(err, inventory.ErrNotFound) {
		t.Errorf("withdrawing it again: %v", err)
	}
}

// completeTogether lets two images go with one collection.
func (s *suite) completeTogether(t *testing.T) {
	before := s.Node.StoredBytes(t)
	var pair []inventory.Withdrawal
	for i := range 2 {
		id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Layers: []Layer{{fmt.Sprint("together-", i), 4 * mib}}})
		w := s.withdraw(t, id)
		s.eventuallyThere(t, id, false)
		pair = append(pair, w)
	}
	with := s.Node.StoredBytes(t)
	if users, err := s.Runtime.Users(t.Context(), pair...); err != nil || len(users) != 2 || len(users[0])+len(users[1]) > 0 {
		t.Errorf("used by %q, %v", users, err)
	}
	for n, w := range pair {
		if err := w.Complete(t.Context(), n == len(pair)-1); err != nil {
			t.Fatalf("complete: %v", err)
		}
	}
	wantNear(t, "freed", with-s.Node.StoredBytes(t), with-before)
}

func (s *suite) withdrawAndRestore(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Tags: []string{name("w2")}, Layers: []Layer{{"withdraw", mib}}, Runnable: true})
	defer s.discard(t, id)
	s.Node.Label(t, criNamespace, name("w"), map[string]string{"note": "kept"})
	before := s.find(t, id)
	w := s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	// Something comes to use its layer: by its other name in another namespace.
	s.Node.Import(t, otherSpace, Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}, Runnable: true})
	s.Node.Snapshot(t, otherSpace, "late", name("w"), false)
	if users, want := s.users(t, w), []string{"snapshot " + otherSpace + "/late"}; !slices.Equal(users, want) {
		t.Errorf("used by %q, want %q", users, want)
	}
	s.Node.RemoveSnapshot(t, otherSpace, "late")
	if err := w.Restore(t.Context()); err != nil {
		t.Fatalf("restore: %v", err)
	}
	s.find(t, id) // no waiting: it is listed again
	s.wantReferences(t, id, before.References)
	s.Node.Run(t, criNamespace, "again", name("w"))
	s.Node.Stop(t, criNamespace, "again")
	s.Node.Delete(t, criNamespace, "again")
}

// wantReferences waits: names come back one by one.
func (s *suite) wantReferences(t *testing.T, id string, want []string) {
	t.Helper()
	var got inventory.Image
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got, _ = s.check(t, id); slices.Equal(got.References, want) {
			return
		}
	}
	t.Errorf("names are %q, want %q", got.References, want)
}

// withdrawAndMend is a crash after the names were taken away.
func (s *suite) withdrawAndMend(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}})
	defer s.discard(t, id)
	before := s.find(t, id)
	s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	for _, want := range [][]string{{id}, nil} {
		if mended, err := s.Runtime.Mend(t.Context()); !slices.Equal(mended, want) || err != nil {
			t.Errorf("mended %q, %v; want %q", mended, err, want)
		}
		s.find(t, id) // no waiting: it is listed again
	}
	s.wantReferences(t, id, before.References)
}

// pulledBeforeMend: an image that was pulled after a crash is not as it was.
func (s *suite) pulledBeforeMend(t *testing.T) {
	img := Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}}
	id := s.Node.Import(t, criNamespace, img)
	defer s.discard(t, id)
	s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	s.Node.Import(t, criNamespace, img)
	if mended, err := s.Runtime.Mend(t.Context()); len(mended) > 0 || err != nil {
		t.Errorf("mended %q, %v", mended, err)
	}
	s.find(t, id)
}

// pulledAgain: who pulls the very image while it is withdrawn is one of its users.
func (s *suite) pulledAgain(t *testing.T) {
	img := Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}}
	id := s.Node.Import(t, criNamespace, img)
	defer s.discard(t, id)
	w := s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	if again := s.Node.Import(t, criNamespace, img); again != id {
		t.Fatalf("the image is %s now", again)
	}
	if users, want := s.users(t, w), "name "+name("w"); !slices.Contains(users, want) {
		t.Errorf("used by %q, want %q among them", users, want)
	}
	if err := w.Restore(t.Context()); err != nil {
		t.Fatalf("restore: %v", err)
	}
	s.eventuallyThere(t, id, true)
}

// namedSinceCheck: a name that comes between the check and the withdrawal is not lost: it
// stays, and shows as a user.
func (s *suite) namedSinceCheck(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}})
	defer s.discard(t, id)
	before, _ := s.check(t, id)
	s.Node.Tag(t, criNamespace, name("w"), name("since"))
	w := s.withdrawKnown(t, before)
	if users, want := s.users(t, w), []string{"name " + name("since")}; !slices.Equal(users, want) {
		t.Errorf("used by %q, want %q", users, want)
	}
	if err := w.Restore(t.Context()); err != nil {
		t.Fatalf("restore: %v", err)
	}
	want := append(slices.Clone(before.References), name("since"))
	slices.Sort(want)
	s.wantReferences(t, id, want)
}

// changedSinceCheck: an image that was pulled again since, or of which a name was given to
// another, is not withdrawn by what was known of it.
func (s *suite) changedSinceCheck(t *testing.T) {
	img := Image{Name: name("w"), Tags: []string{name("w2")}, Layers: []Layer{{"withdraw", mib}}}
	id := s.Node.Import(t, criNamespace, img)
	defer s.discard(t, id)
	for _, since := range []Image{img, {Name: name("w2"), Layers: []Layer{{"other", mib}}}} {
		before := s.find(t, id)
		if other := s.Node.Import(t, criNamespace, since); other != id {
			defer s.discard(t, other)
		}
		if w, err := s.Runtime.Withdraw(t.Context(), before); !errors.Is(err, inventory.ErrChanged) {
			t.Errorf("after a pull of %s: withdrawn as %v, %v", since.Name, w, err)
		}
		s.find(t, id)
	}
}

// nameGivenAway: whoever pulls meanwhile is not overruled.
func (s *suite) nameGivenAway(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}})
	w := s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	other := s.Node.Import(t, criNamespace, Image{Name: name("w"), Layers: []Layer{{"pulled", mib}}})
	defer s.discard(t, other)
	if err := w.Restore(t.Context()); err != nil {
		t.Fatalf("restore: %v", err)
	}
	if got := s.find(t, other); !slices.Contains(got.References, name("w")) {
		t.Errorf("the name was taken from the newcomer: %q", got.References)
	}
	s.discard(t, id)
}

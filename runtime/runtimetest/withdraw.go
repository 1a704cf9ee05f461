package runtimetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func (s *suite) withdraw(t *testing.T, id string) inventory.Withdrawal {
	t.Helper()
	w, err := s.Runtime.Withdraw(t.Context(), id)
	if err != nil {
		t.Fatalf("withdraw: %v", err)
	}
	return w
}

// eventuallyThere waits for the runtime to know an image again, or not any more:
// it learns of names by events.
func (s *suite) eventuallyThere(t *testing.T, id string, want bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, err := s.Runtime.Check(t.Context(), id)
		if err != nil && !errors.Is(err, inventory.ErrNotFound) {
			t.Fatalf("check: %v", err)
		}
		if (err == nil) == want {
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
	w := s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	if now := s.Node.StoredBytes(t); now+mib < before {
		t.Errorf("%d bytes went with the names", before-now)
	}
	if users, err := w.Users(t.Context()); err != nil || len(users) > 0 {
		t.Errorf("used by %q, %v", users, err)
	}
	if err := w.Complete(t.Context()); err != nil {
		t.Fatalf("complete: %v", err)
	}
	// No waiting: it is synchronous.
	wantNear(t, "freed", before-s.Node.StoredBytes(t), computed.total())
	if n, err := s.Runtime.Mend(t.Context()); n != 0 || err != nil {
		t.Errorf("mended %d, %v", n, err)
	}
	if _, err := s.Runtime.Withdraw(t.Context(), id); !errors.Is(err, inventory.ErrNotFound) {
		t.Errorf("withdrawing it again: %v", err)
	}
}

func (s *suite) withdrawAndRestore(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("w"), Tags: []string{name("w2")}, Layers: []Layer{{"withdraw", mib}}, Runnable: true})
	defer s.discard(t, id)
	s.Node.Label(t, criNamespace, name("w"), map[string]string{"note": "kept"})
	before := s.find(t, id)
	w := s.withdraw(t, id)
	s.eventuallyThere(t, id, false)
	// Something comes to stand on its layer: by its other name in another namespace.
	s.Node.Import(t, otherSpace, Image{Name: name("w"), Layers: []Layer{{"withdraw", mib}}, Runnable: true})
	s.Node.Snapshot(t, otherSpace, "late", name("w"), false)
	users, err := w.Users(t.Context())
	if want := []string{"snapshot " + otherSpace + "/late"}; err != nil || !slices.Equal(users, want) {
		t.Errorf("used by %q, %v; want %q", users, err, want)
	}
	s.Node.RemoveSnapshot(t, otherSpace, "late")
	if err := w.Restore(t.Context()); err != nil {
		t.Fatalf("restore: %v", err)
	}
	s.eventuallyThere(t, id, true)
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
		if got, _ = s.Runtime.Check(t.Context(), id); slices.Equal(got.References, want) {
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
	for _, want := range []int{1, 0} {
		if n, err := s.Runtime.Mend(t.Context()); n != want || err != nil {
			t.Errorf("mended %d, %v; want %d", n, err, want)
		}
	}
	s.eventuallyThere(t, id, true)
	s.wantReferences(t, id, before.References)
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
	users, err := w.Users(t.Context())
	if want := "name " + name("w"); err != nil || !slices.Contains(users, want) {
		t.Errorf("used by %q, %v; want %q among them", users, err, want)
	}
	if err := w.Restore(t.Context()); err != nil {
		t.Fatalf("restore: %v", err)
	}
	s.eventuallyThere(t, id, true)
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

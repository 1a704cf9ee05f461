package containerd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func (s *suite) inUse(t *testing.T) {
	img := Image{Name: name("used"), Layers: []Layer{{"used", mib}}, Runnable: true}
	id := s.Node.Import(t, criNamespace, img)
	defer s.discard(t, id)
	s.Node.Import(t, otherSpace, img)

	for _, space := range []string{criNamespace, otherSpace} {
		user := "container " + space + "/user"
		s.Node.Create(t, space, "user", name("used"))
		s.wantUser(t, "created in "+space, id, user)
		s.wantInUse(t, "created in "+space, id, "user", true)
		s.Node.Delete(t, space, "user")
		s.wantUnused(t, "deleted in "+space, id)

		s.Node.Run(t, space, "user", name("used"))
		s.wantUser(t, "running in "+space, id, user)
		s.wantInUse(t, "running in "+space, id, "user", true)
		s.Node.Stop(t, space, "user")
		s.wantUser(t, "stopped in "+space, id, user)
		s.wantInUse(t, "stopped in "+space, id, "user", false)
		s.Node.Delete(t, space, "user")
		s.wantUnused(t, "deleted in "+space, id)

		for _, view := range []bool{false, true} {
			s.Node.Snapshot(t, space, "build-step", name("used"), view)
			s.wantUser(t, "snapshot in "+space, id, "snapshot "+space+"/build-step")
			s.wantInUse(t, "snapshot in "+space, id, "", true)
			s.Node.RemoveSnapshot(t, space, "build-step")
			s.wantUnused(t, "snapshot removed in "+space, id)
		}
	}
}

func (s *suite) wantUser(t *testing.T, when, id, user string) {
	t.Helper()
	if used := s.find(t, id).UsedBy; !slices.Contains(used, user) {
		t.Errorf("%s: used by %q, want %q", when, used, user)
	}
	fresh, _ := s.check(t, id)
	// Check may name the container's snapshot instead.
	_, name, _ := strings.Cut(user, " ")
	if !slices.ContainsFunc(fresh.UsedBy, func(u string) bool { return strings.HasSuffix(u, " "+name) }) {
		t.Errorf("%s: check reports used by %q, want %q", when, fresh.UsedBy, user)
	}
}

// wantInUse looks whether the image is used by something that has not ended: by a
// container, if that is named.
func (s *suite) wantInUse(t *testing.T, when, id, container string, want bool) {
	t.Helper()
	inv := s.inventory(t)
	if img, ok := lookup(inv, id); !ok || img.InUse != want {
		t.Errorf("%s: in use %v, want %v", when, img.InUse, want)
	}
	for _, c := range inv.Containers {
		if c.ID == container && (c.Ended.IsZero() != want || time.Since(c.Ended) < 0) {
			t.Errorf("%s: container %s ended at %v", when, container, c.Ended)
		}
	}
}

func (s *suite) wantUnused(t *testing.T, when, id string) {
	t.Helper()
	if used := s.find(t, id).UsedBy; len(used) > 0 {
		t.Errorf("%s: used by %q", when, used)
	}
}

// Two images of the same layers: a snapshot cannot tell which it is from.
func (s *suite) inUseByEqualLayers(t *testing.T) {
	layers := []Layer{{"equal", mib}}
	one := s.Node.Import(t, criNamespace, Image{Name: name("equal-1"), Layers: layers, Variant: "1"})
	two := s.Node.Import(t, criNamespace, Image{Name: name("equal-2"), Layers: layers, Variant: "2"})
	defer s.discard(t, one)
	defer s.discard(t, two)
	if one == two {
		t.Fatal("variants have one ID")
	}
	s.Node.Snapshot(t, otherSpaceOf(s, t, layers), "equal-step", name("equal-1"), false)
	for _, id := range []string{one, two} {
		if used := s.find(t, id).UsedBy; len(used) == 0 {
			t.Errorf("image %s is not in use", id)
		}
	}
	s.Node.RemoveSnapshot(t, otherSpace, "equal-step")
}

// otherSpaceOf unpacks the layers in the other namespace as well.
func otherSpaceOf(s *suite, t *testing.T, layers []Layer) string {
	s.Node.Import(t, otherSpace, Image{Name: name("equal-1"), Layers: layers, Variant: "1"})
	return otherSpace
}

// A container keeps the image it was made from, whatever its name means now.
func (s *suite) retagged(t *testing.T) {
	old := s.Node.Import(t, criNamespace, Image{Name: name("old"), Layers: []Layer{{"old", mib}}})
	young := s.Node.Import(t, criNamespace, Image{Name: name("young"), Layers: []Layer{{"young", mib}}})
	defer s.discard(t, old)
	defer s.discard(t, young)
	s.Node.Tag(t, criNamespace, name("old"), name("moving"))
	s.Node.Create(t, criNamespace, "keeper", name("moving"))
	s.Node.Tag(t, criNamespace, name("young"), name("moving"))
	s.wantUser(t, "retagged", old, "container "+criNamespace+"/keeper")
	if got := s.container(t, criNamespace, "keeper"); got.ImageID != old {
		t.Errorf("the container's image is %s, want %s", got.ImageID, old)
	}
	s.Node.Delete(t, criNamespace, "keeper")
	s.wantUnused(t, "deleted", old)
	s.wantUnused(t, "deleted", young)
}

func (s *suite) containers(t *testing.T) {
	img := Image{Name: name("listed"), Layers: []Layer{{"listed", mib}}}
	id := s.Node.Import(t, criNamespace, img)
	defer s.discard(t, id)
	s.Node.Import(t, otherSpace, img)
	s.Node.Import(t, otherSpace, Image{Name: name("foreign"), Layers: []Layer{{"foreign", mib}}})
	s.Node.Create(t, criNamespace, "mine", name("listed"))
	s.Node.Create(t, otherSpace, "theirs", name("listed"))
	s.Node.Create(t, otherSpace, "foreign", name("foreign"))
	for _, want := range []inventory.Container{
		{Namespace: criNamespace, ID: "mine", ImageID: id},
		{Namespace: otherSpace, ID: "theirs", ImageID: id},
		{Namespace: otherSpace, ID: "foreign"}, // of an image that the CRI does not know
	} {
		if got := s.container(t, want.Namespace, want.ID); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		s.Node.Delete(t, want.Namespace, want.ID)
	}
}

func (s *suite) container(t *testing.T, namespace, id string) inventory.Container {
	t.Helper()
	inv, err := s.Runtime.Inventory(t.Context())
	if err != nil {
		t.Fatalf("inventory: %v", err)
	}
	for _, c := range inv.Containers {
		if c.Namespace == namespace && c.ID == id {
			return c
		}
	}
	t.Fatalf("no container %s/%s", namespace, id)
	return inventory.Container{}
}

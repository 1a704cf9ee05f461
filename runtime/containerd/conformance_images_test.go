package containerd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

func (s *suite) identity(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("identity"), Layers: []Layer{{"identity", mib}}})
	defer s.discard(t, id)
	img := s.find(t, id)
	if !slices.Contains(img.References, name("identity")) {
		t.Errorf("references: %q", img.References)
	}
	if age := time.Since(img.Updated); age < -time.Minute || age > time.Hour {
		t.Errorf("updated %v ago", age)
	}
	if len(img.Layers) != 1 || img.Layers[0].Namespace != criNamespace || img.Layers[0].ChainID == "" {
		t.Errorf("layers: %+v", img.Layers)
	}
	if len(img.UsedBy) > 0 || img.Pinned || img.Sandbox || len(img.Roots) == 0 || img.NominalBytes == 0 {
		t.Errorf("a fresh image: %+v", img)
	}
	if inv := s.inventory(t); inv.Blocked != "" {
		t.Errorf("blocked: %s", inv.Blocked)
	}
	if s.Runtime.Version() == "" {
		t.Error("no version")
	}
	roots, err := s.Runtime.Roots(t.Context())
	for _, root := range []string{roots.Images, roots.Content, roots.Containers} {
		if err != nil || !strings.HasPrefix(root, "/") {
			t.Errorf("roots %+v, %v", roots, err)
		}
	}
}

func (s *suite) twoNames(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("two"), Tags: []string{name("also-two")}, Layers: []Layer{{"two", mib}}})
	before := s.find(t, id).Updated
	s.Node.Tag(t, criNamespace, name("two"), name("tagged-later"))
	tagged := s.find(t, id)
	if !tagged.Updated.After(before) {
		t.Errorf("tagged, it was updated at %v, before at %v", tagged.Updated, before)
	}
	s.Node.Import(t, criNamespace, Image{Name: name("two"), Tags: []string{name("also-two")}, Layers: []Layer{{"two", mib}}})
	if again := s.find(t, id).Updated; !again.After(tagged.Updated) {
		t.Errorf("imported again, it was updated at %v, before at %v", again, tagged.Updated)
	}
	refs := tagged.References
	for _, want := range []string{name("two"), name("also-two"), name("tagged-later")} {
		if !slices.Contains(refs, want) {
			t.Errorf("references %q lack %q", refs, want)
		}
	}
	if !slices.IsSorted(refs) {
		t.Errorf("references are not sorted: %q", refs)
	}
	s.remove(t, id) // which fails unless every name is gone
}

func (s *suite) sharedLayers(t *testing.T) {
	base := Layer{"shared-base", 8 * mib}
	first := s.Node.Import(t, criNamespace, Image{Name: name("first"), Layers: []Layer{base, {"first", 2 * mib}}})
	last := s.Node.Import(t, criNamespace, Image{Name: name("last"), Layers: []Layer{base, {"last", 3 * mib}}})
	w := s.remove(t, first)
	wantNear(t, "first sharer, snapshots", w.snapshots, 2*mib)
	wantNear(t, "first sharer, blobs", w.blobs, 2*mib)
	w = s.remove(t, last)
	wantNear(t, "last sharer, snapshots", w.snapshots, 11*mib)
	wantNear(t, "last sharer, blobs", w.blobs, 11*mib)
}

func (s *suite) lease(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("leased"), Layers: []Layer{{"leased", 2 * mib}}})
	s.Node.Lease(t, criNamespace, "runtimetest-lease", name("leased"))
	if !slices.ContainsFunc(s.inventory(t).Graph.Holders, func(h image.Holder) bool {
		return h.Kind == "lease" && h.Name == criNamespace+"/runtimetest-lease"
	}) {
		t.Error("the lease is not among the holders")
	}
	// The names' own records go, the content stays.
	if w := s.remove(t, id); w.total() > 64<<10 {
		t.Errorf("a leased image frees %+v", w)
	}
	s.Node.Release(t, criNamespace, "runtimetest-lease")
}

func (s *suite) otherNamespace(t *testing.T) {
	img := Image{Name: name("both"), Layers: []Layer{{"both", 4 * mib}}}
	s.Node.Import(t, otherSpace, img)
	id := s.Node.Import(t, criNamespace, img)
	if layers := s.find(t, id).Layers; len(layers) != 2 || layers[0].Namespace != otherSpace {
		t.Errorf("layers: %+v", layers)
	}
	w := s.remove(t, id)
	wantNear(t, "snapshots", w.snapshots, 4*mib)
	if w.blobs > 64<<10 {
		t.Errorf("blobs held by another namespace are counted: %+v", w)
	}
}

func (s *suite) pinned(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("pinned"), Layers: []Layer{{"pinned", mib}}})
	defer s.discard(t, id)
	if s.find(t, id).Pinned {
		t.Error("pinned before it was")
	}
	s.Node.Pin(t, name("pinned"))
	if !s.find(t, id).Pinned {
		t.Error("not pinned")
	}
}

func (s *suite) sandbox(t *testing.T) {
	id := s.Node.SandboxImage(t)
	if img := s.find(t, id); !img.Sandbox && !img.Pinned {
		t.Errorf("the sandbox image is neither pinned nor known: %+v", img)
	}
	other := s.Node.Import(t, criNamespace, Image{Name: name("no-sandbox"), Layers: []Layer{{"no-sandbox", mib}}})
	defer s.discard(t, other)
	if s.find(t, other).Sandbox {
		t.Error("another image counts as the sandbox image")
	}
}

func (s *suite) removalIdempotent(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("twice"), Layers: []Layer{{"twice", mib}}})
	s.remove(t, id)
	if err := s.Runtime.Remove(t.Context(), id); err != nil {
		t.Errorf("second removal: %v", err)
	}
	if _, there := s.check(t, id); there {
		t.Error("a removed image is there by Check")
	}
}

// A name of any content must neither break a reading nor hide the image.
func (s *suite) hostileNames(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("hostile"), Layers: []Layer{{"hostile", mib}}})
	evil := []string{
		"evil\nname{}\",==\\", "../../etc/passwd", " ", "sha256:zz", "image==\"x\"", strings.Repeat("long/", 200), "ünïcode \x1b[31m",
	}
	for _, n := range evil {
		s.Node.Tag(t, criNamespace, name("hostile"), n)
	}
	s.Node.Label(t, criNamespace, name("hostile"), map[string]string{
		"containerd.io/gc.ref.snapshot.":            "x",
		"containerd.io/gc.ref.snapshot.overlayfs":   "../../x",
		"containerd.io/gc.ref.content":              "sha256:nonsense",
		"containerd.io/gc.bref.image":               name("hostile"), // itself: a cycle
		"containerd.io/gc.ref.image/" + "self":      name("hostile"),
		"containerd.io/gc.cond.snapshot.overlayfs/": "usedat<|",
	})
	refs := s.find(t, id).References
	for _, n := range evil {
		if !slices.Contains(refs, n) {
			t.Errorf("references lack %q", n)
		}
	}
	s.Node.Create(t, criNamespace, "hostile", name("hostile"))
	if used := s.find(t, id).UsedBy; len(used) == 0 {
		t.Error("in use, but nobody uses it")
	}
	s.Node.Delete(t, criNamespace, "hostile")
	s.remove(t, id)
}

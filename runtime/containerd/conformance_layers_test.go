package containerd_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func (s *suite) resolveLayer(t *testing.T) {
	t.Run("one layer", func(t *testing.T) {
		s.resolveBothWays(t, Image{Name: name("single"), Runnable: true, Variant: "single"})
	})
	t.Run("many layers", func(t *testing.T) {
		layers := []Layer{{"m1", mib}, {"m2", mib}, {"m3", mib}, {"m4", mib}}
		s.resolveBothWays(t, Image{Name: name("many"), Layers: layers, Runnable: true})
	})
	t.Run("unknown", func(t *testing.T) {
		_, err := s.Runtime.ResolveLayer(t.Context(), inventory.Layer{
			Namespace: criNamespace, Snapshotter: "overlayfs", ChainID: "sha256:gone",
		})
		if !errors.Is(err, inventory.ErrNotFound) {
			t.Errorf("got %v, want not found", err)
		}
	})
}

// resolveBothWays resolves a layer by a view, and again by a container that
// is based on it; the kernel's word on that container decides.
func (s *suite) resolveBothWays(t *testing.T, img Image) {
	id := s.Node.Import(t, criNamespace, img)
	defer s.discard(t, id)
	layer := s.layer(t, id)
	byView, err := s.Runtime.ResolveLayer(t.Context(), layer)
	if err != nil {
		t.Fatalf("resolve by view: %v", err)
	}
	if left := s.Node.Leftovers(t); len(left) > 0 {
		t.Errorf("views left behind: %q", left)
	}
	s.Node.Run(t, criNamespace, "stander", img.Name)
	defer s.Node.Delete(t, criNamespace, "stander")
	byChild, err := s.Runtime.ResolveLayer(t.Context(), layer)
	if err != nil {
		t.Fatalf("resolve by container: %v", err)
	}
	if diff := cmp.Diff(byView, byChild); diff != "" {
		t.Errorf("by view and by container:\n%s", diff)
	}
	s.checkBelow(t, layer, byView)
	if byView.Created.IsZero() || byView.Ino == 0 || byView.Dev == 0 {
		t.Errorf("incomplete: %+v", byView)
	}
	if lower := s.Node.LowerDir(t, criNamespace, "stander"); lower != "" {
		var st unix.Stat_t
		if err := unix.Stat(lower, &st); err != nil {
			t.Fatal(err)
		}
		if byView.Path != lower || byView.Ino != st.Ino {
			t.Errorf("resolved to %s (inode %d), the kernel has %s (inode %d)", byView.Path, byView.Ino, lower, st.Ino)
		}
	}
}

// checkBelow holds the layers below against their snapshots: one place for each,
// and no place twice.
func (s *suite) checkBelow(t *testing.T, layer inventory.Layer, root inventory.LayerRoot) {
	t.Helper()
	snapshots := s.inventory(t).Snapshots
	seen := map[uint64]bool{root.Ino: true}
	for _, below := range root.Below {
		layer.ChainID = snapshots[layer].Parent
		if snap, ok := snapshots[layer]; !ok || snap.Bytes == 0 || snap.Inodes == 0 {
			t.Errorf("%s is based on %s, for which the inventory has %+v", root.Path, layer.ChainID, snap)
		}
		if seen[below.Ino] || below.Dev != root.Dev || below.Path == root.Path {
			t.Errorf("below %+v is %+v", root, below)
		}
		seen[below.Ino] = true
	}
	if parent := snapshots[layer].Parent; parent != "" {
		t.Errorf("%s is not among %+v", parent, root.Below)
	}
}

// layer returns where the image is unpacked for the CRI.
func (s *suite) layer(t *testing.T, id string) inventory.Layer {
	t.Helper()
	for _, l := range s.find(t, id).Layers {
		if l.Namespace == criNamespace {
			return l
		}
	}
	t.Fatalf("image %s is not unpacked", id)
	return inventory.Layer{}
}

func (s *suite) resolveOnFullDisk(t *testing.T) {
	id := s.Node.Import(t, criNamespace, Image{Name: name("full"), Layers: []Layer{{"full", mib}}})
	defer s.discard(t, id)
	layer := s.layer(t, id)
	undo := s.Node.FillDisk(t)
	defer undo()
	if _, err := s.Runtime.ResolveLayer(t.Context(), layer); !errors.Is(err, inventory.ErrNoSpace) {
		t.Errorf("got %v, want no space", err)
	}
	// What matters most on a full disk still works.
	s.find(t, id)
}

package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// read is what the kernel has seen of an image's top layer, or of the n-th layer
// below it.
func (w *world) read(id string, below int, files, bytes, lost uint64) bpf.HeatKey {
	w.t.Helper()
	inv, err := w.rt.Inventory(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id })
	root, err := w.rt.ResolveLayer(w.t.Context(), inv.Images[i].Layers[0])
	if err != nil {
		w.t.Fatal(err)
	}
	key := bpf.HeatKey{Filesystem: root.Dev, Inode: root.Ino, Generation: 7}
	if below > 0 {
		key.Inode = root.Below[below-1].Ino
	}
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	w.kernel.heat = append(w.kernel.heat, bpf.LayerHeat{
		HeatKey: key, SinceNS: uint64(w.sinceBoot()), Files: files, Bytes: bytes, Lost: lost,
	})
	return key
}

func (w *world) heat(id string) ImageHeat {
	w.t.Helper()
	e := w.agent.explainHeat()
	i := slices.IndexFunc(e.Images, func(i ImageHeat) bool { return i.ID == id })
	if i < 0 || e.Unknown != "" || e.Tier != bpf.HeatByPages || e.Sees == "" {
		w.t.Fatalf("no image %s in %+v", id, e)
	}
	return e.Images[i]
}

func TestHeatOfImages(t *testing.T) {
	inWorld(t, func(w *world) {
		base := fake.Layer{Name: "base", Bytes: 60 * mib, Inodes: 100}
		a, b := w.add("a", 80, base), w.add("b", 40, base) // half of it is the snapshot
		cold := w.add("cold", 20)
		w.up()
		began := time.Now()
		w.pass(time.Second)
		w.read(a, 0, 3, 10*mib, 0)
		w.read(a, 1, 5, 15*mib, 0)
		w.read(b, 0, 1, 99*mib, 4)
		w.kernel.heat = append(w.kernel.heat, bpf.LayerHeat{HeatKey: bpf.HeatKey{Filesystem: 1, Inode: 2}, Files: 1000}) // of a stranger

		got := w.heat(a)
		if got.Bytes != 100*mib || got.ReadBytes != 25*mib || got.ReadPercent != 25 || got.ReadFiles != 8 || got.Inodes != 110 ||
			!got.Known || got.AtLeast || len(got.Layers) != 2 {
			t.Errorf("a: %+v", got)
		}
		if l := got.Layers[1]; l.ReadFiles != 5 || l.ReadPercent != 25 || l.Since == nil || !l.Since.After(began) {
			t.Errorf("its base: %+v", l)
		}
		if got := w.heat(b); !got.AtLeast || got.Layers[0].ReadPercent != 100 || got.Layers[1].ReadFiles != 5 {
			t.Errorf("b: %+v", got)
		}
		if got := w.heat(cold); got.ReadPercent != 0 || !got.Known || got.Layers[0].Since != nil {
			t.Errorf("cold: %+v", got)
		}
		if e := w.agent.explainHeat(); e.Images[2].ID != cold {
			t.Errorf("the least read image is not the last: %+v", e.Images)
		}
		for name, want := range map[string]float64{
			"ebb_node_layer_bytes": float64(130 * mib), "ebb_node_layer_read_bytes": float64(124 * mib),
			"ebb_node_layer_read_files": 9, "ebb_node_layers_unread_unknown": 1, "ebb_node_image_read_percent": 3,
		} {
			if got := w.metric(name); got != want {
				t.Errorf("%s is %g, want %g", name, got, want)
			}
		}
		if w.metric("ebb_node_layer_heat_tier", bpf.HeatByPages) != 1 || w.metric("ebb_node_layer_heat_tier") != 1 {
			t.Error("the tier is not exported")
		}
	})
}

// What no image has is forgotten, but not at once: its image may be on its way.
func TestHeatOfGoneLayersIsForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		kept, gone := w.add("kept", 20), w.add("gone", 20)
		w.up()
		here, there := w.read(kept, 0, 1, mib, 0), w.read(gone, 0, 1, mib, 0)
		has := func(k bpf.HeatKey) bool {
			w.kernel.mu.Lock()
			defer w.kernel.mu.Unlock()
			return slices.ContainsFunc(w.kernel.heat, func(l bpf.LayerHeat) bool { return l.HeatKey == k })
		}
		w.pass(20 * time.Minute)
		if !has(here) || !has(there) {
			t.Fatal("layers of images were forgotten")
		}
		if err := w.rt.Remove(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if !has(there) {
			t.Error("forgotten at once")
		}
		w.pass(15 * time.Minute)
		if has(there) || !has(here) {
			t.Errorf("after two looks there are %+v", w.kernel.heat)
		}
	})
}

func TestHeatWithoutProgramsOrWish(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add("a", 20)
		w.cfg.Kernel.LayerHeat = config.HeatOff
		w.up()
		if e := w.agent.explainHeat(); e.Unknown != "switched off by kernel.layerHeat" || e.Tier != bpf.HeatNone || len(e.Images) != 0 {
			t.Errorf("switched off: %+v", e)
		}
		if w.metric("ebb_node_layer_heat_tier", bpf.HeatNone) != 1 {
			t.Error("the tier is not none")
		}
		w.down()
		w.cfg.Kernel.LayerHeat = config.HeatAuto
		w.kernel.failHeat = errors.New("no such map")
		w.up()
		if e := w.agent.explainHeat(); e.Unknown != "no such map" {
			t.Errorf("unreadable: %+v", e)
		}
		w.down()
		w.kernel = nil
		w.up()
		if e := w.agent.explainHeat(); e.Unknown == "" || e.Tier != bpf.HeatNone {
			t.Errorf("without programs: %+v", e)
		}
	})
}

// A directory that was made anew has nothing of the one before.
func TestHeatOfDirectoriesMadeAnew(t *testing.T) {
	at := bpf.HeatKey{Filesystem: 8, Inode: 5, Generation: 1}
	before, after := bpf.LayerHeat{HeatKey: at, SinceNS: 10, Files: 100}, bpf.LayerHeat{HeatKey: at, SinceNS: 20, Files: 2}
	after.Generation = 2
	old, both := newHeatFinder([]bpf.LayerHeat{before}), newHeatFinder([]bpf.LayerHeat{after, before})
	place := inventory.Place{Dev: 8, Ino: 5, Generation: 2}
	if l, ok := old.at(place); ok {
		t.Errorf("found %+v", l)
	}
	if l, ok := both.at(place); !ok || l.Files != 2 {
		t.Errorf("found %+v, %v", l, ok)
	}
	place.Generation = 0 // the filesystem does not say
	if l, ok := both.at(place); !ok || l.Files != 2 {
		t.Errorf("without generations found %+v, %v", l, ok)
	}
}

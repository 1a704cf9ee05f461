package node

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/stats"
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

func (w *world) heat(id string) stats.ImageHeat {
	w.t.Helper()
	e := w.agent.heat.Explain()
	i := slices.IndexFunc(e.Images, func(i stats.ImageHeat) bool { return i.ID == id })
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
		if got.Bytes != 100*mib || got.ReadBytes != 25*mib || figure(got.ReadPercent) != 25 || got.ReadFiles != 8 || got.Inodes != 110 ||
			!got.Known || got.AtLeast || len(got.Layers) != 2 {
			t.Errorf("a: %+v", got)
		}
		if l := got.Layers[1]; figure(l.ReadFiles) != 5 || figure(l.ReadPercent) != 25 || l.Since == nil || !l.Since.After(began) {
			t.Errorf("its base: %+v", l)
		}
		if got := w.heat(b); !got.AtLeast || figure(got.Layers[0].ReadPercent) != 100 || figure(got.Layers[1].ReadFiles) != 5 {
			t.Errorf("b: %+v", got)
		}
		wantUnseen(t, w.heat(cold), 1, "sandbox")
		if e := w.agent.heat.Explain(); e.Images[2].ID != cold {
			t.Errorf("the least read image is not the last: %+v", e.Images)
		}
		for name, want := range map[string]float64{
			"ebb_node_layer_bytes": float64(130 * mib), "ebb_node_layer_read_bytes": float64(124 * mib),
			"ebb_node_layers_partially_observed": 2,
		} {
			if got := w.metric(name); got != want {
				t.Errorf("%s is %g, want %g", name, got, want)
			}
		}
		if w.metric("ebb_node_layer_heat_info", bpf.HeatByPages) != 1 || w.metric("ebb_node_layer_heat_info") != 1 {
			t.Error("the tier is not exported")
		}
	})
}

// TestHeatUnknownIsNotZero: of what no process was seen to have in its root nobody
// knows whether it was read. A layer that was seen and not read is at 0 %.
func TestHeatUnknownIsNotZero(t *testing.T) {
	inWorld(t, func(w *world) {
		base := fake.Layer{Name: "base", Bytes: 60 * mib, Inodes: 100}
		ran, sandboxed, unread := w.add("ran", 80, base), w.add("sandboxed", 80, base), w.add("unread", 20)
		w.up()
		w.pass(time.Second)
		w.read(ran, 0, 1, mib, 0)
		w.read(ran, 1, 1, 6*mib, 0)
		w.read(unread, 0, 0, 0, 0)
		if got := w.heat(unread); !got.Known || got.ReadPercent == nil || *got.ReadPercent != 0 || got.Layers[0].Since == nil {
			t.Errorf("seen and not read: %+v", got)
		}
		got := w.heat(sandboxed)
		wantUnseen(t, got, 1, "sandbox")
		if got.ReadBytes != 6*mib || figure(got.Layers[1].ReadPercent) != 10 {
			t.Errorf("what is known of the base that it shares: %+v", got)
		}
		raw, err := json.Marshal(got)
		if err != nil || !strings.Contains(string(raw), `"readPercent":null`) {
			t.Errorf("%s, %v", raw, err)
		}
		w.kernel.mu.Lock()
		w.kernel.layersLost = 1
		w.kernel.mu.Unlock()
		wantUnseen(t, w.heat(sandboxed), 1, "no room")
	})
}

// wantUnseen checks that so many layers, from the topmost one, are not known.
func wantUnseen(t *testing.T, got stats.ImageHeat, layers int, why string) {
	t.Helper()
	if got.Known || !got.AtLeast || got.ReadPercent != nil || !strings.Contains(got.Unknown, why) {
		t.Errorf("%+v", got)
	}
	for n, l := range got.Layers {
		unseen := !l.Known && l.AtLeast && l.Since == nil && l.ReadBytes == nil && l.ReadFiles == nil && l.ReadPercent == nil && strings.Contains(l.Unknown, why)
		if unseen != (n < layers) {
			t.Errorf("layer %d: %+v", n, l)
		}
	}
}

// figure is 0 as well if there is none.
func figure[N float64 | uint64](n *N) (value N) {
	if n != nil {
		value = *n
	}
	return value
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

// What was read of layers counts on after their snapshotter could not be read for an hour.
func TestHeatOfABrokenSnapshotter(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.add("a", 20)
		w.up()
		w.read(id, 0, 1, mib, 0)
		w.rt.SetFaults(fake.Faults{Broken: map[string]string{"overlayfs": "timeout"}, In: map[string]string{id: "overlayfs"}})
		w.pass(time.Hour)
		w.rt.SetFaults(fake.Faults{})
		w.pass(time.Hour)
		if got := w.heat(id); figure(got.Layers[0].ReadFiles) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestHeatWithoutProgramsOrWish(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add("a", 20)
		w.cfg.Kernel.LayerHeat = config.HeatOff
		w.up()
		if e := w.agent.heat.Explain(); e.Unknown != "switched off by kernel.layerHeat" || e.Tier != bpf.HeatNone || len(e.Images) != 0 {
			t.Errorf("switched off: %+v", e)
		}
		if w.metric("ebb_node_layer_heat_info", bpf.HeatNone) != 1 {
			t.Error("the tier is not none")
		}
		w.down()
		w.cfg.Kernel.LayerHeat = config.HeatAuto
		w.kernel.failHeat = errors.New("no such map")
		w.up()
		if e := w.agent.heat.Explain(); e.Unknown != "no such map" {
			t.Errorf("unreadable: %+v", e)
		}
		w.down()
		w.kernel = nil
		w.up()
		if e := w.agent.heat.Explain(); e.Unknown == "" || e.Tier != bpf.HeatNone {
			t.Errorf("without programs: %+v", e)
		}
	})
}

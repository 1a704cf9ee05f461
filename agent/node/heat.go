package node

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// heat joins what the kernel knows of layers' roots with what the runtime calls
// the layers. The loop brings the index; the server and each scrape read it.
// Nothing is decided by it.
type heat struct {
	probes Probes
	index  atomic.Pointer[[]heatStack] // nil: nothing is listed yet
}

// heatStack is an image in one namespace and snapshotter.
type heatStack struct {
	image      string
	references []string
	layer      inventory.Layer // the topmost
	layers     []heatPlace     // topmost first
}

// heatPlace is one layer. Without a place it has not been resolved.
type heatPlace struct {
	chain string
	place inventory.Place
	snap  inventory.Snapshot
}

// ImageHeat is how much of an image was ever read, in one namespace and
// snapshotter, by the containers made from it or from others that share layers.
type ImageHeat struct {
	ID          string      `json:"id"`
	References  []string    `json:"references"`
	Namespace   string      `json:"namespace"`
	Snapshotter string      `json:"snapshotter"`
	Known       bool        `json:"known"`   // the place of every layer is
	AtLeast     bool        `json:"atLeast"` // some reads could not be remembered
	Bytes       uint64      `json:"bytes"`   // on disk, as the runtime measured it
	Inodes      uint64      `json:"inodes"`  // directories and links too
	ReadBytes   uint64      `json:"readBytes"`
	ReadFiles   uint64      `json:"readFiles"`
	ReadPercent float64     `json:"readPercent"` // of the bytes
	Layers      []ReadLayer `json:"layers"`      // topmost first
}

// ReadLayer is one layer of an image.
type ReadLayer struct {
	ChainID     string     `json:"chainID"`
	Known       bool       `json:"known"`
	AtLeast     bool       `json:"atLeast"`
	Since       *time.Time `json:"since,omitempty"` // from when on reads were noticed; absent: there was none
	Bytes       uint64     `json:"bytes"`
	Inodes      uint64     `json:"inodes"`
	ReadBytes   uint64     `json:"readBytes"` // the sizes of the files, however much of each was read
	ReadFiles   uint64     `json:"readFiles"`
	ReadPercent float64    `json:"readPercent"`
}

// read returns the images, those of which most was read first.
func (h *heat) read(wall func(bootNS uint64) time.Time) ([]ImageHeat, error) {
	known, err := h.probes.Heat()
	if err != nil {
		return nil, err
	}
	index := h.index.Load()
	if index == nil {
		return nil, nil
	}
	found := newHeatFinder(known)
	list := make([]ImageHeat, 0, len(*index))
	for _, stack := range *index {
		list = append(list, stack.read(found, wall))
	}
	slices.SortStableFunc(list, func(a, b ImageHeat) int {
		return cmp.Or(cmp.Compare(b.ReadPercent, a.ReadPercent), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Snapshotter, b.Snapshotter))
	})
	return list, nil
}

func (s heatStack) read(found heatFinder, wall func(uint64) time.Time) ImageHeat {
	i := ImageHeat{
		ID: s.image, References: s.references, Namespace: s.layer.Namespace, Snapshotter: s.layer.Snapshotter,
		Known: true, Layers: make([]ReadLayer, 0, len(s.layers)),
	}
	for _, p := range s.layers {
		l := ReadLayer{ChainID: p.chain, Known: p.place.Ino != 0, Bytes: p.snap.Bytes, Inodes: p.snap.Inodes}
		if k, ok := found.at(p.place); ok {
			since := wall(k.SinceNS)
			l.Since, l.ReadBytes, l.ReadFiles, l.AtLeast = &since, k.Bytes, k.Files, k.Lost > 0
		}
		l.ReadPercent = percentOf(l.ReadBytes, l.Bytes)
		i.Known, i.AtLeast = i.Known && l.Known, i.AtLeast || l.AtLeast
		i.Bytes += l.Bytes
		i.Inodes += l.Inodes
		i.ReadBytes += l.ReadBytes
		i.ReadFiles += l.ReadFiles
		i.Layers = append(i.Layers, l)
	}
	i.ReadPercent = percentOf(i.ReadBytes, i.Bytes)
	return i
}

// percentOf is at most 100: a file with holes is larger than what it takes.
func percentOf(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(100, 100*float64(part)/float64(whole))
}

// heatFinder finds a layer by its root directory.
type heatFinder map[bpf.Key]bpf.LayerHeat

// newHeatFinder prefers, of directories that had the same number, the latest.
func newHeatFinder(known []bpf.LayerHeat) heatFinder {
	found := make(heatFinder, len(known))
	for _, k := range known {
		at := bpf.Key{Dev: k.Filesystem, Ino: k.Inode}
		if was, ok := found[at]; !ok || k.SinceNS > was.SinceNS {
			found[at] = k
		}
	}
	return found
}

// at finds nothing if only a directory before this one was read.
func (f heatFinder) at(p inventory.Place) (bpf.LayerHeat, bool) {
	k, ok := f[keyOf(p)]
	return k, ok && (p.Generation == 0 || uint64(p.Generation) == k.Generation)
}

// keyOf is how the kernel programs know a layer.
func keyOf(p inventory.Place) bpf.Key {
	if p.UUID != ([16]byte{}) {
		return bpf.Key{Dev: bpf.ErofsFilesystem(p.UUID), Ino: p.Ino}
	}
	return bpf.Key{Dev: p.Dev, Ino: p.Ino}
}

// indexHeat tells what the layers of all images are. It is called when that
// changes, and when more is known of where they are.
func (a *Agent) indexHeat() {
	h := a.metrics.heat.Load()
	if h == nil {
		return
	}
	index := make([]heatStack, 0, len(a.known))
	for _, i := range a.known {
		for _, l := range i.Layers {
			index = append(index, heatStack{image: i.ID, references: i.References, layer: l, layers: a.placesOf(l)})
		}
	}
	h.index.Store(&index)
}

// placesOf follows the layers of an image down. The places stand in the record
// of the topmost one, in the same order.
func (a *Agent) placesOf(top inventory.Layer) []heatPlace {
	var list []heatPlace
	var places []inventory.Place
	if _, ok := a.layers.tracked[top]; ok { // it was looked at in this run
		known := a.rec.Layers[top]
		places = append([]inventory.Place{known.Place()}, known.Below...)
	}
	// An image has 127 layers at most; a circle cannot be, and would end here.
	for l := top; l.ChainID != "" && len(list) < 512; {
		snap, ok := a.snapshots[l]
		if !ok {
			break
		}
		p := heatPlace{chain: l.ChainID, snap: snap}
		if len(list) < len(places) {
			p.place = places[len(list)]
		}
		list = append(list, p)
		l.ChainID = snap.Parent
	}
	return list
}

// forgetHeat makes room in the kernel: a layer goes that is no image's now and
// was none's at the last time, which leaves the runtime the time to finish what
// it is about to make an image of. It waits until every layer
// is resolved that can be.
func (a *Agent) forgetHeat() {
	h := a.metrics.heat.Load()
	if h == nil || a.known == nil || a.layers.unsettled() {
		return
	}
	known, err := a.probes.Heat()
	if errors.Is(err, bpf.ErrNotAttached) {
		return // said at start
	}
	ours := map[bpf.HeatKey]bool{}
	if index := h.index.Load(); index != nil {
		found := newHeatFinder(known)
		for _, stack := range *index {
			for _, p := range stack.layers {
				if k, ok := found.at(p.place); ok {
					ours[k.HeatKey] = true
				}
			}
		}
	}
	var gone []bpf.HeatKey
	strange := map[bpf.HeatKey]bool{}
	for _, k := range known {
		switch {
		case ours[k.HeatKey]:
		case a.strangeHeat[k.HeatKey]:
			gone = append(gone, k.HeatKey)
		default:
			strange[k.HeatKey] = true
		}
	}
	a.strangeHeat = strange
	if err == nil {
		err = a.probes.ForgetHeat(gone...)
	}
	if err != nil {
		a.said.once(a.log, "heat", slog.LevelWarn, "layers that are gone keep their place in the kernel", "error", err)
		return
	}
	a.said.clear(a.log, "heat", "layers that are gone can be forgotten again")
}

// adoptHeat makes heat readable, if it is wanted.
func (a *Agent) adoptHeat() {
	if a.cfg.Kernel.LayerHeat != config.HeatOff {
		a.metrics.heat.Store(&heat{probes: a.probes})
	}
}

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
	index  atomic.Pointer[heatIndex] // nil: nothing is listed yet
}

// heatIndex says what the layers of all images are. Its layers are put together when they
// are asked for: of thousands of images they would take megabytes.
type heatIndex struct {
	stacks    []heatStack
	snapshots map[inventory.Layer]inventory.Snapshot // never changed
}

// heatStack is an image in one namespace and snapshotter.
type heatStack struct {
	image      string
	references []string
	layer      inventory.Layer     // the topmost
	root       inventory.LayerRoot // the zero value: not resolved in this run
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
	Known       bool        `json:"known"`             // every layer is
	Unknown     string      `json:"unknown,omitempty"` // why not
	AtLeast     bool        `json:"atLeast"`           // more may have been read than is told
	Bytes       uint64      `json:"bytes"`             // on disk, as the runtime measured it
	Inodes      uint64      `json:"inodes"`            // directories and links too
	ReadBytes   uint64      `json:"readBytes"`         // of the layers that are known
	ReadFiles   uint64      `json:"readFiles"`
	ReadPercent *float64    `json:"readPercent"` // of the bytes; null: unknown
	Layers      []ReadLayer `json:"layers"`      // topmost first
}

// ReadLayer is one layer of an image. No reads were seen of a layer until a
// container whose root it is part of was: what is read otherwise, by a sandbox
// that is no process of this kernel or through an image volume, is not seen.
type ReadLayer struct {
	ChainID     string     `json:"chainID"`
	Known       bool       `json:"known"`
	Unknown     string     `json:"unknown,omitempty"` // why not
	AtLeast     bool       `json:"atLeast"`
	Since       *time.Time `json:"since,omitempty"` // from when on reads were noticed; absent: they were not
	Bytes       uint64     `json:"bytes"`
	Inodes      uint64     `json:"inodes"`
	ReadBytes   *uint64    `json:"readBytes"` // the sizes of the files, however much of each was read; null: unknown
	ReadFiles   *uint64    `json:"readFiles"`
	ReadPercent *float64   `json:"readPercent"`
}

// Why reads of a layer are not known.
const (
	unseenLayer     = "no process was seen with this layer in its root: none ran, or in a sandbox (gVisor, Kata) or an image volume, whose reads the kernel programs do not see"
	unresolvedLayer = "its directory is not known yet"
	noHeatSlot      = "; or there was no room for another layer (ebb_node_probe_events_lost_total)"
)

// read returns the images, those of which most was read first, and at the end
// those of which that is not known.
func (h *heat) read(wall func(bootNS uint64) time.Time) ([]ImageHeat, error) {
	known, err := h.probes.Heat()
	if err != nil {
		return nil, err
	}
	index := h.index.Load()
	if index == nil {
		return nil, nil
	}
	counters, err := h.probes.Counters()
	if err != nil {
		return nil, err
	}
	found := newHeatFinder(known)
	list := make([]ImageHeat, 0, len(index.stacks))
	for _, stack := range index.stacks {
		list = append(list, stack.read(index.layersOf(stack), found, counters.HeatLayersLost > 0, wall))
	}
	slices.SortStableFunc(list, func(a, b ImageHeat) int {
		return cmp.Or(cmp.Compare(b.percent(), a.percent()), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Snapshotter, b.Snapshotter))
	})
	return list, nil
}

func (s heatStack) read(layers []heatPlace, found heatFinder, full bool, wall func(uint64) time.Time) ImageHeat {
	i := ImageHeat{
		ID: s.image, References: s.references, Namespace: s.layer.Namespace, Snapshotter: s.layer.Snapshotter,
		Known: true, Layers: make([]ReadLayer, 0, len(layers)),
	}
	for _, p := range layers {
		l := p.read(found, full, wall)
		i.Known, i.AtLeast = i.Known && l.Known, i.AtLeast || l.AtLeast
		i.Unknown = cmp.Or(i.Unknown, l.Unknown)
		i.Bytes += l.Bytes
		i.Inodes += l.Inodes
		if l.Known {
			i.ReadBytes += *l.ReadBytes
			i.ReadFiles += *l.ReadFiles
		}
		i.Layers = append(i.Layers, l)
	}
	if i.Known {
		i.ReadPercent = percentOf(i.ReadBytes, i.Bytes)
	}
	return i
}

// read joins a layer with what was seen of it.
func (p heatPlace) read(found heatFinder, full bool, wall func(uint64) time.Time) ReadLayer {
	l := ReadLayer{ChainID: p.chain, Bytes: p.snap.Bytes, Inodes: p.snap.Inodes}
	k, ok := found.at(p.place)
	switch {
	case p.place.Ino == 0:
		l.Unknown = unresolvedLayer
	case !ok && full:
		l.Unknown = unseenLayer + noHeatSlot
	case !ok:
		l.Unknown = unseenLayer
	default:
		since := wall(k.SinceNS)
		l.Known, l.Since, l.ReadBytes, l.ReadFiles, l.AtLeast = true, &since, &k.Bytes, &k.Files, k.Lost > 0
		l.ReadPercent = percentOf(k.Bytes, l.Bytes)
	}
	l.AtLeast = l.AtLeast || !l.Known
	return l
}

// percentOf is at most 100: a file with holes is larger than what it takes.
func percentOf(part, whole uint64) *float64 {
	percent := 0.0
	if whole != 0 {
		percent = min(100, 100*float64(part)/float64(whole))
	}
	return &percent
}

// percent is below any that is known if it is not.
func (i *ImageHeat) percent() float64 {
	if i.ReadPercent == nil {
		return -1
	}
	return *i.ReadPercent
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
	index := &heatIndex{stacks: make([]heatStack, 0, len(a.known)), snapshots: a.snapshots}
	for _, i := range a.known {
		for _, l := range i.Layers {
			s := heatStack{image: i.ID, references: i.References, layer: l}
			if _, ok := a.layers.tracked[l]; ok { // it was looked at in this run
				s.root = a.rec.Layers[l].LayerRoot
			}
			index.stacks = append(index.stacks, s)
		}
	}
	h.index.Store(index)
}

// layersOf follows the layers of an image down, topmost first. Their places stand in the
// record of the topmost one, in the same order.
func (x *heatIndex) layersOf(s heatStack) []heatPlace {
	places := s.root.Below
	list := make([]heatPlace, 0, 1+len(places))
	// An image has 127 layers at most; a circle cannot be, and would end here.
	for l := s.layer; l.ChainID != "" && len(list) < 512; {
		snap, ok := x.snapshots[l]
		if !ok {
			break
		}
		p := heatPlace{chain: l.ChainID, snap: snap}
		if n := len(list); n == 0 {
			p.place = s.root.Place()
		} else if n <= len(places) {
			p.place = places[n-1]
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
		for _, stack := range index.stacks {
			for _, p := range index.layersOf(stack) {
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

package stats

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// HeatProbes is what Heat needs of the kernel programs.
type HeatProbes interface {
	Heat() ([]bpf.LayerHeat, error)
	ForgetHeat(gone ...bpf.HeatKey) error
	HeatTier() (tier string, why error)
	Counters() (bpf.Counters, error)
}

// Heat joins the kernel's counts by layer root with the runtime's names of the layers. The loop
// supplies the index; pages and scrapes read it.
type Heat struct {
	probes     HeatProbes
	off        string // why nothing is counted; "": reads are counted
	sources    clock.Sources
	conditions *condition.Set
	index      atomic.Pointer[heatIndex] // nil: nothing is listed yet
	untracked  map[bpf.HeatKey]bool      // owned by the loop: layers of no image at the last Forget
}

// NewHeat registers the metrics of reads. off is why nothing is counted, "" if reads are counted.
func NewHeat(r prometheus.Registerer, probes HeatProbes, off string, s clock.Sources, c *condition.Set) *Heat {
	h := &Heat{probes: probes, off: off, sources: s, conditions: c}
	r.MustRegister(heatCollector{h})
	return h
}

// heatIndex has the layers of all images. The layers of an image are collected on request: for
// thousands of images, they would take megabytes.
type heatIndex struct {
	stacks    []heatStack
	snapshots map[inventory.Layer]inventory.Snapshot // never modified
}

// heatStack is an image in one namespace and snapshotter.
type heatStack struct {
	image      string
	references []string
	layer      inventory.Layer     // the topmost
	root       inventory.LayerRoot // the zero value: not resolved in this run
}

// heatPlace is one layer. With the zero place it has not been resolved.
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
	Known       bool        `json:"known"`             // every layer is known
	Unknown     string      `json:"unknown,omitempty"` // why not
	AtLeast     bool        `json:"atLeast"`           // more may have been read than is reported
	Bytes       uint64      `json:"bytes"`             // on disk, as the runtime measured it
	Inodes      uint64      `json:"inodes"`            // directories and links too
	ReadBytes   uint64      `json:"readBytes"`         // of the layers that are known
	ReadFiles   uint64      `json:"readFiles"`
	ReadPercent *float64    `json:"readPercent"` // of the bytes; null: unknown
	Layers      []ReadLayer `json:"layers"`      // topmost first
}

// ReadLayer is one layer of an image. Its reads are seen from the first time that a container with
// the layer in its root was seen. Not seen are reads by a sandbox that is no process of this
// kernel, and reads through an image volume.
type ReadLayer struct {
	ChainID     string     `json:"chainID"`
	Known       bool       `json:"known"`
	Unknown     string     `json:"unknown,omitempty"` // why not
	AtLeast     bool       `json:"atLeast"`
	Since       *time.Time `json:"since,omitempty"` // when counting of its reads began; absent: it has not
	Bytes       uint64     `json:"bytes"`
	Inodes      uint64     `json:"inodes"`
	ReadBytes   *uint64    `json:"readBytes"` // the sizes of the files, however much of each was read; null: unknown
	ReadFiles   *uint64    `json:"readFiles"`
	ReadPercent *float64   `json:"readPercent"`
}

// Reasons why the reads of a layer are not known.
const (
	unseenLayer     = "no process was seen with this layer in its root: none ran, or in a sandbox (gVisor, Kata) or an image volume, whose reads the kernel programs do not see"
	unresolvedLayer = "its directory is not known yet"
	noHeatSlot      = "; or there was no room for another layer (ebb_node_probe_events_lost_total)"
)

// read returns the images, the one with the highest percentage read first. Images with an unknown
// percentage come last.
func (h *Heat) read(wall func(bootNS uint64) time.Time) ([]ImageHeat, error) {
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

// read joins a layer with the reads that the kernel counted.
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

// percentOf returns part as a percentage of whole, at most 100: a file with holes is larger than
// what it takes.
func percentOf(part, whole uint64) *float64 {
	percent := 0.0
	if whole != 0 {
		percent = min(100, 100*float64(part)/float64(whole))
	}
	return &percent
}

// percent returns the percentage read, or -1 if it is unknown.
func (i *ImageHeat) percent() float64 {
	if i.ReadPercent == nil {
		return -1
	}
	return *i.ReadPercent
}

// heatFinder finds a layer by its root directory.
type heatFinder map[bpf.Key]bpf.LayerHeat

// newHeatFinder indexes layers by directory. Of directories that had the same inode number, it
// keeps the latest.
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

// at returns the reads of the directory at a place. It finds nothing if only an earlier directory
// with the same inode number was read.
func (f heatFinder) at(p inventory.Place) (bpf.LayerHeat, bool) {
	k, ok := f[lastuse.KeyOf(p)]
	return k, ok && (p.Generation == 0 || uint64(p.Generation) == k.Generation)
}

// Index sets the layers of all images, and where each was found in this run: root returns the zero
// value for a layer that was not found yet. It is called when either changes.
func (h *Heat) Index(images map[string]inventory.Image, root func(inventory.Layer) inventory.LayerRoot, snapshots map[inventory.Layer]inventory.Snapshot) {
	if h.off != "" {
		return
	}
	index := &heatIndex{stacks: make([]heatStack, 0, len(images)), snapshots: snapshots}
	for _, i := range images {
		for _, l := range i.Layers {
			index.stacks = append(index.stacks, heatStack{image: i.ID, references: i.References, layer: l, root: root(l)})
		}
	}
	h.index.Store(index)
}

// layersOf returns the layers of an image, topmost first. The record of the topmost layer has the
// places of those below it, in the same order.
func (x *heatIndex) layersOf(s heatStack) []heatPlace {
	places := s.root.Below
	list := make([]heatPlace, 0, 1+len(places))
	// An image has 127 layers at most. A cycle of parents cannot occur, and would end here.
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

// Forget frees the kernel's entries of layers that belong to no image, now and at the last call.
// One call is not enough, because the runtime may be about to make an image of such a layer. It is
// called only while every layer that can be resolved is.
func (h *Heat) Forget() {
	if h.off != "" {
		return
	}
	known, err := h.probes.Heat()
	if errors.Is(err, bpf.ErrNotAttached) {
		return // logged at the start
	}
	if err == nil {
		err = h.probes.ForgetHeat(h.gone(known)...)
	}
	if err != nil {
		h.conditions.Begin("heat", slog.LevelWarn, "cannot free the kernel's entries of removed layers", "error", err)
		return
	}
	h.conditions.End("heat", "layers that are gone can be forgotten again")
}

// gone returns the layers that no image has, now and at the last call.
func (h *Heat) gone(known []bpf.LayerHeat) (gone []bpf.HeatKey) {
	tracked := map[bpf.HeatKey]bool{}
	if index := h.index.Load(); index != nil {
		found := newHeatFinder(known)
		for _, stack := range index.stacks {
			for _, p := range index.layersOf(stack) {
				if k, ok := found.at(p.place); ok {
					tracked[k.HeatKey] = true
				}
			}
		}
	}
	untracked := map[bpf.HeatKey]bool{}
	for _, k := range known {
		switch {
		case tracked[k.HeatKey]:
		case h.untracked[k.HeatKey]:
			gone = append(gone, k.HeatKey)
		default:
			untracked[k.HeatKey] = true
		}
	}
	h.untracked = untracked
	return gone
}

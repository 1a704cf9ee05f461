package containerd

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// criNamespace is the namespace of the CRI plugin's images and containers.
const criNamespace = inventory.CRINamespace

// reading is the result of one read of the runtime. Everything derived from it needs no further
// call.
type reading struct {
	spaces    []space
	images    []cri.Image
	criImage  map[string]string // CRI container ID → image ID
	criState  map[string]container.State
	sandbox   sandboxImage
	broken    brokenSnapshotters
	unwatched map[string]string // inventory.Inventory.Unwatched
	now       time.Time
}

// sandboxImage is how the sandbox (pause) image is identified.
type sandboxImage struct {
	name string // "" if the CRI does not report it
	// seen is the image of the newest sandbox ever listed; "" if there was none.
	seen string
	// pinned means that the runtime pins the sandbox image itself. containerd 2 pins it if its name
	// equals the one in the configuration exactly. containerd 1.7 pins it when it pulls it; there
	// ebb relies on the pin only while a full disk keeps the CRI from reporting the name.
	pinned bool
}

// known reports whether the sandbox image is certain to be kept: by its name, by a sandbox that was
// made from it, or by its pin. pinned alone is not enough: at least one image must be pinned.
func (s sandboxImage) known(images []inventory.Image) bool {
	pinned := func(i inventory.Image) bool { return i.Pinned }
	return s.name != "" || s.seen != "" || s.pinned && slices.ContainsFunc(images, pinned)
}

// is reports whether a name is the sandbox image's.
func (s sandboxImage) is(name string) bool { return name != "" && (name == s.name || name == s.seen) }

// entry is a CRI image and its records in the CRI's namespace.
type entry struct {
	cri     cri.Image
	records []*imageRecord
}

// entries joins the CRI's images with their records. An image without a complete record is left
// out: the CRI's view is behind, or content is missing, and nothing is known about the image's
// layers.
func (r *reading) entries() []entry {
	byID := make(map[string][]*imageRecord, len(r.images))
	for i := range r.spaces {
		if r.spaces[i].name != criNamespace {
			continue
		}
		for j := range r.spaces[i].images {
			rec := &r.spaces[i].images[j]
			if rec.content.id != "" {
				byID[rec.content.id] = append(byID[rec.content.id], rec)
			}
		}
	}
	entries := make([]entry, 0, len(r.images))
	for _, i := range r.images {
		if records := byID[i.ID]; len(records) > 0 {
			entries = append(entries, entry{cri: i, records: records})
			delete(byID, i.ID) // in case the runtime lists an image twice
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.cri.ID, b.cri.ID) })
	return entries
}

func (r *reading) usage(entries []entry) *usage {
	set := make(imageSet, len(entries))
	for _, e := range entries {
		set[e.cri.ID] = e.records[0].content.chain
	}
	return newUsage(set, r.criImage)
}

// graph builds the graph of what keeps what. The records of entries are those that can be removed.
func (r *reading) graph(entries []entry) *graphBuilder {
	removable := map[object]bool{}
	for _, e := range entries {
		for _, rec := range e.records {
			removable[object{kindImage, criNamespace, rec.name}] = true
		}
	}
	return buildGraph(r.spaces, r.now, removable)
}

// inventory computes the inventory from the reading, without any call.
func (r *reading) inventory() *inventory.Inventory {
	entries := r.entries()
	use := r.usage(entries)
	var containers []inventory.Container
	for i := range r.spaces {
		containers = append(containers, use.add(&r.spaces[i])...)
	}
	b := r.graph(entries)
	layers := layersOf(r.spaces)

	inv := &inventory.Inventory{
		Graph: b.graph, Containers: containers, Snapshots: snapshotsOf(r.spaces), Images: make([]inventory.Image, 0, len(entries)),
		Broken: r.broken, Unwatched: r.unwatched,
	}
	unknown := r.unpackedUnseen()
	for _, e := range entries {
		img := r.image(e, use, layers)
		img.Unread = unknown[e.cri.ID]
		img.Roots = make([]image.NodeID, 0, len(e.records))
		for _, rec := range e.records {
			img.Roots = append(img.Roots, b.index[object{kindImage, criNamespace, rec.name}])
		}
		inv.Images = append(inv.Images, img)
	}
	if !r.sandbox.known(inv.Images) {
		inv.Blocked = "which image is the sandbox image is not known: no image is pinned, no pod was seen, and the runtime does not tell its name"
	}
	return inv
}

// unpackedUnseen returns the images that are unpacked in a broken snapshotter, by ID, with its
// name: their users there are unknown. It finds them by the label by which containerd's collector
// finds the layers. The label is on the image's config, whose digest is the image's ID.
func (r *reading) unpackedUnseen() map[string]string {
	images := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(r.broken)) {
		for i := range r.spaces {
			for _, c := range r.spaces[i].contents {
				if c.labels[labelRef+"snapshot."+name] != "" {
					images[c.digest] = name
				}
			}
		}
	}
	return images
}

// image describes one image, without its place in the graph.
func (r *reading) image(e entry, use *usage, layers map[string][]inventory.Layer) inventory.Image {
	img := inventory.Image{
		ID:           e.cri.ID,
		Pinned:       e.cri.Pinned,
		NominalBytes: e.cri.Bytes,
		UsedBy:       use.users(e.cri.ID),
		InUse:        use.lives[e.cri.ID],
	}
	for _, rec := range e.records {
		img.References = append(img.References, rec.name)
		// The CRI marks a pin in a label; the CRI's own list may be a moment older.
		img.Pinned = img.Pinned || isPinned(rec.labels)
		img.Sandbox = img.Sandbox || r.sandbox.is(rec.name)
		img.Updated = latest(img.Updated, rec.updated)
	}
	img.Sandbox = img.Sandbox || slices.ContainsFunc(e.cri.Names, r.sandbox.is)
	img.References = sortedSet(img.References)
	if chain := e.records[0].content.chain; chain != "" {
		img.Layers = layers[chain]
	}
	return img
}

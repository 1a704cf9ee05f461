package image

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"
)

// Accounts is what everything in a graph takes on the disk. Each node is in exactly one of
// Held, Others and Nobody; together they are Total.
type Accounts struct {
	Images []ImageAccount // every image, by ID

	Held   Size    // reachable from images, even if holders reach it too
	Others []Entry // reachable only from holders, by the kind of holder
	Nobody []Entry // reachable from neither, by kind: the runtime's collector may remove it
	Total  Size

	Unread []string // what these accounts lack: Graph.Unread

	// Empty lists the image records without references: their content is gone.
	Empty Entry

	NominalBytes uint64 // of all images together
}

// ImageAccount is what one image takes on the disk.
type ImageAccount struct {
	ImageID string
	Own     Size // what a plan that removes only this image frees
	Shared  Size // what other images and holders then still keep
	Total   Size // everything reachable from it

	// Unmeasured is how many of its layers count as 0 bytes: the runtime never reported their size.
	Unmeasured int

	// NominalBytes is the size that the CRI reports, which the kubelet expects to free. It is
	// the size of compressed layers.
	NominalBytes uint64
}

// Entry is one line of an account.
type Entry struct {
	By string // the kind of holder, or one of the Nobody constants
	Size
	Count int // of holders or nodes
	// Unmeasured is how many of its snapshots count as 0 bytes. ebb never asks the runtime
	// for the size of writable layers.
	Unmeasured int
	Oldest     time.Time // creation of its oldest node; zero if none is known
	Nodes      []NodeID  // in Nobody: blobs and snapshots, largest first; in Empty: records
}

// Kinds of unreferenced nodes.
const (
	NobodyExpired   = "expired"   // held only by expired leases and image records
	NobodySnapshots = "snapshots" // unreferenced unpacked and writable layers
	NobodyBlobs     = "blobs"     // unreferenced content
	NobodyIngests   = "ingests"   // incomplete content
	NobodyRecords   = "records"   // unreferenced metadata, for example of blobs: takes no space
)

// Account returns what every image takes, and what everything else takes. Reachability is
// computed exactly as in Decide. The cost is one visit to each node of each image.
func Account(g Graph, images []Image) Accounts {
	a := account{Graph: g, images: accountedOf(images), led: make([]led, len(g.Nodes)), all: newMarker(g.Nodes)}
	a.lines()
	a.others()
	a.nobody()
	a.Total, a.Accounts.Unread = g.total().size(), g.Unread
	a.Empty = a.empty()
	return a.Accounts
}

// AccountOf returns the line of Account for one image; found is false if images does not have
// it.
func AccountOf(g Graph, images []Image, id string) (line ImageAccount, found bool) {
	one, stays := accounted{id: id}, held(g)
	for n := range images {
		switch i := &images[n]; {
		case i.ID != id:
			stays.reach(i.Roots)
		case found:
			one.roots = slices.Concat(one.roots, i.Roots)
		default:
			one, found = accounted{id: id, roots: i.Roots, nominalBytes: i.NominalBytes}, true
		}
	}
	if !found {
		return ImageAccount{}, false
	}
	line = one.line()
	var total weight
	newMarker(g.Nodes).walk(one.roots, func(_ NodeID, n *Node) { line.count(&total, n) })
	line.divide(total, stays.reach(one.roots))
	return line, true
}

// held returns a marker with everything marked that holders reach.
func held(g Graph) *marker {
	m := newMarker(g.Nodes)
	for _, h := range g.Holders {
		m.reach(h.Nodes)
	}
	return m
}

// accounted is the part of an Image that Account needs.
type accounted struct {
	id           string
	roots        []NodeID
	nominalBytes uint64
}

// accountedOf returns one accounted for each image ID, sorted by ID. Like distinct, it merges
// the roots of images with the same ID.
func accountedOf(images []Image) []accounted {
	list := make([]accounted, len(images))
	for n := range images {
		i := &images[n]
		list[n] = accounted{id: i.ID, roots: i.Roots, nominalBytes: i.NominalBytes}
	}
	slices.SortFunc(list, func(a, b accounted) int { return strings.Compare(a.id, b.id) })
	unique := list[:0]
	for _, one := range list {
		if n := len(unique); n > 0 && unique[n-1].id == one.id {
			unique[n-1].roots = slices.Concat(unique[n-1].roots, one.roots)
			continue
		}
		unique = append(unique, one)
	}
	return unique
}

func (a accounted) line() ImageAccount {
	return ImageAccount{ImageID: a.id, NominalBytes: a.nominalBytes}
}

// count adds a node to the total of the image.
func (i *ImageAccount) count(total *weight, n *Node) {
	*total = total.addNode(*n)
	if n.unmeasured() {
		i.Unmeasured++
	}
}

// divide sets how much of the total is the image's own, and how much is shared.
func (i *ImageAccount) divide(total, own weight) {
	i.Own, i.Shared, i.Total = own.size(), total.sub(own).size(), total.size()
}

// account is the state of one call of Account.
type account struct {
	Graph
	Accounts
	images []accounted
	led    []led // by node
	todo   []NodeID
	all    *marker // reachable from images; others and nobody add theirs
}

// led is the first and the last image whose walk reached a node, counted from 1; 0 is none.
type led struct{ first, last uint32 }

// lines fills in the account of each image by a walk from its roots.
func (a *account) lines() {
	totals := make([]weight, len(a.images))
	a.Accounts.Images = make([]ImageAccount, len(a.images))
	for i := range a.order() {
		one, line := &a.images[i], &a.Accounts.Images[i]
		*line = one.line()
		a.push(i+1, one.roots, line, &totals[i])
		for len(a.todo) > 0 {
			refs := a.Nodes[a.todo[len(a.todo)-1]].Refs
			a.todo = a.todo[:len(a.todo)-1]
			a.push(i+1, refs, line, &totals[i])
		}
		a.NominalBytes = satAdd(a.NominalBytes, one.nominalBytes)
	}
	own := a.owners()
	for i := range totals {
		a.Accounts.Images[i].divide(totals[i], own[i])
	}
}

// order yields the images in the order in which their nodes lie in memory, see Arrange.
func (a *account) order() iter.Seq[uint32] {
	keys := make([]uint64, len(a.images)) // the first root, then the image
	for i, one := range a.images {
		if keys[i] = uint64(i); len(one.roots) > 0 {
			keys[i] |= uint64(one.roots[0]) << 32
		}
	}
	slices.Sort(keys)
	return func(yield func(uint32) bool) {
		for _, key := range keys {
			if !yield(uint32(key)) {
				return
			}
		}
	}
}

// push notes that the walk of an image reached ids. It counts and queues those that this walk had
// not reached before. It counts at once, so that the CPU fetches the nodes of one list side by
// side.
func (a *account) push(image uint32, ids []NodeID, line *ImageAccount, total *weight) {
	for _, id := range ids {
		if uint64(id) >= uint64(len(a.led)) || a.led[id].last == image {
			continue
		}
		by := &a.led[id]
		if by.last = image; by.first == 0 {
			by.first = image
		}
		n := &a.Nodes[id]
		if line.count(total, n); len(n.Refs) > 0 {
			a.todo = append(a.todo, id)
		}
	}
}

// owners marks everything that images reach. It returns for each image the weight of what only
// this image and no holder reaches. It visits nodes in memory order; in the order of lines, each
// mark would wait for memory.
func (a *account) owners() []weight {
	held, own, all := held(a.Graph), make([]weight, len(a.images)), weight{}
	for id, by := range a.led {
		if by.first == 0 {
			continue
		}
		a.all.marked[id], all = true, all.addNode(a.Nodes[id])
		if by.first == by.last && !held.marked[id] {
			own[by.first-1] = own[by.first-1].addNode(a.Nodes[id])
		}
	}
	a.Held = all.size()
	return own
}

// holderOrder decides to which holder a node is attributed that several holders reach: the
// first kind in this list. Other kinds follow, by name.
var holderOrder = []string{"image", "container", "sandbox", "lease", "gc.root", "ingest"}

func (a *account) others() {
	holders := slices.Clone(a.Holders)
	rank := func(h Holder) int {
		if i := slices.Index(holderOrder, h.Kind); i >= 0 {
			return i
		}
		return len(holderOrder)
	}
	slices.SortStableFunc(holders, func(x, y Holder) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.Kind, y.Kind))
	})
	for _, h := range holders {
		if n := len(a.Others); n == 0 || a.Others[n-1].By != h.Kind {
			a.Others = append(a.Others, Entry{By: h.Kind})
		}
		entry := &a.Others[len(a.Others)-1]
		entry.Count++
		a.all.walk(h.Nodes, func(_ NodeID, n *Node) { entry.add(n) })
	}
}

func (a *account) nobody() {
	expired := Entry{By: NobodyExpired, Count: len(a.Expired)}
	for _, h := range a.Expired {
		a.all.walk(h.Nodes, func(id NodeID, n *Node) { expired.list(id, n) })
	}
	entries := []Entry{expired, {By: NobodySnapshots}, {By: NobodyBlobs}, {By: NobodyIngests}, {By: NobodyRecords}}
	for id, marked := range a.all.marked {
		if n := &a.Nodes[id]; !marked {
			entry := &entries[nobodyEntry(n)]
			entry.Count++
			entry.list(NodeID(id), n)
		}
	}
	for _, entry := range entries {
		if entry.Count > 0 {
			a.largestFirst(entry.Nodes)
			a.Nobody = append(a.Nobody, entry)
		}
	}
}

// nobodyEntry returns the index of a node's entry among the entries of nobody.
func nobodyEntry(n *Node) int {
	switch {
	case n.Kind == NodeSnapshot:
		return 1
	case n.Kind == NodeBlob && !n.Partial:
		return 2
	case n.Kind == NodeBlob:
		return 3
	}
	return 4
}

func (a *account) largestFirst(nodes []NodeID) {
	slices.SortFunc(nodes, func(x, y NodeID) int {
		return cmp.Or(cmp.Compare(a.Nodes[y].Bytes, a.Nodes[x].Bytes), cmp.Compare(x, y))
	})
}

func (e *Entry) add(n *Node) {
	e.Bytes, e.Inodes = satAdd(e.Bytes, n.Bytes), satAdd(e.Inodes, n.Inodes)
	if at := n.Created.Time(); !at.IsZero() && (e.Oldest.IsZero() || at.Before(e.Oldest)) {
		e.Oldest = at
	}
	if n.unmeasured() {
		e.Unmeasured++
	}
}

// list adds a node and, unless it is a record, its ID.
func (e *Entry) list(id NodeID, n *Node) {
	e.add(n)
	if n.Kind != NodeRecord {
		e.Nodes = append(e.Nodes, id)
	}
}

// empty returns the image records without references, of images and of holders.
func (a *account) empty() Entry {
	entry := Entry{By: "empty"}
	look := func(records []NodeID) {
		for _, id := range records {
			if uint64(id) < uint64(len(a.Nodes)) && a.Nodes[id].Kind == NodeRecord && len(a.Nodes[id].Refs) == 0 {
				entry.Nodes = append(entry.Nodes, id)
			}
		}
	}
	for _, c := range a.images {
		look(c.roots)
	}
	for _, h := range slices.Concat(a.Holders, a.Expired) {
		if h.Kind == "image" {
			look(h.Nodes)
		}
	}
	slices.Sort(entry.Nodes)
	entry.Nodes = slices.Compact(entry.Nodes) // two images may have one record, by mistake
	entry.Count = len(entry.Nodes)
	for _, id := range entry.Nodes {
		entry.add(&a.Nodes[id])
	}
	return entry
}

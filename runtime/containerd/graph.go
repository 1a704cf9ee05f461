package containerd

import (
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// blockSize is the unit, in bytes, in which a filesystem allocates space for a blob.
const blockSize = 4096

// graphBuilder turns records into the graph that containerd's garbage
// collector would walk.
type graphBuilder struct {
	graph image.Graph
	index map[object]image.NodeID
	now   time.Time
	// removable are the records of the CRI's images. A reference to such a record does not keep it:
	// removal deletes the record all the same, and the reference then leads nowhere.
	removable map[object]bool
}

// buildGraph creates all nodes before any edge, so that a reference to a missing object is dropped,
// regardless of the order of the records.
func buildGraph(spaces []space, now time.Time, removable map[object]bool) *graphBuilder {
	objects := 0
	for i := range spaces {
		s := &spaces[i]
		objects += len(s.images) + 2*len(s.contents) + len(s.snapshots) + len(s.containers) + len(s.ingests)
	}
	// Preallocated: with thousands of images, growth by doubling takes a third more memory.
	b := &graphBuilder{index: make(map[object]image.NodeID, objects), now: now, removable: removable}
	b.graph.Nodes = make([]image.Node, 0, objects)
	for i := range spaces {
		b.addNodes(&spaces[i])
	}
	for i := range spaces {
		b.addEdges(&spaces[i])
	}
	b.arrange()
	for i := range spaces {
		b.addHolders(&spaces[i])
	}
	return b
}

// arrange moves the nodes that an image leads to behind it (see [image.Arrange]). Records come in
// the order of their digests, which no walk follows.
func (b *graphBuilder) arrange() {
	place := image.Arrange(b.graph.Nodes)
	for o, id := range b.index {
		b.index[o] = place[id]
	}
}

func (b *graphBuilder) addNodes(s *space) {
	for _, i := range s.images {
		b.node(object{kindImage, s.name, i.name}, image.Node{Kind: image.NodeRecord, Created: image.TimestampOf(i.updated)})
	}
	for _, c := range s.contents {
		b.node(object{kindContent, s.name, c.digest}, image.Node{Kind: image.NodeRecord, Created: c.created})
		// The bytes are stored once, however many namespaces have a record.
		b.node(object{kind: kindBlob, name: c.digest}, image.Node{
			Kind: image.NodeBlob, Bytes: roundUp(c.bytes), Inodes: 1, Created: c.created,
		})
	}
	for _, snap := range s.snapshots {
		kind := image.NodeSnapshot
		if snap.elsewhere {
			kind = image.NodeRecord
		}
		b.node(object{kindSnapshot, s.name, snap.name()}, image.Node{
			Kind: kind, Bytes: snap.bytes, Inodes: snap.inodes, Created: image.TimestampOf(snap.created),
		})
	}
	for _, c := range s.containers {
		b.node(object{kindContainer, s.name, c.id}, image.Node{Kind: image.NodeRecord})
	}
	for _, i := range s.ingests {
		b.node(object{kindIngest, s.name, i.ref}, image.Node{
			Kind: image.NodeBlob, Partial: true, Created: image.TimestampOf(i.started), Bytes: roundUp(i.bytes), Inodes: i.inodes,
		})
	}
	b.graph.Unread = append(b.graph.Unread, s.unread...)
}

func (b *graphBuilder) addEdges(s *space) {
	for _, i := range s.images {
		from := object{kindImage, s.name, i.name}
		b.edge(from, object{kindContent, s.name, i.target})
		b.links(from, i.labels)
	}
	for _, c := range s.contents {
		from := object{kindContent, s.name, c.digest}
		b.edge(from, object{kind: kindBlob, name: c.digest})
		b.links(from, c.labels)
	}
	for _, snap := range s.snapshots {
		from := object{kindSnapshot, s.name, snap.name()}
		if snap.parent != "" {
			b.edge(from, object{kindSnapshot, s.name, snap.snapshotter + "/" + snap.parent})
		}
		b.links(from, snap.labels)
	}
	for _, c := range s.containers {
		from := object{kindContainer, s.name, c.id}
		b.edge(from, object{kindSnapshot, s.name, c.snapshotter + "/" + c.snapKey})
		b.links(from, c.labels)
	}
}

// addHolders adds the collector's roots, except the images that the CRI can remove.
func (b *graphBuilder) addHolders(s *space) {
	for _, l := range s.leases {
		if !l.ours() {
			b.holds("lease", s.name, l.id, l.labels, b.leased(s, l))
		}
	}
	for _, c := range s.containers {
		b.holder("container", s.name, c.id, b.kept(object{kindContainer, s.name, c.id}))
	}
	for i := range s.images {
		r := &s.images[i]
		b.holds("image", s.name, r.name, r.labels, b.kept(object{kindImage, s.name, r.name}))
	}
	for _, c := range s.contents {
		if isRoot(c.labels) {
			b.holder("gc.root", s.name, c.digest, b.kept(object{kindContent, s.name, c.digest}))
		}
	}
	for _, snap := range s.snapshots {
		if isRoot(snap.labels) {
			b.holder("gc.root", s.name, snap.name(), b.kept(object{kindSnapshot, s.name, snap.name()}))
		}
	}
	for _, i := range s.ingests {
		if !b.now.After(i.updated.Add(mayGoOn)) {
			b.holder("ingest", s.name, i.ref, b.kept(object{kindIngest, s.name, i.ref}))
		}
	}
	for _, sb := range s.sandboxes {
		var nodes []image.NodeID
		for key, value := range sb.labels {
			if l, ok := parseLink(key, value); ok && !l.back {
				nodes = append(nodes, b.kept(object{l.kind, s.name, l.name})...)
			}
		}
		b.holder("sandbox", s.name, sb.id, nodes)
	}
}

// leased returns the nodes that a lease keeps. A flat lease keeps the content that it names, but
// not what that content refers to. (containerd's flat lease on a snapshot keeps its parents, but
// not what their labels refer to. ebb keeps that, too: snapshots with such labels are rare, and
// keeping too much only makes the computed figure too small.)
func (b *graphBuilder) leased(s *space, l leaseRecord) []image.NodeID {
	var nodes []image.NodeID
	names := map[string]*imageRecord{}
	if l.flat() {
		names = s.byName()
	}
	for _, r := range l.resources {
		target := object{r.kind, s.name, r.name}
		if l.flat() {
			switch r.kind {
			case kindContent:
				target = object{kind: kindBlob, name: r.name}
			case kindImage:
				rec := names[r.name]
				if rec == nil || b.removable[target] {
					continue
				}
				target = object{kind: kindBlob, name: rec.target}
			}
		}
		nodes = append(nodes, b.kept(target)...)
	}
	return nodes
}

func (b *graphBuilder) node(o object, n image.Node) {
	if _, ok := b.index[o]; ok {
		return
	}
	b.index[o] = image.NodeID(len(b.graph.Nodes))
	b.graph.Nodes = append(b.graph.Nodes, n)
}

// kept returns the node of a referenced object: none if the object does not exist, or is a record
// that can be removed despite the reference.
func (b *graphBuilder) kept(o object) []image.NodeID {
	if id, ok := b.index[o]; ok && !b.removable[o] {
		return []image.NodeID{id}
	}
	return nil
}

func (b *graphBuilder) edge(from, to object) {
	if f, ok := b.index[from]; ok {
		b.graph.Nodes[f].Refs = append(b.graph.Nodes[f].Refs, b.kept(to)...)
	}
}

func (b *graphBuilder) links(from object, labels map[string]string) {
	for key, value := range labels {
		l, ok := parseLink(key, value)
		if !ok {
			continue
		}
		other := object{l.kind, from.namespace, l.name}
		if l.back {
			b.edge(other, from)
		} else {
			b.edge(from, other)
		}
	}
}

func (b *graphBuilder) holder(kind, namespace, name string, nodes []image.NodeID) {
	b.holds(kind, namespace, name, nil, nodes)
}

// holds adds a holder of nodes: to Expired if its labels say that it has expired, otherwise to
// Holders. A holder of no nodes is left out.
func (b *graphBuilder) holds(kind, namespace, name string, labels map[string]string, nodes []image.NodeID) {
	into := &b.graph.Holders
	if isExpired(labels, b.now) {
		into = &b.graph.Expired
	}
	if len(nodes) > 0 {
		*into = append(*into, image.Holder{Kind: kind, Name: namespace + "/" + name, Nodes: nodes})
	}
}

func roundUp(n uint64) uint64 {
	if rest := n % blockSize; rest != 0 && n <= ^uint64(0)-blockSize {
		return n + blockSize - rest
	}
	return n
}

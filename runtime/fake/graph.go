package fake

import "github.com/ebb-agent/ebb/policy/image"

// graph is the graph of what is stored: content records and snapshots per namespace, blobs once.
type graph struct {
	graph image.Graph
	nodes map[nodeKey]image.NodeID
	roots map[string][]image.NodeID // CRI image ID → what its names keep
}

type nodeKey struct {
	kind            image.NodeKind
	namespace, name string
}

func (r *Runtime) graph() *graph {
	g := &graph{nodes: map[nodeKey]image.NodeID{}, roots: map[string][]image.NodeID{}}
	for _, k := range sortedKeys(r.records) {
		s := r.records[k].stored
		content := g.content(k.namespace, s)
		if k.namespace == CRINamespace {
			g.roots[s.id] = append(g.roots[s.id], content)
		} else {
			g.hold("image", k, content)
		}
	}
	for _, k := range sortedKeys(r.leases) {
		g.hold("lease", k, g.content(k.namespace, r.leases[k]))
	}
	for _, k := range sortedKeys(r.containers) {
		if s := r.containers[k].image; len(s.chains) > 0 {
			g.hold("container", k, g.snapshot(k.namespace, s, len(s.chains)-1))
		}
	}
	return g
}

func (g *graph) hold(kind string, k key, id image.NodeID) {
	g.graph.Holders = append(g.graph.Holders, image.Holder{
		Kind: kind, Name: k.namespace + "/" + k.name, Nodes: []image.NodeID{id},
	})
}

// content returns the node of an image's content record, with references to its blobs and its top
// snapshot.
func (g *graph) content(namespace string, s *stored) image.NodeID {
	return g.add(nodeKey{image.NodeRecord, namespace, s.id}, image.Node{}, func() []image.NodeID {
		var refs []image.NodeID
		for _, l := range s.Layers {
			if l.BlobBytes == 0 {
				continue
			}
			blob := image.Node{Bytes: l.BlobBytes, Inodes: 1}
			refs = append(refs, g.add(nodeKey{image.NodeBlob, "", l.Name}, blob, nil))
		}
		if len(s.chains) > 0 {
			refs = append(refs, g.snapshot(namespace, s, len(s.chains)-1))
		}
		return refs
	})
}

func (g *graph) snapshot(namespace string, s *stored, layer int) image.NodeID {
	node := image.Node{Bytes: s.Layers[layer].Bytes, Inodes: s.Layers[layer].Inodes}
	return g.add(nodeKey{image.NodeSnapshot, namespace, s.chains[layer]}, node, func() []image.NodeID {
		if layer == 0 {
			return nil
		}
		return []image.NodeID{g.snapshot(namespace, s, layer-1)}
	})
}

// add creates a node unless it exists.
func (g *graph) add(k nodeKey, n image.Node, refs func() []image.NodeID) image.NodeID {
	if id, ok := g.nodes[k]; ok {
		return id
	}
	id := image.NodeID(len(g.graph.Nodes))
	g.nodes[k] = id
	n.Kind = k.kind
	g.graph.Nodes = append(g.graph.Nodes, n)
	if refs != nil {
		ids := refs()
		g.graph.Nodes[id].Refs = ids
	}
	return id
}

package image

// weight is what a set of graph nodes takes on the disk.
type weight struct {
	bytes, inodes uint64
	snapshots     int
}

func (w weight) size() Size { return Size{w.bytes, w.inodes} }

func (w weight) addNode(n Node) weight {
	w.bytes = satAdd(w.bytes, n.Bytes)
	w.inodes = satAdd(w.inodes, n.Inodes)
	if n.Kind == NodeSnapshot {
		w.snapshots++
	}
	return w
}

func (w weight) add(v weight) weight {
	return weight{satAdd(w.bytes, v.bytes), satAdd(w.inodes, v.inodes), w.snapshots + v.snapshots}
}

// covers reports whether w is at least what in bytes and in inodes.
func (w weight) covers(what weight) bool {
	return w.bytes >= what.bytes && w.inodes >= what.inodes
}

func (w weight) sub(v weight) weight {
	return weight{bytes: satSub(w.bytes, v.bytes), inodes: satSub(w.inodes, v.inodes)}
}

// unmeasured reports whether n is a layer whose size the runtime did not know. A measured
// layer takes at least one inode, even if it is empty.
func (n *Node) unmeasured() bool { return n.Kind == NodeSnapshot && n.Bytes == 0 && n.Inodes == 0 }

// marker walks the graph and marks what it reaches. Only tryStay removes marks, and only its
// own. So any number of walks together visits each node once.
type marker struct {
	nodes  []Node
	marked []bool
	todo   []NodeID // scratch
	trail  []NodeID // marked by the current tryStay
}

func newMarker(nodes []Node) *marker {
	return &marker{nodes: nodes, marked: make([]bool, len(nodes))}
}

// clone returns an independent marker with the same marks.
func (m *marker) clone() *marker {
	return &marker{nodes: m.nodes, marked: append([]bool(nil), m.marked...)}
}

// push marks and queues the ids that are not marked yet. It ignores IDs outside the graph.
func (m *marker) push(ids []NodeID) {
	for _, id := range ids {
		if uint64(id) < uint64(len(m.nodes)) && !m.marked[id] {
			m.marked[id] = true
			m.todo = append(m.todo, id)
		}
	}
}

// reach marks everything that roots reach and returns the weight of the newly marked nodes.
func (m *marker) reach(roots []NodeID) weight {
	var added weight
	m.walk(roots, func(_ NodeID, n *Node) { added = added.addNode(*n) })
	return added
}

// walk marks everything that roots reach and calls visit with each newly marked node.
func (m *marker) walk(roots []NodeID, visit func(NodeID, *Node)) {
	m.push(roots)
	for len(m.todo) > 0 {
		id := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		n := &m.nodes[id]
		visit(id, n)
		m.push(n.Refs)
	}
}

// tryStay marks everything that roots reach, but only if that adds no more than limit, and no
// layer of unknown size. Otherwise it changes nothing and returns false.
func (m *marker) tryStay(roots []NodeID, limit weight) (added weight, ok bool) {
	m.trail = m.trail[:0]
	m.push(roots)
	for len(m.todo) > 0 {
		id := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		m.trail = append(m.trail, id)
		n := m.nodes[id]
		added = added.addNode(n)
		if n.unmeasured() || added.snapshots > limit.snapshots || !limit.covers(added) {
			m.undo()
			return weight{}, false
		}
		m.push(m.nodes[id].Refs)
	}
	return added, true
}

func (m *marker) undo() {
	for _, id := range m.trail {
		m.marked[id] = false
	}
	for _, id := range m.todo {
		m.marked[id] = false
	}
	m.todo = m.todo[:0]
}

// unmarked returns the weight of all nodes that no walk has reached.
func (m *marker) unmarked() weight {
	var w weight
	for id, marked := range m.marked {
		if !marked {
			w = w.addNode(m.nodes[id])
		}
	}
	return w
}

// inside reports whether all ids are nodes of the graph.
func (g Graph) inside(ids []NodeID) bool {
	for _, id := range ids {
		if uint64(id) >= uint64(len(g.Nodes)) {
			return false
		}
	}
	return true
}

// total returns the weight of all nodes of the graph, reachable or not.
func (g Graph) total() weight {
	var w weight
	for _, n := range g.Nodes {
		w = w.addNode(n)
	}
	return w
}

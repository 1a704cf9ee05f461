package image

import "slices"

// Arrange moves nodes, in place, into the order in which walks discover them: a walk from the first
// node, then one from the next node that is not discovered yet, and so on. Most of the nodes that
// an image reaches are then adjacent in memory, and so are their references. Thousands of images do
// not fit into a CPU's caches, and a walk from one digest to another waits for memory at each node.
// place maps each old ID to the new one.
//
// Arrange sorts the references of each node, so that the same nodes always get the same order. A
// reference to a node outside the graph stays as it is.
func Arrange(nodes []Node) (place []NodeID) {
	a := arrangement{nodes: nodes, place: make([]NodeID, len(nodes)), order: make([]NodeID, 0, len(nodes))}
	for i := range nodes {
		a.place[i] = nowhere
	}
	for i := range nodes {
		a.put(NodeID(i))
		for len(a.todo) > 0 {
			id := a.todo[len(a.todo)-1]
			a.todo = a.todo[:len(a.todo)-1]
			for _, to := range nodes[id].Refs {
				a.put(to)
			}
		}
	}
	a.moveRefs()
	a.moveNodes()
	return a.place
}

// nowhere is the place of a node that has none yet.
const nowhere = ^NodeID(0)

// arrangement is the state of one call of Arrange. It makes no second copy of the nodes: they are
// the largest part of what is read from a runtime.
type arrangement struct {
	nodes []Node
	place []NodeID // by node
	order []NodeID // the node, by place
	refs  int      // number of references
	todo  []NodeID
}

func (a *arrangement) inside(id NodeID) bool { return uint64(id) < uint64(len(a.nodes)) }

// put gives a node the next place, unless it has one.
func (a *arrangement) put(id NodeID) {
	if !a.inside(id) || a.place[id] != nowhere {
		return
	}
	a.place[id], a.order = NodeID(len(a.order)), append(a.order, id)
	if refs := a.nodes[id].Refs; len(refs) > 0 {
		slices.Sort(refs)
		a.todo, a.refs = append(a.todo, id), a.refs+len(refs)
	}
}

// moveRefs copies all references into one allocation and points them to the new places.
func (a *arrangement) moveRefs() {
	all := make([]NodeID, 0, a.refs)
	for _, id := range a.order {
		from := len(all)
		for _, to := range a.nodes[id].Refs {
			if a.inside(to) {
				to = a.place[to]
			}
			all = append(all, to)
		}
		a.nodes[id].Refs = all[from:len(all):len(all)]
	}
}

// moveNodes permutes the nodes, one cycle at a time. It uses up order.
func (a *arrangement) moveNodes() {
	for i, first := range a.order {
		if first == nowhere {
			continue // moved with an earlier cycle
		}
		out, at := a.nodes[i], NodeID(i)
		for a.order[at] != NodeID(i) {
			from := a.order[at]
			a.nodes[at], a.order[at] = a.nodes[from], nowhere
			at = from
		}
		a.nodes[at], a.order[at] = out, nowhere
	}
}

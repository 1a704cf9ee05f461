package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Policies of deletions.
const (
	Background = "Background"
	Foreground = "Foreground"
	Orphan     = "Orphan"
)

const (
	spaces = 16  // namespaces that stay
	recent = 400 // slots that half of the operations are about
	// nodeLeases is the namespace in which kubelets keep Leases.
	nodeLeases = "kube-node-lease"
	// churned begins the names of namespaces that are deleted.
	churned = "soak-churn-"
)

// Generator generates operations. It keeps a model of which objects exist, as if each operation
// succeeded and each cascade ended at once.
type Generator struct {
	rand   *rand.Rand
	kinds  []*Kind // that exist
	late   []*Kind // that are defined later
	n      int
	slots  []*slot
	alive  []*slot
	byName map[string][]*slot // by namespace: slots that hold an object, or did
	byKind map[string][]*slot // by kind: the same
	churn  []string           // namespaces that will be deleted
	made   int
}

// slot is a Slot with the model of its object.
type slot struct {
	Slot
	there, going, held bool
	at                 int // index in alive
	owners             []*slot
	dependents         []*slot
	own                map[string]*slot // of a Node, by kind: slots of objects with its name
}

// New returns a generator.
func New(seed uint64, definitions int) *Generator {
	kinds := Kinds(definitions)
	late := min(Late, definitions/2)
	return &Generator{rand: rand.New(rand.NewPCG(seed, 1)), kinds: kinds[:len(kinds)-late], late: kinds[len(kinds)-late:], byName: map[string][]*slot{}, byKind: map[string][]*slot{}}
}

// Kinds returns the kinds that exist from the start.
func (g *Generator) Kinds() []*Kind { return g.kinds }

// Spaces returns the namespaces that exist from the start.
func (g *Generator) Spaces() (names []string) {
	for i := range spaces {
		names = append(names, space(i))
	}
	return names
}

func space(i int) string { return fmt.Sprintf("soak-%d", i) }

// Population returns the first creations: families of owners, their dependents, and the dependents
// of these.
func (g *Generator) Population(objects int) (ops []Op) {
	for len(ops) < objects {
		namespace := space(g.rand.IntN(spaces))
		root := g.create(namespace, nil, 0.01)
		ops = append(ops, root)
		parents := []*slot{g.slots[root.Slot.ID]}
		for range 1 + g.rand.IntN(30) {
			parent := parents[g.rand.IntN(len(parents))]
			op := g.create(namespace, []*slot{parent}, 0.01)
			ops = append(ops, op)
			if s := g.slots[op.Slot.ID]; s.Kind.Namespaced && len(parents) < 4 {
				parents = append(parents, s)
			}
		}
	}
	return ops
}

// Next returns the next operation.
func (g *Generator) Next() Op {
	switch p := g.rand.Float64(); {
	case p < 0.46:
		return g.newObject()
	case p < 0.60:
		return g.own()
	case p < 0.68:
		return g.finish()
	case p < 0.93:
		return g.remove()
	case p < 0.975:
		return g.lift()
	case p < 0.98 && len(g.late) > 0:
		k := g.late[0]
		g.late = g.late[1:]
		g.kinds = append(g.kinds, k)
		return g.op(Op{Verb: Define, Kind: k})
	case p < 0.99 || len(g.churn) == 0:
		return g.newSpace()
	default:
		return g.endSpace()
	}
}

func (g *Generator) op(o Op) Op {
	o.N = g.n
	g.n++
	return o
}

func (g *Generator) newObject() Op {
	namespace := space(g.rand.IntN(spaces))
	if len(g.churn) > 0 && g.rand.IntN(6) == 0 {
		namespace = g.churn[g.rand.IntN(len(g.churn))]
	}
	var owners []*slot
	for n := g.rand.IntN(4); n > 0 && len(owners) < n; {
		if o := g.candidate(namespace); o != nil {
			owners = append(owners, o)
		}
		n--
	}
	return g.create(namespace, owners, 0.05)
}

// candidate returns a possible owner of an object in a namespace, mostly one that exists; nil if
// there is none.
func (g *Generator) candidate(namespace string) *slot {
	list := g.byName[namespace]
	if g.rand.IntN(8) == 0 {
		list = g.byName[""]
	}
	for range 4 {
		if len(list) == 0 {
			return nil
		}
		s := list[len(list)-1-g.rand.IntN(min(len(list), recent))]
		if s.there || g.rand.IntN(8) == 0 {
			return s
		}
	}
	return nil
}

// create creates an object in a slot that is new, or was used before.
func (g *Generator) create(namespace string, owners []*slot, hold float64) Op {
	kind := g.kinds[g.rand.IntN(len(g.kinds))]
	if g.rand.IntN(5) < 2 {
		kind = g.kinds[g.rand.IntN(builtin)]
	}
	if !kind.Namespaced {
		namespace = ""
		owners = nil
		if list := g.byName[""]; len(list) > 0 && g.rand.IntN(2) == 0 {
			owners = []*slot{list[g.rand.IntN(len(list))]}
		}
	}
	node := g.some(g.byKind["Node"])
	var s *slot
	ofNode := node != nil && (kind.Kind == "CSINode" || kind.Kind == "Lease" && g.rand.IntN(2) == 0)
	if ofNode {
		if owners = nil; g.rand.IntN(2) == 0 {
			owners = []*slot{node}
		}
		if kind.Namespaced {
			namespace = nodeLeases
		}
		if s = node.own[kind.Kind]; s != nil && s.there {
			return g.newObject()
		}
	} else {
		s = g.reuse(namespace, kind)
	}
	if s == nil {
		s = &slot{Slot: Slot{ID: len(g.slots), Kind: kind, Namespace: namespace, Name: fmt.Sprintf("soak-%d", len(g.slots))}, own: map[string]*slot{}}
		if ofNode {
			s.Name = node.Name
			node.own[kind.Kind] = s
		}
		g.slots = append(g.slots, s)
		g.byName[namespace] = append(g.byName[namespace], s)
		g.byKind[kind.Kind] = append(g.byKind[kind.Kind], s)
	}
	s.there, s.going, s.held, s.owners, s.dependents = true, false, g.rand.Float64() < hold, nil, nil
	s.at = len(g.alive)
	g.alive = append(g.alive, s)
	op := Op{Verb: Create, Slot: &s.Slot, Owners: g.refer(s, owners), Hold: s.held}
	g.relate(&op, node)
	return g.op(op)
}

// relate an object to a Node, a volume or a Pod by its fields. node may be nil.
func (g *Generator) relate(op *Op, node *slot) {
	switch s := op.Slot; {
	// A namespace with Pods that are bound to a Node cannot be deleted: no kubelet ends these Pods.
	case s.Kind.Kind == "Pod" && !strings.HasPrefix(s.Namespace, churned) && node != nil && g.rand.IntN(2) == 0:
		op.Node = node.Name
	case s.Kind.Kind == "VolumeAttachment":
		op.Node, op.Volume = "nowhere", "none"
		if node != nil {
			op.Node = node.Name
		}
		if v := g.some(g.byKind["PersistentVolume"]); v != nil && g.rand.IntN(3) == 0 {
			op.Volume = v.Name
		}
	case s.Kind.Kind == "Lease" && s.Namespace == nodeLeases:
		op.Holder = []string{s.Name, s.Name, "", "another"}[g.rand.IntN(4)]
	case s.Kind.Kind == "Lease":
		holders := []string{"", "nobody_1"}
		for _, p := range g.byName[s.Namespace] {
			if p.Kind.Kind == "Pod" && p.there && len(holders) < 4 {
				holders = append(holders, p.Name+"_1")
			}
		}
		op.Holder = holders[g.rand.IntN(len(holders))]
	}
}

// some returns a slot of a list, mostly one whose object exists; nil if the list is empty.
func (g *Generator) some(list []*slot) (s *slot) {
	for range 4 {
		if len(list) == 0 {
			return nil
		}
		if s = list[g.rand.IntN(len(list))]; s.there {
			break
		}
	}
	return s
}

// reuse returns a slot whose object is gone, so that its name is used again; nil for none.
func (g *Generator) reuse(namespace string, kind *Kind) *slot {
	list := g.byName[namespace]
	if len(list) == 0 || g.rand.IntN(5) > 0 {
		return nil
	}
	for range 8 {
		if s := list[g.rand.IntN(len(list))]; !s.there && s.Kind == kind {
			return s
		}
	}
	return nil
}

// refer makes references to owners.
func (g *Generator) refer(s *slot, owners []*slot) (refs []Reference) {
	for i, o := range owners {
		r := Reference{Owner: &o.Slot, Block: g.rand.IntN(2) == 0}
		if g.rand.IntN(4) == 0 {
			r.Version = g.rand.IntN(len(o.Kind.Versions))
		}
		if g.rand.IntN(100) == 0 {
			r.Wrong = []string{"version", "kind"}[g.rand.IntN(2)]
		}
		if s.Namespace == "" && r.Wrong == "kind" {
			r.Wrong = ""
		}
		again := o == s
		for _, before := range owners[:i] {
			again = again || before == o
		}
		if again || o.Namespace != "" && o.Namespace != s.Namespace {
			continue // two references to one UID, and those that never resolve, are not generated
		}
		refs = append(refs, r)
		if r.Wrong == "" {
			s.owners = append(s.owners, o)
			o.dependents = append(o.dependents, s)
		}
	}
	return refs
}

// pick returns an object that exists.
func (g *Generator) pick() *slot {
	if len(g.alive) == 0 {
		return nil
	}
	if g.rand.IntN(2) == 0 {
		return g.alive[len(g.alive)-1-g.rand.IntN(min(len(g.alive), recent))]
	}
	return g.alive[g.rand.IntN(len(g.alive))]
}

func (g *Generator) own() Op {
	s := g.pick()
	if s == nil || s.Kind.Outside { // its server stores no mark
		return g.newObject()
	}
	s.owners = nil
	var owners []*slot
	for range g.rand.IntN(4) {
		if o := g.candidate(s.Namespace); o != nil {
			owners = append(owners, o)
		}
	}
	return g.op(Op{Verb: Own, Slot: &s.Slot, Owners: g.refer(s, owners)})
}

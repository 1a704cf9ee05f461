package cascade

import (
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// index is the place of a node; 0 is none.
type index uint32

// trait is a flag of a node.
type trait uint16

const (
	observed     trait = 1 << iota // the object was seen, and is not gone since
	terminating                    // deletionTimestamp
	wantsOrphan                    // the finalizer orphan
	wantsForegr                    // the finalizer foregroundDeletion
	proven                         // absent: a live read at exactly these coordinates
	gone                           // the UID is permanently gone: a DELETED event
	doubted                        // missing from a list: probably gone, not proven
	opaque                         // the resourceVersion is in Collector.versions
	queued                         // in the queue
	invalidNS                      // the warning of an invalid namespace was emitted
	waitsForSync                   // in Collector.held
	restored                       // seen before etcd was restored: any version may follow
	parked                         // its deletion waits for a throttle, or is held
)

// node is an object, or an owner that is known only from references. Its key is all of its
// coordinates. Two references that give one UID different coordinates have two nodes,
// judged separately and chained by same.
type node struct {
	uid        gc.UID
	name       string
	owners     []edge    // in the order they are written
	dependents []backref // in no order, but determined by the inputs
	version    uint64
	namespace  uint32
	kind       uint32
	same       index // the next node with this UID
	prev, next index // nodes of one kind
	finalizers uint32
	blocking   uint32 // references with blockOwnerDeletion, except its own
	flags      trait
	orphanAt   uint8 // index of the finalizer; 255: a live read is needed
	foregrAt   uint8
	epoch      uint32 // of the last listing that had it
}

// edge is an owner reference.
type edge struct {
	owner index
	at    uint32 // in the owner's dependents
	block bool
}

// backref is an entry in an owner's list of dependents.
type backref struct {
	dependent index
	at        uint32 // in the dependent's owners
}

const pageSize = 512

// store holds the nodes in pages: growing copies nothing and leaves no half-empty array.
type store struct {
	pages []*[pageSize]node
	used  index // places ever used; place 0 stays empty
	free  []index
	uids  *gc.UIDIndex[index] // the first node of each UID
	texts gc.UIDTexts         // of the nodes' UIDs
	live  int
}

func (s *store) at(i index) *node { return &s.pages[i/pageSize][i%pageSize] }

func (s *store) place() index {
	s.live++
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++
	if int(s.used)/pageSize >= len(s.pages) {
		s.pages = append(s.pages, new([pageSize]node))
	}
	return s.used
}

// key identifies a node.
type key struct {
	uid       string
	name      string
	namespace string
	kind      uint32
}

// chain returns the first node with a UID; 0 if there is none.
func (c *Collector) chain(id string) index {
	return c.uids.Get(gc.UIDOf(id))
}

func (c *Collector) find(k key) index {
	for i := c.chain(k.uid); i != 0; i = c.at(i).same {
		n := c.at(i)
		if n.kind == k.kind && n.name == k.name && c.namespaces.all[n.namespace].text == k.namespace {
			return i
		}
	}
	return 0
}

// add makes a node for a key that has none.
func (c *Collector) add(k key) index {
	i := c.place()
	n := c.at(i)
	n.name = strings.Clone(k.name) // the caller's string may be part of a whole response
	n.namespace = c.namespaces.acquire(k.namespace)
	n.kind = k.kind
	c.kinds.all[k.kind].uses++
	c.addToKind(i)
	n.uid = c.texts.Keep(k.uid)
	// Later nodes with this UID are linked behind the first: the index is written once.
	if first := c.firstOf(i); first != 0 {
		n.same, c.at(first).same = c.at(first).same, i
		return i
	}
	c.uids.Set(n.uid, i)
	return i
}

func (c *Collector) uidOf(i index) string { return c.texts.Text(c.at(i).uid) }

// firstOf is the head of the chain a node is in.
func (c *Collector) firstOf(i index) index { return c.uids.Get(c.at(i).uid) }

// drop removes a node that was not seen and that no reference names.
func (c *Collector) drop(i index) {
	n := c.at(i)
	if first := c.firstOf(i); first == i {
		c.uids.Set(n.uid, n.same)
		if n.same == 0 {
			delete(c.texts, n.uid)
		}
	} else {
		for c.at(first).same != i {
			first = c.at(first).same
		}
		c.at(first).same = n.same
	}
	c.forgetWork(i)
	c.roots.forget(i)
	delete(c.heldReported, i)
	c.removeFromKind(i)
	c.setVersion(i, "")
	c.kinds.release(n.kind)
	c.namespaces.release(n.namespace)
	*n = node{}
	c.live--
	c.free = append(c.free, i)
}

// addToKind puts a node into the ring of its kind.
func (c *Collector) addToKind(i index) {
	n, k := c.at(i), &c.kinds.all[c.at(i).kind]
	k.size++
	if k.head == 0 {
		k.head, n.prev, n.next = i, i, i
		return
	}
	first := c.at(k.head)
	n.prev, n.next = first.prev, k.head
	c.at(first.prev).next, first.prev = i, i
}

func (c *Collector) removeFromKind(i index) {
	n, k := c.at(i), &c.kinds.all[c.at(i).kind]
	k.size--
	if n.next == i {
		k.head = 0
		return
	}
	c.at(n.prev).next, c.at(n.next).prev = n.next, n.prev
	if k.head == i {
		k.head = n.next
	}
}

// nodesOf returns a copy of a kind's nodes, because the caller may change the ring.
func (c *Collector) nodesOf(kind uint32) []index {
	k := &c.kinds.all[kind]
	list := make([]index, 0, k.size)
	for i := k.head; len(list) < k.size; i = c.at(i).next {
		list = append(list, i)
	}
	return list
}

func (c *Collector) setVersion(i index, text string) {
	n := c.at(i)
	if n.flags&opaque != 0 {
		delete(c.versions, i)
		n.flags &^= opaque
	}
	n.version = 0
	if v, ok := version(text); ok {
		n.version = v
	} else if text != "" {
		n.flags |= opaque
		c.versions[i] = strings.Clone(text)
	}
}

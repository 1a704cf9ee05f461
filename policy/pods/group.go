package pods

import "container/heap"

// Indexes into task.places.
const (
	inAll = iota
	inNamespace
	inOwner
)

// group is a set of Pods of which a number is kept. The half kept has these, with the next to
// go on top. The half gone has those that are too many, with the last to go on top.
type group struct{ kept, gone half }

type half struct {
	tasks []*task
	slot  uint8
	goes  bool
}

func newGroup(slot uint8) *group {
	return &group{half{slot: slot}, half{slot: slot, goes: true}}
}

func (g *group) len() int { return len(g.kept.tasks) + len(g.gone.tasks) }

// add adds a task; moved is called for each task that changes halves. If some are too many,
// one more becomes so: the next to go among t and the kept tasks.
func (g *group) add(t *task, keep int, moved func(*task)) {
	heap.Push(&g.kept, t)
	g.balance(keep, moved)
}

func (g *group) remove(t *task, keep int, moved func(*task)) {
	if place := t.places[g.kept.slot]; place > 0 {
		heap.Remove(&g.kept, int(place-1))
	} else {
		heap.Remove(&g.gone, int(-place-1))
	}
	g.balance(keep, moved)
}

func (g *group) balance(keep int, moved func(*task)) {
	excess := max(g.len()-keep, 0)
	for len(g.gone.tasks) < excess {
		g.move(&g.kept, &g.gone, moved)
	}
	for len(g.gone.tasks) > excess {
		g.move(&g.gone, &g.kept, moved)
	}
}

func (g *group) move(from, to *half, moved func(*task)) {
	t := heap.Pop(from).(*task)
	heap.Push(to, t)
	moved(t)
}

func (h *half) Len() int { return len(h.tasks) }

func (h *half) Less(i, j int) bool {
	if h.goes {
		i, j = j, i
	}
	return h.tasks[i].pod.before(h.tasks[j].pod)
}

func (h *half) Swap(i, j int) {
	h.tasks[i], h.tasks[j] = h.tasks[j], h.tasks[i]
	h.mark(i)
	h.mark(j)
}

func (h *half) mark(i int) {
	place := int32(i + 1)
	if h.goes {
		place = -place
	}
	h.tasks[i].places[h.slot] = place
}

func (h *half) Push(x any) {
	h.tasks = append(h.tasks, x.(*task))
	h.mark(len(h.tasks) - 1)
}

func (h *half) Pop() any {
	last := len(h.tasks) - 1
	t := h.tasks[last]
	h.tasks[last], h.tasks = nil, h.tasks[:last]
	t.places[h.slot] = 0
	return t
}

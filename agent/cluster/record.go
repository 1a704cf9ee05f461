package cluster

import (
	"sync"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// recordSize is how many decisions are remembered.
const recordSize = 1024

// Decision is what was done, or would have been, and why.
type Decision struct {
	Time      time.Time   `json:"time"`
	Collector string      `json:"collector"`
	Verb      string      `json:"verb"`
	Object    *ObjectName `json:"object"`
	Policy    string      `json:"policy,omitempty"`
	Finalizer string      `json:"finalizer,omitempty"`
	Reason    string      `json:"reason"`
	Owner     *ObjectName `json:"owner,omitempty"`
	Root      *ObjectName `json:"root,omitempty"` // of a deletion: the topmost owner whose going caused it
	Result    string      `json:"result"`
	Error     string      `json:"error,omitempty"`
	TookMS    float64     `json:"tookMilliseconds"`
}

// record keeps the last decisions. What it holds of an object it holds without
// copying: the graph makes the strings, once.
type record struct {
	mu   sync.Mutex
	ring []noted
	next int
}

type noted struct {
	at     time.Time
	took   time.Duration
	action gc.Action
	result string
	err    error
}

func (r *record) add(a gc.Action, result string, o metadata.Outcome, at time.Time) {
	a.Refs = nil
	n := noted{at, o.Took, a, result, o.Err}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < recordSize {
		r.ring = append(r.ring, n)
		return
	}
	r.ring[r.next] = n
	r.next = (r.next + 1) % recordSize
}

// latest gives the decisions, the last one first.
func (r *record) latest() []Decision {
	r.mu.Lock()
	ring := append(append([]noted(nil), r.ring[r.next:]...), r.ring[:r.next]...)
	r.mu.Unlock()
	list := make([]Decision, 0, len(ring))
	for i := len(ring) - 1; i >= 0; i-- {
		n, a := ring[i], ring[i].action
		d := Decision{
			Time: n.at, Collector: a.Collector.String(), Verb: a.Verb.String(), Object: named(a.Object), Policy: string(a.Policy), Finalizer: a.Finalizer,
			Reason: string(a.Reason), Owner: named(a.Owner), Root: named(a.Root), Result: n.result, TookMS: float64(n.took.Microseconds()) / 1e3,
		}
		if n.err != nil {
			d.Error = n.err.Error()
		}
		list = append(list, d)
	}
	return list
}

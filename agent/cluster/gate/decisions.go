package gate

import (
	"sync"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// decisionLogSize is how many decisions are kept.
const decisionLogSize = 1024

// ObjectName names an object in answers.
type ObjectName struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// Named returns the name of an object for answers; nil if o names none.
func Named(o gc.Coordinates) *ObjectName {
	if o.Name == "" {
		return nil
	}
	return &ObjectName{o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID}
}

// Decision is an action, why it was wanted, and how it went; in mode observe, an action that would
// have been taken.
type Decision struct {
	Time      time.Time   `json:"time"`
	Collector string      `json:"collector"`
	Verb      string      `json:"verb"`
	Object    *ObjectName `json:"object"`
	Policy    string      `json:"policy,omitempty"`
	Finalizer string      `json:"finalizer,omitempty"`
	Reason    string      `json:"reason"`
	Owner     *ObjectName `json:"owner,omitempty"`
	Root      *ObjectName `json:"root,omitempty"` // of a deletion: the topmost owner whose deletion caused it
	Result    string      `json:"result"`
	Error     string      `json:"error,omitempty"`
	TookMS    float64     `json:"tookMilliseconds"`
}

// decisionLog keeps the last decisions. It does not copy the strings of an object: the graph
// allocates them once.
type decisionLog struct {
	mu   sync.Mutex
	ring []loggedDecision
	next int
}

type loggedDecision struct {
	at     time.Time
	took   time.Duration
	action gc.Action
	result string
	err    error
}

func (l *decisionLog) add(a gc.Action, result string, o metadata.Outcome, at time.Time) {
	a.Refs = nil
	n := loggedDecision{at, o.Took, a, result, o.Err}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < decisionLogSize {
		l.ring = append(l.ring, n)
		return
	}
	l.ring[l.next] = n
	l.next = (l.next + 1) % decisionLogSize
}

// Decisions returns the last decisions, the latest first.
func (g *Gate) Decisions() []Decision {
	l := &g.decisions
	l.mu.Lock()
	ring := append(append([]loggedDecision(nil), l.ring[l.next:]...), l.ring[:l.next]...)
	l.mu.Unlock()
	list := make([]Decision, 0, len(ring))
	for i := len(ring) - 1; i >= 0; i-- {
		n, a := ring[i], ring[i].action
		d := Decision{
			Time: n.at, Collector: a.Collector.String(), Verb: a.Verb.String(), Object: Named(a.Object), Policy: string(a.Policy), Finalizer: a.Finalizer,
			Reason: string(a.Reason), Owner: Named(a.Owner), Root: Named(a.Root), Result: n.result, TookMS: float64(n.took.Microseconds()) / 1e3,
		}
		if n.err != nil {
			d.Error = n.err.Error()
		}
		list = append(list, d)
	}
	return list
}

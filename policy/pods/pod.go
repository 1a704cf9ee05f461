package pods

import (
	"bytes"
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// pod is what is kept of a Pod. There may be many, so it is small.
type pod struct {
	uid            gc.UID
	text           string // its name, then its resourceVersion
	space          *namespace
	node           *node // nil: it is bound to none
	task           *task // nil: nothing is to be done about it, and it is not counted
	place          int32 // in node.pods
	epoch          uint32
	created, ended uint32 // Unix seconds, clamped; 0: not set
	generation     uint32
	named          uint8 // the length of the name
	phase          phase
	flags          flags
}

type flags uint8

const (
	terminating flags = 1 << iota
	finalizers        // it has finalizers
	noGrace           // it is terminating with a grace period of zero
	evicted
	wanting // it counts in node.wanting
	refused // its deletion was refused, and nothing of it has changed since
	late    // it was seen on its node after that was lost, and no read covers it yet
)

type phase uint8

const (
	unknown phase = iota
	pending
	running
	succeeded
	failed
)

func phaseOf(s string) phase {
	switch s {
	case "Pending":
		return pending
	case "Running":
		return running
	case "Succeeded":
		return succeeded
	case "Failed":
		return failed
	}
	return unknown
}

func (p *pod) over() bool      { return p.phase >= succeeded }
func (p *pod) name() string    { return p.text[:p.named] }
func (p *pod) version() string { return p.text[p.named:] }

// is reports whether all of these flags are set.
func (p *pod) is(f flags) bool { return p.flags&f == f }

// futile reports whether a force deletion would change nothing.
func (p *pod) futile() bool { return p.over() && p.is(terminating|finalizers|noGrace) }

// before reports whether p is deleted before q: evicted Pods go first, then those created
// first.
func (p *pod) before(q *pod) bool {
	if p.is(evicted) != q.is(evicted) {
		return p.is(evicted)
	}
	if p.created != q.created {
		return p.created < q.created
	}
	return cmp.Or(strings.Compare(p.name(), q.name()), strings.Compare(p.space.name, q.space.name),
		bytes.Compare(p.uid[:], q.uid[:])) < 0
}

// set sets or clears flags.
func (p *pod) set(f flags, is bool) {
	if p.flags &^= f; is {
		p.flags |= f
	}
}

// task is the work on a Pod that ended, or is to be deleted.
type task struct {
	gc.Item
	pod    *pod
	owner  gc.UID   // if it ended, and has one
	places [3]int32 // in the halves of its groups, from 1; negative: in gone; 0: in none
}

// namespace is a namespace in which there are Pods.
type namespace struct {
	name   string
	pods   int
	kept   gc.Reason // why nothing in it is collected; empty: Pods are
	groups [2]*group // of Pods that succeeded, and that failed, if there is a limit
}

// seconds returns a time in Unix seconds, rounded up and clamped; 0 for the zero time. Times
// from the API can be anything.
func seconds(t time.Time) uint32 {
	if t.IsZero() {
		return 0
	}
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return uint32(min(max(s, 1), math.MaxUint32))
}

func at(seconds uint32) time.Time { return time.Unix(int64(seconds), 0).UTC() }

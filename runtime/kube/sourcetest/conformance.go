// Package sourcetest is a conformance suite for what the agent relies on of runtime/kube: a
// source of pods, and a writer of Events. The fakes in the agent's tests must pass it, too.
package sourcetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube"
)

// Node is a node with pods in the namespace default. Its methods end the test if they fail.
type Node interface {
	// Put binds a pod to the node.
	Put(t *testing.T, name string) (uid string)
	// Remove deletes a pod.
	Remove(t *testing.T, name string)
	// Away makes the server of the source unreachable until back is called.
	Away(t *testing.T) (back func())
}

const patience = 2 * time.Minute

// Pods runs the suite on the source of a node without pods.
func Pods(t *testing.T, s kube.Source, n Node) {
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- s.Run(ctx, changed) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	}()
	// This fails unless the source reports every change.
	until := func(what string, holds func(p kube.Pods, err error) bool) {
		t.Helper()
		for timeout := time.After(patience); ; {
			p, err := s.Pods(t.Context())
			if holds(p, err) {
				return
			}
			select {
			case <-changed:
			case <-timeout:
				t.Fatalf("%s: still %+v, %v", what, p, err)
			}
		}
	}
	gone := func(what, name, uid string, want bool) {
		t.Helper()
		if got, err := s.Pass().Gone(t.Context(), "default", name, uid); got != want || err != nil {
			t.Errorf("%s: gone %v, %v", what, got, err)
		}
	}
	until("the beginning", has())
	q := n.Put(t, "q")
	until("the first", has("default/q/"+q))
	p := n.Put(t, "p") // is sorted before q
	until("the second", has("default/p/"+p, "default/q/"+q))
	gone("one that is there", "p", p, false)
	n.Remove(t, "p")
	until("one that went", has("default/q/"+q))
	gone("one that went", "p", p, true)
	gone("one that never had this name", "q", p, true)
	again := n.Put(t, "p")
	until("another of its name", has("default/p/"+again, "default/q/"+q))
	gone("the former one of its name", "p", p, true)
	gone("the one there is", "p", again, false)

	back := n.Away(t)
	until("an outage", func(p kube.Pods, err error) bool { return err != nil && len(p.List) == 0 })
	if is, err := s.Pass().Gone(t.Context(), "default", "p", p); is || err == nil {
		t.Errorf("nobody can know, and it is gone: %v, %v", is, err)
	}
	back()
	until("the end of the outage", has("default/p/"+again, "default/q/"+q))
}

func has(want ...string) func(kube.Pods, error) bool {
	return func(p kube.Pods, err error) bool {
		var names []string
		for _, pod := range p.List {
			names = append(names, pod.Namespace+"/"+pod.Name+"/"+pod.UID)
		}
		return err == nil && slices.Equal(names, want)
	}
}

// Poster writes Events.
type Poster interface {
	PostEvent(ctx context.Context, e kube.NodeEvent) error
}

// Events runs the suite on a poster. count returns the count of the Event with a name.
func Events(t *testing.T, p Poster, count func(t *testing.T, name string) int) {
	e := kube.NodeEvent{Name: "ebb-agent.suite", Reason: "EbbHold", Message: "full", Count: 1, First: time.Now(), Last: time.Now()}
	post := func(what string, again bool, n int) {
		t.Helper()
		e.Again, e.Count = again, n
		if err := p.PostEvent(t.Context(), e); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	post("a first one", false, 1)
	post("the same, as its answer was lost", false, 1)
	post("again", true, 2)
	if n := count(t, e.Name); n != 2 {
		t.Errorf("it was so %d times, want 2", n)
	}
	e.Name = "ebb-agent.suite-expired"
	post("again, as it has expired", true, 5)
	if n := count(t, e.Name); n != 5 {
		t.Errorf("it was so %d times, want 5", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.PostEvent(ctx, e)
	if _, ok := kube.Temporary(err); err == nil || !ok {
		t.Errorf("given up: %v, as if it were permanent", err)
	}
}

package preview

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

// Reader reads an object live. The error explains what is Unknown.
type Reader interface {
	Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error)
}

const (
	rounds  = 4    // of questions, each of which may lead to others
	maxAsks = 2000 // live reads
	asking  = 16   // at a time
)

// Choose finds the type that a name means, in the version that is watched. names may
// be empty: then plurals and kinds are understood.
func Choose(name string, names []naming.Resource, types []gc.Type) (gc.Type, error) {
	if len(names) == 0 {
		names = plain(types)
	}
	r, err := naming.Find(name, names)
	if err != nil {
		return gc.Type{}, err
	}
	for _, t := range types {
		group, _ := split(t.APIVersion)
		if group == r.Group && t.Resource == r.Plural && !t.Unwatched {
			return t, nil
		}
	}
	return gc.Type{}, fmt.Errorf("%s: %w: it cannot be listed and watched, so no collector looks after it", r, ErrNotRead)
}

// Decide previews in a world, and asks about the owners that the decision rests on
// and that the world lacks. What it could not find out comes beside it.
func Decide(ctx context.Context, r Reader, w preview.World, at gc.Coordinates, q Query) (preview.Preview, []NotSeen, error) {
	if w.Known == nil {
		w.Known = make(map[gc.Coordinates]gc.Answer)
	}
	known := len(w.Known)
	var lacks []NotSeen
	for round := 1; ; round++ {
		p, err := preview.Of(w, at, q.Policy, q.Limits)
		if err != nil || len(p.Asked) == 0 {
			return p, lacks, err
		}
		if round > rounds || len(w.Known)-known+len(p.Asked) > maxAsks {
			return p, append(lacks, NotSeen{"owners", fmt.Sprintf("%d owners that no list had were not asked for", len(p.Asked))}), nil
		}
		for _, n := range ask(ctx, r, p.Asked, w.Known) {
			if !slices.ContainsFunc(lacks, func(l NotSeen) bool { return l.Type == n.Type }) {
				lacks = append(lacks, n)
			}
		}
		if err := ctx.Err(); err != nil {
			return p, lacks, err
		}
	}
}

// ask reads owners live. What cannot be read stays unknown, and is reported.
func ask(ctx context.Context, r Reader, questions []preview.Question, known map[gc.Coordinates]gc.Answer) (lacks []NotSeen) {
	var mu sync.Mutex
	Each(len(questions), func(i int) {
		q := questions[i]
		answer, err := r.Read(ctx, q.Coordinates, q.Namespaced)
		key := q.Coordinates
		key.Resource = ""
		mu.Lock()
		defer mu.Unlock()
		known[key] = answer
		if err != nil {
			lacks = append(lacks, NotSeen{TypeName(q.APIVersion, q.Resource), err.Error()})
		}
	})
	return lacks
}

// Each does something n times, some of them side by side: requests that a person waits for.
func Each(n int, do func(i int)) {
	room := make(chan struct{}, asking)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	all.Wait()
}

// maxNamed bounds the objects whose finalizers are asked for.
const maxNamed = 200

// NameFinalizers asks the API server for the names of finalizers that a graph does not
// keep, of the objects that the answer shows as waiting for them.
func NameFinalizers(ctx context.Context, r Reader, p *preview.Preview) {
	var nodes []*preview.Node
	walk(p, func(n *preview.Node) {
		if len(nodes) < maxNamed && slices.Contains(n.Finalizers, cascade.OtherFinalizer) {
			nodes = append(nodes, n)
		}
	})
	Each(len(nodes), func(i int) {
		n := nodes[i]
		o := gc.Coordinates{APIVersion: n.APIVersion, Kind: n.Kind, Resource: n.Resource, Namespace: n.Namespace, Name: n.Name, UID: n.UID}
		answer, err := r.Read(ctx, o, n.Namespace != "")
		if err != nil || answer.State != gc.Exists || answer.Object.UID != n.UID {
			return // it says that the name is not kept
		}
		names := slices.DeleteFunc(slices.Clone(answer.Object.Finalizers), func(f string) bool {
			return f == gc.OrphanFinalizer || f == gc.ForegroundFinalizer
		})
		if len(names) > 0 {
			n.Finalizers = names
		}
	})
}

// walk visits every node of an answer.
func walk(p *preview.Preview, visit func(*preview.Node)) {
	todo := append([]*preview.Node{p.Root}, p.Released...)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], n.Dependents...)
		visit(n)
	}
}

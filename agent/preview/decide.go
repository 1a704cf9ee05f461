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

// Reader reads an object live. If the answer is Unknown, the error says why.
type Reader interface {
	Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error)
}

const (
	rounds  = 4    // of questions, each of which may lead to others
	maxAsks = 2000 // live reads
	asking  = 16   // at a time
)

// Choose finds the type that a name means, in the version that is watched. If names is empty, only
// plurals and kinds are understood.
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

// Decide previews a deletion in w. It reads the owners live that the decision rests on and that w
// lacks. What it could not read is returned beside the preview.
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

// ask reads owners live, and adds the answers to known. An owner that cannot be read stays unknown,
// and is in lacks.
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

// Each calls do for 0 to n-1, several at a time, and returns when all calls have. It is for
// requests that a person waits for.
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

// maxNamed bounds the objects whose finalizers are read.
const maxNamed = 200

// NameFinalizers reads the names of finalizers from the API server, because a graph does not keep
// them, for the objects that the preview shows as waiting for a finalizer.
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
			return // the node keeps cascade.OtherFinalizer
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

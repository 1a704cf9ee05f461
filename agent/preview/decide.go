package preview

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

// reader reads an object live. If the answer is Unknown, the error has the reason.
type reader interface {
	Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error)
}

const (
	rounds  = 4    // of questions, each of which may lead to others
	maxAsks = 2000 // live reads
	asking  = 16   // at a time
)

// choose finds the type that a name means, in the version that is watched.
func choose(name string, names []naming.Resource, types []gc.Type) (gc.Type, error) {
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
	return gc.Type{}, fmt.Errorf("%s: %w: it cannot be listed and watched, so no collector handles it", r, ErrNotRead)
}

// decide previews a deletion in w. It reads the owners live that the decision rests on and that w
// lacks. What it could not read is returned beside the preview.
func decide(ctx context.Context, r reader, w preview.World, at gc.Coordinates, q Query) (preview.Preview, []NotSeen, error) {
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
			return p, append(lacks, NotSeen{"owners", fmt.Sprintf("%d owners that are in no list were not read", len(p.Asked))}), nil
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
func ask(ctx context.Context, r reader, questions []preview.Question, known map[gc.Coordinates]gc.Answer) (lacks []NotSeen) {
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

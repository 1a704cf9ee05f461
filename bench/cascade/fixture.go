package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

// workers is how many requests the bench itself has in flight.
const workers = 32

// fixture is a control plane, a client that creates objects in it, and a watch that follows them.
type fixture struct {
	*contender.Fixture
	options
	client    *metadata.Client
	neighbour *http.Client
	families  int
	followed  gc.Type // of the dependents
	watch     *watch
	end       func()
}

// newFixture starts a control plane, whose etcd waits for the disk if fsync is set.
func newFixture(ctx context.Context, o options, fsync bool) (_ *fixture, err error) {
	benchmark.Say("starting etcd, the API server and the controller manager; fsync: %v", fsync)
	base, err := contender.NewFixture(ctx, peers.Config{Name: "bench-cascade", Fsync: fsync}, o.Options)
	if err != nil {
		return nil, err
	}
	b := &fixture{Fixture: base, options: o, end: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err := b.letNeighbourRead(ctx); err != nil {
		return nil, err
	}
	if b.client, err = b.Metadata(); err != nil {
		return nil, err
	}
	b.follow(ctx, contender.ConfigMaps)
	return b, nil
}

// follow makes the watch follow owners and dependents of type t from now on.
func (b *fixture) follow(ctx context.Context, t gc.Type) {
	b.end()
	b.followed, b.watch = t, &watch{there: map[string]bool{}, changed: make(chan struct{}, 1)}
	b.end = contender.Follow(ctx, b.client, contender.ConfigMaps, b.watch.take)
	if owners := b.end; t.Resource != contender.ConfigMaps.Resource {
		dependents := contender.Follow(ctx, b.client, t, b.watch.take)
		b.end = func() { owners(); dependents() }
	}
}

func (b *fixture) close() error {
	b.end()
	if b.client != nil {
		b.client.Close()
	}
	return b.Fixture.Close()
}

// made is an object as it was created.
type made struct {
	gc.Coordinates
	version string
}

// url returns the URL of the objects of a type in the default namespace.
func (b *fixture) url(t gc.Type) string {
	path := "/apis/" + t.APIVersion
	if t.APIVersion == "v1" {
		path = "/api/v1"
	}
	return b.CP.URL() + path + "/namespaces/default/" + t.Resource
}

func (b *fixture) create(ctx context.Context, t gc.Type, name string, owners ...gc.Reference) (made, error) {
	var refs []map[string]any
	for _, r := range owners {
		refs = append(refs, map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name, "uid": r.UID, "blockOwnerDeletion": r.Block})
	}
	object := map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": name, "ownerReferences": refs}}
	if t == pods {
		object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "bench.test/nothing"}}}
	}
	var answer struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	err := peers.Request(ctx, b.Admin, http.MethodPost, b.url(t), object, &answer)
	return made{gc.Coordinates{
		APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Namespace: "default", Name: name, UID: answer.Metadata.UID,
	}, answer.Metadata.ResourceVersion}, err
}

// family is owners and their dependents.
type family struct{ owners, dependents []made }

// makeFamily creates a family of shape s, which the watch then counts instead of the one before. It
// returns once the watch has seen all of the family.
func (b *fixture) makeFamily(ctx context.Context, s shape) (f family, err error) {
	b.families++
	f.owners, f.dependents = make([]made, s.owners), make([]made, s.dependents())
	if err := inParallel(s.owners, func(i int) (err error) {
		f.owners[i], err = b.create(ctx, contender.ConfigMaps, fmt.Sprintf("owner-%d-%d", b.families, i))
		return err
	}); err != nil {
		return f, err
	}
	chains := s.owners * s.each
	for level := range s.levels {
		if err := inParallel(chains, func(i int) (err error) {
			owner := f.owners[i/s.each]
			if level > 0 {
				owner = f.dependents[(level-1)*chains+i]
			}
			n := level*chains + i
			f.dependents[n], err = b.create(ctx, s.dependent, fmt.Sprintf("dependent-%d-%d", b.families, n),
				gc.Reference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Block: true})
			return err
		}); err != nil {
			return f, err
		}
	}
	b.watch.look(f)
	return f, b.watch.until(ctx, func(p progress) bool { return p.owners == s.owners && p.there == s.dependents() })
}

// inParallel calls do for each of 0 to n-1, and begins no more calls after an error.
func inParallel(n int, do func(i int) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(workers)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

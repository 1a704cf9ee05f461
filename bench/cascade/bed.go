package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

// workers are how many requests the bench itself has on their way.
const workers = 32

// bed is a control plane, and a client that makes objects in it and follows what
// becomes of them.
type bed struct {
	*contender.Bed
	options
	client  *metadata.Client
	waves   int
	audited int64 // of the audit log
	watch   *watch
	end     func()
}

func makeBed(ctx context.Context, o options) (_ *bed, err error) {
	contender.Say("starting etcd, the API server and the controller manager")
	base, err := contender.NewBed(ctx, peers.Config{Name: "bench-cascade", Audit: true}, o.controller, o.deploy)
	if err != nil {
		return nil, err
	}
	b := &bed{Bed: base, options: o, end: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	admin, err := b.CP.Kubeconfig("bench", "system:masters")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		return nil, err
	}
	if b.client, err = metadata.New(config, metadata.Options{}); err != nil {
		return nil, err
	}
	b.follow(ctx)
	return b, nil
}

func (b *bed) close() error {
	b.end()
	if b.client != nil {
		b.client.Close()
	}
	return b.Bed.Close()
}

// configMaps are what the bench makes: the cheapest objects for the API server, so
// that the collector's own cost shows.
var configMaps = gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true}

// follow keeps b.watch true from now on.
func (b *bed) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	b.watch = &watch{there: map[string]bool{}, changed: make(chan struct{}, 1)}
	done := make(chan struct{})
	f := b.client.Follow(configMaps, nil, b.watch.take)
	go func() {
		defer close(done)
		_ = f.Run(ctx) // the sink has no errors
	}()
	b.end = func() { cancel(); <-done }
}

// made is an object as it was created.
type made struct {
	gc.Coordinates
	version string
}

// create makes a ConfigMap.
func (b *bed) create(ctx context.Context, name string, owners ...gc.Reference) (made, error) {
	var refs []map[string]any
	for _, r := range owners {
		refs = append(refs, map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name, "uid": r.UID, "blockOwnerDeletion": r.Block})
	}
	var answer struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	err := peers.Request(ctx, b.Admin, http.MethodPost, b.CP.URL()+"/api/v1/namespaces/default/configmaps", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "ownerReferences": refs},
	}, &answer)
	return made{gc.Coordinates{
		APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: name, UID: answer.Metadata.UID,
	}, answer.Metadata.ResourceVersion}, err
}

// family is an owner and its dependents.
type family struct {
	owner      made
	dependents []made
}

// makeFamily returns once the bench's own watch has seen all of it, and looks at
// nothing else.
func (b *bed) makeFamily(ctx context.Context, dependents int) (f family, err error) {
	b.waves++
	if f.owner, err = b.create(ctx, fmt.Sprintf("owner-%d", b.waves)); err != nil {
		return f, err
	}
	f.dependents = make([]made, dependents)
	owner := gc.Reference{APIVersion: "v1", Kind: "ConfigMap", Name: f.owner.Name, UID: f.owner.UID, Block: true}
	if err := inParallel(dependents, func(i int) (err error) {
		f.dependents[i], err = b.create(ctx, fmt.Sprintf("dependent-%d-%d", b.waves, i), owner)
		return err
	}); err != nil {
		return f, err
	}
	b.watch.look(f)
	return f, b.watch.until(ctx, func(p progress) bool { return p.owner && p.there == dependents })
}

// inParallel does something for each of 0 to n-1, and ends at the first error.
func inParallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = do(i); errs[w] != nil {
					next.Store(int64(n))
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

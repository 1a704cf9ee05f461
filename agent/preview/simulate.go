package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Options say what to preview, and in which cluster.
type Options struct {
	Query
	Config *rest.Config
	// Exclude is the controller's configuration; nil: not known.
	Exclude *config.Exclude
}

// Errors of [Simulate], besides those of naming, metadata and policy/cascade/preview.
var (
	ErrNotFound = errors.New("not found")
	ErrNotRead  = errors.New("its type cannot be read")
)

// Simulate reads the API server and previews a deletion.
func Simulate(ctx context.Context, o Options) (Answer, error) {
	client, err := metadata.New(o.Config, metadata.Options{})
	if err != nil {
		return Answer{}, err
	}
	defer client.Close()
	target, served, err := resolve(ctx, client, o.Resource)
	if err != nil {
		return Answer{}, err
	}
	c := &cluster{client: client}
	for name, why := range served.Partial {
		c.notSeen = append(c.notSeen, NotSeen{name, why.Error()})
	}
	if err := c.read(ctx, served.Types); err != nil {
		return Answer{}, err
	}
	if why := c.unread[[2]string{target.APIVersion, target.Kind}]; why != "" {
		return Answer{}, fmt.Errorf("%s: %w: %s", o.Query.called(target), ErrNotRead, why)
	}
	return c.answer(ctx, target, o)
}

// Resolve finds the type that a name such as deploy or pods means, among those that an API server
// serves.
func Resolve(ctx context.Context, config *rest.Config, name string) (gc.Type, error) {
	client, err := metadata.New(config, metadata.Options{})
	if err != nil {
		return gc.Type{}, err
	}
	defer client.Close()
	t, _, err := resolve(ctx, client, name)
	return t, err
}

func resolve(ctx context.Context, client *metadata.Client, name string) (gc.Type, metadata.Discovery, error) {
	served, err := client.Discover(ctx)
	if err != nil {
		return gc.Type{}, served, err
	}
	names, err := client.Names(ctx)
	if err != nil {
		return gc.Type{}, served, err
	}
	t, err := choose(name, names, served.Types)
	return t, served, err
}

// answer previews the deletion from what was read.
func (c *cluster) answer(ctx context.Context, target gc.Type, o Options) (Answer, error) {
	w := preview.World{Types: c.types, Objects: c.objects}
	a := Answer{Objects: len(c.objects), Types: c.listed}
	if x := o.Exclude; x != nil {
		a.Excluded = &Excluded{x.Types, x.Namespaces}
		w.ExcludedNamespaces = x.Namespaces
		for i, t := range w.Types {
			group, _ := split(t.APIVersion)
			w.Types[i].Excluded = config.Patterns(x.Types).Match(t.Resource, group)
		}
	}
	p, lacks, err := decide(ctx, c.client, w, o.Query.at(target), o.Query)
	if err != nil {
		return Answer{}, o.Query.failed(target, err)
	}
	a.Preview, a.NotSeen = p, append(c.notSeen, lacks...)
	a.finish()
	return a, nil
}

// finish sorts NotSeen, keeps one entry for each type, and sets Complete.
func (a *Answer) finish() {
	slices.SortStableFunc(a.NotSeen, func(a, b NotSeen) int { return cmp.Compare(a.Type, b.Type) })
	a.NotSeen = slices.CompactFunc(a.NotSeen, func(a, b NotSeen) bool { return a.Type == b.Type })
	a.Complete = len(a.NotSeen) == 0
}

// at returns the coordinates of the object, if it is of type t.
func (q Query) at(t gc.Type) gc.Coordinates {
	at := gc.Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Name: q.Name}
	if t.Namespaced {
		at.Namespace = q.Namespace
	}
	return at
}

// called names the object as the query does.
func (q Query) called(t gc.Type) string {
	if t.Namespaced {
		return q.Resource + "/" + q.Name + " in namespace " + q.Namespace
	}
	return q.Resource + "/" + q.Name
}

// failed adds the object to an error. For an object that does not exist, the error is
// [ErrNotFound].
func (q Query) failed(t gc.Type, err error) error {
	if errors.Is(err, preview.ErrNotThere) {
		err = ErrNotFound
	}
	return fmt.Errorf("%s: %w", q.called(t), err)
}

func split(apiVersion string) (group, version string) {
	if group, version, ok := strings.Cut(apiVersion, "/"); ok {
		return group, version
	}
	return "", apiVersion
}

// cluster is what was read.
type cluster struct {
	client *metadata.Client

	mu      sync.Mutex
	types   []gc.Type
	objects []gc.Object
	unread  map[[2]string]string // apiVersion, kind: why
	notSeen []NotSeen
	listed  int
}

// TypeName is a type as kubectl would write it.
func TypeName(apiVersion, resource string) string {
	if group, _ := split(apiVersion); group != "" {
		return resource + "." + group
	}
	return resource
}

package cluster

import (
	"context"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/kube/naming"
)

// Follower lists and watches one type.
type Follower interface {
	// Run follows until ctx ends, however often the API server goes away.
	Run(ctx context.Context) error
	// CatchUp returns once everything that had happened to the type by some moment
	// after the call began has been passed to the sink.
	CatchUp(ctx context.Context) error
}

// API is the API server as the controller needs it. It is a [metadata.Client] or, for faults that a
// real API server cannot be made to produce, a fake in tests.
type API interface {
	Discover(ctx context.Context) (metadata.Discovery, error)
	// Follow returns a Follower of a type; with fields, of whole objects: see
	// [metadata.Client.Follow].
	Follow(t gc.Type, fields metadata.Fields, sink metadata.Sink) Follower
	Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error)
	Do(ctx context.Context, a gc.Action, namespaced bool) metadata.Outcome
	// ListFields reads the selected objects of a type live; ReadFields reads one object. See
	// [metadata.Client].
	ListFields(ctx context.Context, t gc.Type, s metadata.Selection, fields metadata.Fields, take func(gc.Object, any) error) error
	ReadFields(ctx context.Context, o gc.Coordinates, namespaced bool, fields metadata.Fields) (any, error)
	// Time returns the API server's time, if it is known.
	Time(now time.Time) (at time.Time, known bool)
	// Sure reports whether the watched state may be acted on; changed is closed once it may.
	Sure() (sure bool, changed <-chan struct{})
	Warn(ctx context.Context, n metadata.Notice) error
	// Names returns the names that people use for the types.
	Names(ctx context.Context) ([]naming.Resource, error)
}

// FromClient makes an API of a client.
func FromClient(c *metadata.Client) API { return client{c} }

type client struct{ *metadata.Client }

func (c client) Follow(t gc.Type, fields metadata.Fields, sink metadata.Sink) Follower {
	return c.Client.Follow(t, fields, sink)
}

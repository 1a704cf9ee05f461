package cluster

import (
	"context"

	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
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
	gate.API
	events.API
}

// FromClient makes an API of a client.
func FromClient(c *metadata.Client) API { return client{c} }

type client struct{ *metadata.Client }

func (c client) Follow(t gc.Type, fields metadata.Fields, sink metadata.Sink) Follower {
	return c.Client.Follow(t, fields, sink)
}

package e2e

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// elect runs a controller while it holds the Lease.
func elect(ctx context.Context, r *running, rc *rest.Config, client *metadata.Client, o election.Options) error {
	o.Log, o.History = slog.New(slog.NewTextHandler(&r.log, nil)), client
	return election.Run(ctx, rc, o, func(ctx context.Context, fence *election.Fence) error {
		r.Guard(fence.Holds)
		client.Trust(fence)
		return r.Run(ctx)
	})
}

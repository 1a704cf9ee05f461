package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/contender"
	"github.com/ebb-agent/ebb/tools/peers"
)

// fixture is a control plane with an audit log, from which the contenders are measured.
type fixture struct {
	*contender.Fixture
	options
	cleaner *peers.Component
	audited int64
}

func newFixture(ctx context.Context, o options) (*fixture, error) {
	benchmark.Say("starting etcd, the API server and the controller manager")
	base, err := contender.NewFixture(ctx, peers.Config{Name: "bench-collectors", Audit: true}, o.Options)
	if err != nil {
		return nil, err
	}
	b := &fixture{Fixture: base, options: o}
	if b.cleaner, err = base.CP.NewCSRCleaner(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	err = b.Fill(ctx, func(yield func(runtime.Object) bool) {
		for i := range namespaces {
			if !yield(namespace(i)) || !yield(node(i)) {
				return
			}
		}
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// ebb returns ebb with only this collector on.
func (b *fixture) ebb(k kind, settings map[string]any) contender.Contender {
	return b.ebbWith(map[string]any{k.name: settings})
}

// ebbWith returns ebb with only these collectors on.
func (b *fixture) ebbWith(collectors map[string]any) contender.Contender {
	e := b.Ebb
	e.Settings = b.collectors(collectors)
	// With leader election, as it is shipped: renewals of the Lease show the API server's time.
	e.Settings["leaderElection"] = map[string]any{"enabled": true}
	return e.Contender()
}

// collectors returns settings with only these collectors on.
func (b *fixture) collectors(on map[string]any) map[string]any {
	all := map[string]any{}
	for _, name := range []string{"pods", "jobs", "csrs", "leases", "nodes", "volumes"} {
		all[name] = map[string]any{"mode": "off"}
	}
	maps.Copy(all, on)
	return map[string]any{"collectors": all}
}

// manager is the kube-controller-manager with another controller and its garbage collector, which
// foreground deletion of Jobs needs.
func (b *fixture) manager(limited bool, account, controller string, args ...string) contender.Contender {
	all := []string{contender.OnlyCollector + "," + controller}
	if !limited {
		all = append(all, contender.NoLimits...)
	}
	all = append(all, args...)
	c := contender.Peer(b.CP, "peer", all...)
	c.User = "system:serviceaccount:kube-system:" + account
	return c
}

// requestCleaner is the kube-controller-manager's cleaner of CertificateSigningRequests.
func (b *fixture) requestCleaner(limited bool) contender.Contender {
	return contender.Contender{Name: "peer", User: peers.CSRCleaner, Start: func(ctx context.Context) (int, func() error, error) {
		b.cleaner.SetArgs()
		if !limited {
			b.cleaner.SetArgs(contender.NoLimits...)
		}
		err := b.cleaner.Start(ctx)
		return b.cleaner.PID(), func() error { return b.cleaner.Stop(context.WithoutCancel(ctx)) }, err
	}}
}

// load writes n objects of a kind. The i-th is due at due(i).
func (b *fixture) load(ctx context.Context, k kind, n int, due func(i int) time.Time) error {
	return b.Fill(ctx, sequence(n, func(i int) runtime.Object { return k.make(i, due(i)) }))
}

// leaving returns how many of n objects are deleted once they are due.
func (k kind) leaving(n int) (going int) {
	for i := range n {
		if !stays(i) {
			going++
		}
	}
	return going - k.keeps
}

// traffic is what a contender requested from the API server about a kind.
type traffic struct {
	requests int // without lists, watches and patches: the garbage collector removes a Job's finalizer
	deleted  map[string]time.Time
	refused  map[int]int // deletions, by the answer's code
}

// span returns the time from the first to the last deletion.
func (t traffic) span() time.Duration {
	var all []time.Time
	for _, at := range t.deleted {
		all = append(all, at)
	}
	return slices.MaxFunc(all, time.Time.Compare).Sub(slices.MinFunc(all, time.Time.Compare))
}

// listen reads a contender's requests from the audit log until it has deleted n objects of a kind.
func (b *fixture) listen(ctx context.Context, c contender.Contender, k kind, n int) (t traffic, err error) {
	t.deleted, t.refused = map[string]time.Time{}, map[int]int{}
	err = benchmark.Until(ctx, 100*time.Millisecond, longest, fmt.Sprintf("%s does not delete all %d %s", c.Name, n, k.name), func(context.Context) (bool, error) {
		b.audited, err = b.CP.ReadAudit(b.audited, func(e peers.AuditEvent) {
			if e.User.Username != c.User || e.ObjectRef.Resource != k.resource {
				return
			}
			if e.Verb == "get" || e.Verb == "delete" || e.ObjectRef.Subresource != "" {
				t.requests++
			}
			if e.Verb == "delete" && e.ResponseStatus.Code/100 != 2 {
				t.refused[e.ResponseStatus.Code]++
			}
			if e.Verb == "delete" && e.ResponseStatus.Code/100 == 2 {
				t.deleted[e.ObjectRef.Namespace+"/"+e.ObjectRef.Name] = e.RequestReceivedTimestamp
			}
		})
		return len(t.deleted) >= n, err
	})
	if err != nil {
		err = fmt.Errorf("%w: %d are deleted", err, len(t.deleted))
	}
	return t, err
}

// sequence yields of(i) for each of 0 to n-1.
func sequence(n int, of func(i int) runtime.Object) iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		for i := range n {
			if !yield(of(i)) {
				return
			}
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// user is the name with which the agents authenticate.
const user = "ebb-agent"

// longest is how long the bench waits for anything.
const longest = 10 * time.Minute

// fixture is a control plane, the relay to it, and the agents' sources of pods.
type fixture struct {
	o       options
	cp      *peers.ControlPlane
	admin   *http.Client
	relay   *socketrelay.Relay
	sources []*kube.APIServer

	end   context.CancelFunc
	group sync.WaitGroup
}

func newFixture(ctx context.Context, o options) (*fixture, error) {
	cp, err := peers.StartControlPlane(ctx, peers.Config{Name: "bench-pods", Audit: true})
	if err != nil {
		return nil, err
	}
	b := &fixture{o: o, cp: cp, end: func() {}}
	if err := b.make(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *fixture) make(ctx context.Context) (err error) {
	if b.admin, err = b.cp.Admin(); err != nil {
		return err
	}
	if b.relay, err = socketrelay.StartTCP(b.cp.Address()); err != nil {
		return err
	}
	file, err := b.cp.Kubeconfig(user, "system:masters")
	if err != nil {
		return err
	}
	direct, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	file = filepath.Join(b.cp.Dir(), "by-relay.kubeconfig")
	if err := os.WriteFile(file, []byte(b.relay.In(string(direct))), 0o600); err != nil {
		return err
	}
	for i := range b.o.agents {
		s, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: nodeName(i), Kubeconfig: file, ListSpread: b.o.spread,
			Namespace: "default", DaemonSet: daemonSet})
		if err != nil {
			return err
		}
		b.sources = append(b.sources, s)
	}
	if err := b.makeDaemonSet(ctx); err != nil {
		return err
	}
	for n := range b.o.pods {
		if err := b.eachPod(ctx, true, n+1); err != nil {
			return err
		}
	}
	return nil
}

const daemonSet = "ebb-agent"

// makeDaemonSet creates the DaemonSet whose status has the number of agents. No controller acts on
// it.
func (b *fixture) makeDaemonSet(ctx context.Context) error {
	labels := map[string]any{"app": daemonSet}
	set := map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": daemonSet},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "agent", "image": "registry.example/agent:1"}}},
		}},
		"status": map[string]any{"desiredNumberScheduled": b.o.agents, "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
	}
	sets := b.cp.URL() + "/apis/apps/v1/namespaces/default/daemonsets"
	if err := peers.Request(ctx, b.admin, http.MethodPost, sets, set, nil); err != nil {
		return err
	}
	return peers.Request(ctx, b.admin, http.MethodPut, sets+"/"+daemonSet+"/status", set, nil)
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

// eachPod creates the pod number n of each node, or deletes number n+1.
func (b *fixture) eachPod(ctx context.Context, create bool, n int) error {
	const pods = "/api/v1/namespaces/default/pods"
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range b.o.agents {
		g.Go(func() error {
			if create {
				spec := peers.PodSpec{Name: fmt.Sprintf("pod-%d-%d", i, n), NodeName: nodeName(i), Image: "registry.example/app:1"}
				return peers.Request(ctx, b.admin, http.MethodPost, b.cp.URL()+pods, spec.Manifest(), nil)
			}
			path := fmt.Sprintf("%s/pod-%d-%d", pods, i, n+1)
			return peers.Request(ctx, b.admin, http.MethodDelete, b.cp.URL()+path, map[string]any{"gracePeriodSeconds": 0}, nil)
		})
	}
	return g.Wait()
}

// start starts all agents at once, which is more than any cluster does.
func (b *fixture) start(ctx context.Context) {
	ctx, b.end = context.WithCancel(ctx)
	for _, s := range b.sources {
		b.group.Go(func() { _ = s.Run(ctx, make(chan struct{}, 1)) }) // ends without an error
	}
}

// stop ends the agents, and waits until the API server has logged the last watches.
func (b *fixture) stop(ctx context.Context) error {
	b.end()
	b.group.Wait()
	return benchmark.Pause(ctx, noted)
}

// restart takes the API server away from the agents for an outage, and starts it as a new process.
// It cuts their watches first, because a killed server does not log them.
func (b *fixture) restart(ctx context.Context) error {
	b.relay.Away()
	if err := errors.Join(benchmark.Pause(ctx, noted), b.cp.APIServer.Kill(), benchmark.Pause(ctx, b.o.outage-noted)); err != nil {
		return err
	}
	return b.cp.APIServer.Start(ctx)
}

// noted is how long the server has to log watches that ended.
const noted = 5 * time.Second

// awaitPods waits until each agent knows n pods.
func (b *fixture) awaitPods(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for i, s := range b.sources {
		for {
			pods, err := s.Pods(ctx)
			if err == nil && len(pods.List) == n {
				break
			}
			if late := benchmark.Pause(ctx, 50*time.Millisecond); late != nil {
				return fmt.Errorf("%s has %d of %d pods: %w", nodeName(i), len(pods.List), n, errors.Join(late, err))
			}
		}
	}
	return nil
}

func (b *fixture) close() error {
	b.end()
	b.group.Wait()
	var err error
	if b.relay != nil {
		err = b.relay.Close()
	}
	return errors.Join(err, b.cp.Close())
}

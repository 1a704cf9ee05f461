package contender

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

// Options are the flags that all benchmarks of contenders have.
type Options struct{ Controller, Deploy, Results string }

// Flags defines the flags of Options. name is the name of the result.
func Flags(name string) *Options {
	o := &Options{}
	flag.StringVar(&o.Controller, "controller", "bin/ebb-controller", "the ebb-controller binary to measure")
	flag.StringVar(&o.Deploy, "deploy", "deploy/manifests", "the directory with the controller's rights")
	flag.StringVar(&o.Results, "results", result.Dir, "where "+name+".json goes")
	return o
}

// Fixture is a control plane with the rights of ebb-controller. Its controller manager is a
// contender and does not run yet.
type Fixture struct {
	CP    *peers.ControlPlane
	Admin *http.Client
	Ebb   Ebb
}

// NewFixture starts a control plane.
func NewFixture(ctx context.Context, config peers.Config, o *Options) (_ *Fixture, err error) {
	config.ControllerManager, config.ControllerManagerArgs = true, PeerArgs
	cp, err := peers.StartControlPlane(ctx, config)
	if err != nil {
		return nil, err
	}
	b := &Fixture{CP: cp, Ebb: Ebb{Binary: o.Controller}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err := cp.ControllerManager.Stop(ctx); err != nil {
		return nil, err
	}
	for _, file := range []string{"00-namespace.yaml", "enforce/controller-rbac.yaml", "controller/flowschema.yaml"} {
		if err := cp.Apply(ctx, filepath.Join(o.Deploy, file)); err != nil {
			return nil, err
		}
	}
	if b.Ebb.Kubeconfig, err = cp.ServiceAccountKubeconfig(ctx, "ebb-system", "ebb-controller"); err != nil {
		return nil, err
	}
	if b.Admin, err = cp.Admin(); err != nil {
		return nil, err
	}
	if b.Ebb.Dir, err = os.MkdirTemp("", config.Name+"-"); err != nil {
		return nil, err
	}
	b.Ebb.Address, err = FreeAddress()
	return b, err
}

// Close ends the control plane and deletes all files.
func (b *Fixture) Close() error { return errors.Join(b.CP.Close(), os.RemoveAll(b.Ebb.Dir)) }

// Metadata returns a client of metadata with all rights. The caller must Close it.
func (b *Fixture) Metadata() (*metadata.Client, error) {
	admin, err := b.CP.Kubeconfig("bench", "system:masters")
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		return nil, err
	}
	return metadata.New(config, metadata.Options{})
}

// ConfigMaps are the cheapest objects for the API server, so that a collector's own cost
// shows.
var ConfigMaps = gc.Type{APIVersion: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true}

// Follow passes the events of all objects of a type to sink until end is called.
func Follow(ctx context.Context, client *metadata.Client, t gc.Type, sink metadata.Sink) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	f := client.Follow(t, nil, sink)
	go func() { defer close(done); _ = f.Run(ctx) }() // the sinks return no errors
	return func() { cancel(); <-done }
}

package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/pflag"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/program"
)

// ebbProgram is the path of ebb in its image.
const ebbProgram = "/usr/bin/ebb"

// reach is how ebb's pods are reached from a desk.
type reach struct {
	apiAccess
	namespace string
}

// reachFlags are the names of the flags of reach. They are not passed on to a command in a pod.
var reachFlags = []string{"kubeconfig", "context", "ebb-namespace"}

func (r *reach) flags(f *pflag.FlagSet) {
	r.apiAccess.flags(f)
	f.StringVar(&r.namespace, "ebb-namespace", desk.DefaultNamespace, "namespace of ebb's pods")
}

// desk returns a desk for these nodes; without any, for all. The caller must close it.
func (r *reach) desk(nodes ...string) (*desk.Desk, error) {
	config, err := r.config()
	if err != nil {
		return nil, err
	}
	return desk.New(desk.Options{Config: config, Namespace: r.namespace, Nodes: nodes, Version: program.Version()})
}

// runThere runs ebb in a pod, and returns its exit code as an error. It escapes what a terminal
// would interpret in the output.
func runThere(ctx context.Context, d *desk.Desk, pod, container string, args []string, stdout, stderr io.Writer) error {
	out, errs := &visibleWriter{w: stdout}, &visibleWriter{w: stderr}
	code, err := d.Run(ctx, pod, container, append([]string{ebbProgram}, args...), out, errs)
	if err = errors.Join(err, out.Close(), errs.Close()); err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// given returns the flags that the user set, to pass them on. It leaves out reachFlags and those in
// but.
func given(f *pflag.FlagSet, but ...string) (args []string) {
	skip := map[string]bool{}
	for _, name := range append(but, reachFlags...) {
		skip[name] = true
	}
	f.Visit(func(flag *pflag.Flag) {
		if !skip[flag.Name] {
			args = append(args, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	return args
}

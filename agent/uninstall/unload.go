package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// patience is how long a kubelet has to take its pod.
	patience = 90 * time.Second
	// restarts is after how many restarts a failed container is given up. The kubelet waits longer
	// before each restart.
	restarts = 2
)

// UnloadOptions say which nodes are cleaned, and how.
type UnloadOptions struct {
	Config       *rest.Config
	Namespace    string
	Template     []byte   // of the pods; empty: builtin, with Image
	Image        string   // with ebb-agent in it
	Nodes        []string // only these; empty: all that NodeSelector selects
	NodeSelector string   // labels
	Timeout      time.Duration
	Sweep        string   // labels of ebb's objects in Namespace; empty: nothing is swept
	Leases       []string // names of Leases to delete, in Namespace
	Progress     io.Writer
}

// Validate checks the options. It sends no request.
func (o UnloadOptions) Validate() error {
	if o.Namespace == "" {
		return errors.New("--namespace: name the namespace for the pods")
	}
	_, err := readTemplate(o)
	if err == nil {
		_, err = nodeAffinity(o)
	}
	return err
}

// Results of a node.
const (
	Clean     = "clean"
	Failed    = "failed"      // ebb-agent unload reports why
	NotInTime = "not in time" // the node is not reachable, or too slow
)

// NodeResult is the outcome on one node.
type NodeResult struct {
	Node   string `json:"node"`
	Result string `json:"result"`
	Says   string `json:"says,omitempty"`
}

// Unloaded is the outcome of [Unload].
type Unloaded struct {
	Format int          `json:"format"` // 1
	Clean  int          `json:"clean"`
	Nodes  []NodeResult `json:"nodes"` // those that are not clean
	Swept  []string     `json:"swept"` // objects deleted in the namespace
	Left   []string     `json:"left"`  // objects left there, with the reason
	Later  []string     `json:"later"` // commands to clean what is left

	refused bool // a request to delete an object in Left was refused
}

// AllClean reports whether nothing is left.
func (u *Unloaded) AllClean() bool { return len(u.Nodes) == 0 && len(u.Left) == 0 }

// Failed reports whether something could not be done. A node that did not answer in time does not
// count.
func (u *Unloaded) Failed() bool {
	return u.refused || slices.ContainsFunc(u.Nodes, func(n NodeResult) bool { return n.Result == Failed })
}

// ErrInstalled is the error of [Unload] while ebb is still installed.
var ErrInstalled = errors.New("ebb is still installed")

type unloader struct {
	*kube.Client
	o        UnloadOptions
	template template
	begun    time.Time
	run, uid string          // the value of runLabel, and the DaemonSet's UID
	fresh    bool            // ebb was installed since the last run
	known    map[string]bool // nodes that are clean
}

func (u *unloader) say(format string, args ...any) { fmt.Fprintf(u.o.Progress, format+"\n", args...) }

// Unload runs ebb-agent unload on each node. An error means that it
// did not start, or was interrupted. Another call continues an interrupted run.
func Unload(ctx context.Context, o UnloadOptions) (Unloaded, error) {
	done := Unloaded{Format: 1, Nodes: []NodeResult{}, Swept: []string{}, Left: []string{}, Later: []string{}}
	if err := o.Validate(); err != nil {
		return done, err
	}
	t, err := readTemplate(o)
	if err != nil {
		return done, err
	}
	c, err := kube.New(o.Config, kube.Options{})
	if err != nil {
		return done, err
	}
	defer c.Close()
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	u := &unloader{Client: c, o: o, template: t, begun: time.Now(), known: map[string]bool{}}
	nodes, err := u.wanted(ctx)
	if err != nil {
		return done, err
	}
	if err := u.sweep(ctx, &done); err != nil {
		return done, err
	}
	if err := u.unload(ctx, nodes, &done); err != nil {
		return done, err
	}
	if err := u.end(ctx, &done); err != nil {
		return done, fmt.Errorf("%d of %d nodes are clean; run this again soon: %w", done.Clean, len(nodes), err)
	}
	return done, nil
}

// unload cleans the nodes.
func (u *unloader) unload(ctx context.Context, nodes []string, done *Unloaded) error {
	if len(nodes) == 0 {
		return ctx.Err()
	}
	if err := u.begin(ctx); err != nil {
		return err
	}
	if err := u.await(ctx, slices.Clone(nodes), done); err != nil {
		return fmt.Errorf("interrupted: %d of %d nodes are clean, and DaemonSet %s continues; run this again soon: %w", done.Clean, len(nodes), setName, err)
	}
	return nil
}

// wanted returns the nodes to clean.
func (u *unloader) wanted(ctx context.Context) ([]string, error) {
	all, err := u.nodes(ctx, u.selection())
	if err != nil || len(u.o.Nodes) == 0 {
		return all, err
	}
	named := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(u.o.Nodes, name) })
	for _, name := range u.o.Nodes {
		switch {
		case slices.Contains(named, name):
		case len(named) == 0:
			return nil, fmt.Errorf("--node: there is no node %q", name)
		default:
			u.say("there is no node %q: one that was deleted needs no cleaning", name)
		}
	}
	u.o.Nodes = named
	return named, nil
}

// selection selects the nodes to clean. If nodes are named, it selects all.
func (u *unloader) selection() kube.Selection {
	if len(u.o.Nodes) > 0 {
		return kube.Selection{}
	}
	return kube.Selection{Labels: u.o.NodeSelector}
}

func (u *unloader) nodes(ctx context.Context, s kube.Selection) (names []string, err error) {
	all, err := list(ctx, u.Client, nodeType, s)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range all {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names, nil
}

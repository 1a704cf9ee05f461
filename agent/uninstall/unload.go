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
	// patience is for a kubelet that does not take its pod.
	patience = 90 * time.Second
	// restarts of what has failed, before each of which its kubelet waits longer, are enough.
	restarts = 2
)

// UnloadOptions say where, and how.
type UnloadOptions struct {
	Config       *rest.Config
	Namespace    string
	Template     []byte   // of the pods; empty: the one that Image makes
	Image        string   // with ebb-agent in it
	Nodes        []string // these alone; empty: all that NodeSelector means
	NodeSelector string   // labels
	Timeout      time.Duration
	Sweep        string   // labels of what was ebb's in Namespace; empty: nothing is swept
	Leases       []string // names, in Namespace
	Progress     io.Writer
}

// Validate says whether they make sense; nothing is asked for that.
func (o UnloadOptions) Validate() error {
	if o.Namespace == "" {
		return errors.New("--namespace: say where the pods are to be made")
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
	Failed    = "failed"      // ebb-agent unload says why
	NotInTime = "not in time" // the node is not reachable, or too slow
)

// NodeResult is how it went on one node.
type NodeResult struct {
	Node   string `json:"node"`
	Result string `json:"result"`
	Says   string `json:"says,omitempty"`
}

// Unloaded is how it went.
type Unloaded struct {
	Format int          `json:"format"` // 1
	Clean  int          `json:"clean"`
	Nodes  []NodeResult `json:"nodes"` // that are not clean
	Swept  []string     `json:"swept"` // in the namespace
	Left   []string     `json:"left"`  // there, with the reason
	Later  []string     `json:"later"` // commands for what is left

	refused bool // to delete what is left
}

// AllClean tells whether nothing is left.
func (u *Unloaded) AllClean() bool { return len(u.Nodes) == 0 && len(u.Left) == 0 }

// Failed tells whether something could not be done, besides what did not answer in time.
func (u *Unloaded) Failed() bool {
	return u.refused || slices.ContainsFunc(u.Nodes, func(n NodeResult) bool { return n.Result == Failed })
}

// ErrInstalled: what was to be taken away is still wanted.
var ErrInstalled = errors.New("ebb is still installed")

type unloader struct {
	*kube.Client
	o        UnloadOptions
	template template
	begun    time.Time
	run, uid string // the value of runLabel, and the DaemonSet's UID
	fresh    bool   // ebb was there since the last run

	known map[string]bool // nodes that are clean, as this run or earlier ones have seen
	since time.Time       // the first of these began
}

func (u *unloader) say(format string, args ...any) { fmt.Fprintf(u.o.Progress, format+"\n", args...) }

// Unload runs ebb-agent unload on each node that no run before has cleared. An error means that
// it did not begin, or was interrupted: called again, it goes on.
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
	u := &unloader{Client: c, o: o, template: t, begun: time.Now()}
	nodes, err := u.wanted(ctx)
	if err != nil {
		return done, err
	}
	if err := u.sweep(ctx, &done); err != nil {
		return done, err
	}
	u.recall(ctx)
	if err := u.unload(ctx, nodes, &done); err != nil {
		return done, err
	}
	u.remember(ctx)
	if err := u.end(ctx, &done); err != nil {
		return done, fmt.Errorf("%d of %d nodes are clean; run this again soon: %w", done.Clean, len(nodes), err)
	}
	u.forget(ctx)
	return done, nil
}

// unload clears those nodes that are left.
func (u *unloader) unload(ctx context.Context, nodes []string, done *Unloaded) error {
	left := nodes
	if len(u.o.Nodes) == 0 {
		left = u.unknown(nodes)
	}
	if done.Clean = len(nodes) - len(left); done.Clean > 0 {
		u.say("%d of %d nodes were clean before", done.Clean, len(nodes))
	}
	if len(left) == 0 {
		return ctx.Err()
	}
	if err := u.begin(ctx, left); err != nil {
		return err
	}
	if err := u.await(ctx, left, done); err != nil {
		return fmt.Errorf("interrupted: %d of %d nodes are clean, and DaemonSet %s goes on; run this again soon: %w", done.Clean, len(nodes), setName, err)
	}
	return nil
}

// wanted are the nodes to clear.
func (u *unloader) wanted(ctx context.Context) ([]string, error) {
	all, err := u.nodes(ctx, u.selection())
	if err != nil || len(u.o.Nodes) == 0 {
		return all, err
	}
	for _, name := range u.o.Nodes {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("--node: there is no node %q", name)
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(u.o.Nodes, name) }), nil
}

// selection has these nodes, and perhaps others.
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

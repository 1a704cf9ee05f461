package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// UnloadOptions say where, and how.
type UnloadOptions struct {
	Config       *rest.Config
	Namespace    string
	Template     []byte   // of the pods; empty: the one that Image makes
	Image        string   // with ebb-agent in it
	Nodes        []string // these alone; empty: all that NodeSelector means
	NodeSelector string   // labels
	Parallel     int      // nodes at a time
	Timeout      time.Duration
	Sweep        string   // labels of what was ebb's in Namespace; empty: nothing is swept
	Leases       []string // names, in Namespace
	Progress     io.Writer
}

// Results of a node.
const (
	Clean     = "clean"
	Failed    = "failed"      // ebb-agent --unload says why
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
}

// AllClean tells whether nothing is left.
func (u *Unloaded) AllClean() bool { return len(u.Nodes) == 0 && len(u.Left) == 0 }

// ErrInstalled: what was to be taken away is still wanted.
var ErrInstalled = errors.New("ebb is still installed")

type unloader struct {
	*api
	o        UnloadOptions
	template template
	mu       sync.Mutex // of Progress
}

// Unload runs ebb-agent --unload on each node. An error means that it did not begin,
// or was interrupted.
func Unload(ctx context.Context, o UnloadOptions) (Unloaded, error) {
	done := Unloaded{Format: 1, Nodes: []NodeResult{}, Swept: []string{}, Left: []string{}, Later: []string{}}
	t, err := readTemplate(o)
	if err != nil {
		return done, err
	}
	a, err := newAPI(o.Config)
	if err != nil {
		return done, err
	}
	defer a.close()
	o.Parallel, o.Timeout = max(o.Parallel, 1), cmp.Or(o.Timeout, 2*time.Minute)
	u := &unloader{api: a, o: o, template: t}
	nodes, err := u.nodes(ctx)
	if err != nil {
		return done, err
	}
	if err := u.sweep(ctx, &done); err != nil {
		return done, err
	}
	if err := u.clearPods(ctx); err != nil {
		return done, err
	}
	u.run(ctx, nodes, &done)
	if err := ctx.Err(); err != nil {
		return done, err
	}
	done.Later = u.later(done.Nodes)
	return done, nil
}

// nodes are those to work on.
func (u *unloader) nodes(ctx context.Context) ([]string, error) {
	query := url.Values{}
	if u.o.NodeSelector != "" && len(u.o.Nodes) == 0 {
		query.Set("labelSelector", u.o.NodeSelector)
	}
	list, err := listNodes(ctx, u.api, query)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for _, n := range list {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if len(u.o.Nodes) == 0 {
		return names, nil
	}
	for _, n := range u.o.Nodes {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("--node: there is no node %q", n)
		}
	}
	return u.o.Nodes, nil
}

// run works on all nodes, some at a time.
func (u *unloader) run(ctx context.Context, nodes []string, done *Unloaded) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, u.o.Parallel)
	for _, node := range nodes {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			r := u.unload(ctx, node)
			u.say("node %s: %s%s", clean(node), r.Result, colon(r.Says))
			mu.Lock()
			defer mu.Unlock()
			if r.Result == Clean {
				done.Clean++
			} else {
				done.Nodes = append(done.Nodes, r)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(done.Nodes, func(a, b NodeResult) int { return cmp.Compare(a.Node, b.Node) })
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func (u *unloader) say(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.o.Progress, format+"\n", args...)
}

// later says what to do about nodes that are not clean.
func (u *unloader) later(nodes []NodeResult) []string {
	if len(nodes) == 0 {
		return []string{}
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, clean(n.Node))
	}
	return []string{
		fmt.Sprintf("ebb uninstall unload --namespace %s --image %s --node %s", u.o.Namespace, cmp.Or(u.template.image(), "IMAGE"), strings.Join(names, ",")),
		"or, on each of these nodes, as root: ebb-agent --unload (with the --config that the agent had)",
	}
}

package sysdump

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Remote reaches agents and controllers in their pods.
type Remote interface {
	// Page asks a node's agent for a page of its admin socket.
	Page(ctx context.Context, node, path string) ([]byte, error)
	// Run runs a command in a pod, and returns what it wrote, also if it failed.
	Run(ctx context.Context, pod, container string, command ...string) ([]byte, error)
}

// Options say what is collected, and how it is reached.
type Options struct {
	Config    *rest.Config
	Namespace string // of ebb
	Remote    Remote
	Nodes     []string // only these; empty: the first MaxNodes
	MaxNodes  int
	LogLines  int
	Version   string // of this program
	Progress  func(string)
}

// Summary is the outcome of [Write].
type Summary struct {
	Files, Errors int
	Nodes, Of     int // nodes whose agents were asked, of all with an agent
}

// InFlight is how many nodes are asked at the same time.
const InFlight = 5

// selector selects ebb's pods. component is the label that tells agents from controllers. The chart
// sets both.
const (
	selector  = "app.kubernetes.io/name=ebb"
	component = "app.kubernetes.io/component"
)

// eventsMost is how many events are read at most. By default the API server keeps events for an
// hour.
const eventsMost = 2000

// dump is the state while one archive is made.
type dump struct {
	Options
	*archive
	*api
	pods []pod
}

// Write collects everything and writes the archive.
func Write(ctx context.Context, o Options, w io.Writer) (Summary, error) {
	a, err := newArchive(time.Now())
	if err != nil {
		return Summary{}, err
	}
	defer a.close()
	d := dump{Options: o, archive: a}
	if d.api, err = newAPI(o.Config, o.Namespace); err != nil {
		return Summary{}, err
	}
	s, err := d.collect(ctx)
	if err != nil {
		return s, err
	}
	if err := ctx.Err(); err != nil {
		return s, err
	}
	s.Errors = len(a.errors)
	err = a.write(w, o.Version)
	s.Files = len(a.files)
	return s, err
}

func (d *dump) collect(ctx context.Context) (Summary, error) {
	d.Progress("the API server")
	if err := d.readPods(ctx); err != nil {
		return Summary{}, err
	}
	d.versions(ctx)
	d.objects(ctx)
	d.configMaps(ctx)
	for _, p := range d.pods {
		if p.component() == "controller" {
			d.Progress("controller " + p.Name)
			d.controller(ctx, p)
		}
	}
	nodes, all := d.chooseNodes()
	var group errgroup.Group
	group.SetLimit(InFlight)
	for _, node := range nodes {
		group.Go(func() error {
			if ctx.Err() == nil {
				d.Progress("node " + node)
				d.node(ctx, node)
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	return Summary{Nodes: len(nodes), Of: all}, nil
}

// pod is a pod of ebb.
type pod struct{ corev1.Pod }

func (p pod) component() string { return p.Labels[component] }

func (p pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// readPods reads ebb's pods, by which everything else is found. It fails if there are none: then
// there is no archive.
func (d *dump) readPods(ctx context.Context) error {
	data, err := d.get(ctx, url.Values{"labelSelector": {selector}}, d.core("pods")...)
	if err != nil {
		return fmt.Errorf("list ebb's pods in namespace %s: %w", d.Namespace, err)
	}
	var list struct{ Items []pod }
	var raw struct{ Items []object }
	if err := cmp.Or(json.Unmarshal(data, &list), json.Unmarshal(data, &raw)); err != nil {
		return fmt.Errorf("list ebb's pods in namespace %s: %w", d.Namespace, err)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("no pod of ebb in namespace %s (labels %s): is ebb in another namespace?", d.Namespace, selector)
	}
	d.pods = list.Items
	for i, o := range raw.Items {
		d.archive.object(o, "pods", d.pods[i].Name+".yaml")
	}
	return nil
}

func (d *dump) versions(ctx context.Context) {
	versions := object{"ebb": d.Version}
	if server, err := d.api.object(ctx, nil, "version"); err != nil {
		d.failed(err, "version of the API server")
	} else {
		versions["apiServer"] = server
	}
	d.archive.object(versions, "versions.yaml")
}

// objects reads events, DaemonSets, Deployments and Leases in ebb's namespace.
func (d *dump) objects(ctx context.Context) {
	ours := url.Values{"labelSelector": {selector}}
	for _, list := range []struct {
		name  string
		query url.Values
		path  []string
	}{
		{"events.yaml", url.Values{"limit": {strconv.Itoa(eventsMost)}}, d.core("events")},
		{"daemonsets.yaml", ours, d.apis("apps/v1", "daemonsets")},
		{"deployments.yaml", ours, d.apis("apps/v1", "deployments")},
		{"leases.yaml", nil, d.apis("coordination.k8s.io/v1", "leases")},
	} {
		o, err := d.api.object(ctx, list.query, list.path...)
		if err != nil {
			d.failed(err, list.name)
			continue
		}
		d.archive.object(o, list.name)
	}
}

// configMaps reads the ConfigMaps that ebb's pods mount, which are its configuration, and no
// others.
func (d *dump) configMaps(ctx context.Context) {
	var names []string
	for _, p := range d.pods {
		for _, v := range p.Spec.Volumes {
			if v.ConfigMap != nil && v.ConfigMap.Name != "" {
				names = append(names, v.ConfigMap.Name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		o, err := d.api.object(ctx, nil, d.core("configmaps", name)...)
		if err != nil {
			d.failed(err, "configmaps", name+".yaml")
			continue
		}
		d.configMap(o, "configmaps", name+".yaml")
	}
}

// logs reads the log of each container of a pod. If a container was restarted, logs also reads the
// log of its previous run.
func (d *dump) logs(ctx context.Context, p pod, directory ...string) {
	restarts := map[string]int{}
	for _, s := range p.Status.ContainerStatuses {
		restarts[s.Name] = int(s.RestartCount)
	}
	for _, c := range p.Spec.Containers {
		for _, previous := range []bool{false, true} {
			if previous && restarts[c.Name] == 0 {
				continue
			}
			name := p.Name + "-" + c.Name
			if previous {
				name += "-previous"
			}
			query := url.Values{"container": {c.Name}, "tailLines": {strconv.Itoa(d.LogLines)}, "previous": {strconv.FormatBool(previous)}}
			data, err := d.get(ctx, query, d.core("pods", p.Name, "log")...)
			if err != nil {
				d.failed(err, append(directory, name+".log")...)
				continue
			}
			d.text(data, append(slices.Clone(directory), name+".log")...)
		}
	}
}

// pagesOfController are commands of ebb control. A controller that does not lead reports that.
var pagesOfController = []string{"ready", "decisions", "cascades", "types", "collectors"}

func (d *dump) controller(ctx context.Context, p pod) {
	directory := []string{"controllers", p.Name}
	d.logs(ctx, p, directory...)
	for _, page := range pagesOfController {
		name := append(slices.Clone(directory), page+".txt")
		data, err := d.Remote.Run(ctx, p.Name, p.component(), "/usr/bin/ebb", "control", page)
		if err != nil {
			d.failed(err, name...)
		}
		if len(data) > 0 {
			d.text(data, name...)
		}
	}
}

// chooseNodes returns the nodes whose agents are asked: the nodes that were named, else the first
// MaxNodes, those whose agents are not ready first. all is how many nodes have an agent.
func (d *dump) chooseNodes() (nodes []string, all int) {
	ready := map[string]bool{}
	for _, p := range d.pods {
		if node := p.Spec.NodeName; p.component() == "agent" && node != "" {
			ready[node] = ready[node] || p.ready()
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, func(a, b string) int {
		if ready[a] != ready[b] {
			if ready[a] {
				return 1
			}
			return -1
		}
		return cmp.Compare(a, b)
	})
	nodes = slices.Compact(nodes)
	all = len(nodes)
	if len(d.Nodes) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(d.Nodes))), all
	}
	if all > d.MaxNodes {
		nodes = nodes[:d.MaxNodes]
		d.note("Of %d nodes with an agent %d were asked, first those whose agents are not ready. --node and\n--max-nodes ask others.", all, len(nodes))
	}
	return nodes, all
}

// pagesOfAgent are pages of the agent's admin socket, and the files that they become.
var pagesOfAgent = []struct{ path, file string }{
	{"/status", "status.json"}, {"/readyz", "ready.txt"}, {"/images", "images.json"}, {"/containers", "containers.json"}, {"/writers", "writers.json"},
	{"/heat", "heat.json"}, {"/history?limit=1000", "history.json"}, {"/metrics", "metrics.txt"},
}

func (d *dump) node(ctx context.Context, node string) {
	directory := []string{"nodes", node}
	if o, err := d.api.object(ctx, nil, "api/v1/nodes", node); err != nil {
		d.failed(err, "nodes", node, "node.yaml")
	} else {
		d.archive.object(o, "nodes", node, "node.yaml")
	}
	for _, p := range d.pods {
		if p.component() == "agent" && p.Spec.NodeName == node {
			d.logs(ctx, p, directory...)
		}
	}
	for _, page := range pagesOfAgent {
		data, err := d.Remote.Page(ctx, node, page.path)
		if err != nil {
			d.failed(err, "nodes", node, page.file)
			continue
		}
		d.text(data, "nodes", node, page.file)
	}
}

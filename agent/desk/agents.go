package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Selector selects the agents' pods by the labels that the chart sets.
const Selector = "app.kubernetes.io/name=ebb,app.kubernetes.io/component=agent"

// AgentContainer is the name of the agent's container in the chart. agentProgram is the path of the
// agent in its image.
const (
	AgentContainer = "agent"
	agentProgram   = "/usr/bin/ebb-agent"
)

// mostNamed bounds the nodes that an error names.
const mostNamed = 10

// Agent is the agent of one node.
type Agent struct {
	Node    string `json:"node"`
	Pod     string `json:"pod,omitempty"` // empty: reached by its socket on this node
	Ready   bool   `json:"ready"`
	Image   string `json:"image,omitempty"`
	Version string `json:"version,omitempty"` // from the pod's label, which the chart sets

	desk *Desk
}

// pod is a pod of ebb.
type pod struct{ corev1.Pod }

// ErrNoAgents is the error of [Desk.Agents] if there are none at all.
var ErrNoAgents = errors.New("no agent's pod")

// Agents lists the agents, one per node, sorted by node name. It returns an error if a node of
// [Options.Nodes] has no agent.
func (d *Desk) Agents(ctx context.Context) ([]Agent, error) {
	if d.api == nil {
		return []Agent{{Node: program.NodeName(), Ready: true, desk: d}}, nil
	}
	best := map[string]pod{}
	err := d.eachPod(ctx, Selector, func(p pod) {
		if old, ok := best[p.Spec.NodeName]; p.Spec.NodeName != "" && (!ok || p.better(old)) {
			best[p.Spec.NodeName] = p
		}
	})
	switch {
	case errors.Is(err, kube.ErrForbidden):
		return nil, fmt.Errorf("list the agents' pods, which takes the right to list pods in namespace %s: %w", d.o.Namespace, err)
	case err != nil:
		return nil, fmt.Errorf("list the agents' pods: %w", err)
	case len(best) == 0:
		return nil, fmt.Errorf("%w in namespace %s (labels %s): is ebb in another namespace?", ErrNoAgents, d.o.Namespace, Selector)
	}
	return d.choose(best)
}

// eachPod calls visit for each pod with these labels in the namespace.
func (d *Desk) eachPod(ctx context.Context, labels string, visit func(pod)) error {
	return d.api.WholeList(ctx, gc.Pods, kube.Selection{Namespace: d.o.Namespace, Labels: labels}, func(data json.RawMessage) error {
		var p pod
		if err := json.Unmarshal(data, &p); err != nil {
			return fmt.Errorf("a pod that cannot be read: %w", err)
		}
		visit(p)
		return nil
	})
}

// choose makes an Agent of each pod on the selected nodes, sorted by node name. pods maps node
// names to pods. Without [Options.Nodes], all nodes are selected.
func (d *Desk) choose(pods map[string]pod) ([]Agent, error) {
	nodes := slices.Sorted(maps.Keys(pods))
	if len(d.o.Nodes) > 0 {
		nodes = slices.Compact(slices.Sorted(slices.Values(d.o.Nodes)))
	}
	var missing []string
	agents := make([]Agent, 0, len(nodes))
	for _, node := range nodes {
		p, ok := pods[node]
		if !ok {
			missing = append(missing, fault.CleanUpTo(node, maxValue))
			continue
		}
		agents = append(agents, Agent{
			Node: node, Pod: p.Name, Ready: p.ready(), Image: p.image(AgentContainer), Version: p.Labels["app.kubernetes.io/version"], desk: d,
		})
	}
	if n := len(missing); n > 0 {
		if n > mostNamed {
			missing = append(missing[:mostNamed], fmt.Sprintf("and %d more", n-mostNamed))
		}
		return nil, fmt.Errorf("no agent in namespace %s on node %s: does the node exist, and is the DaemonSet for it?", d.o.Namespace, strings.Join(missing, ", "))
	}
	return agents, nil
}

// better reports whether p is more likely to be the node's agent than another pod. Ready pods come
// first, then pods that have not ended, then newer ones.
func (p pod) better(than pod) bool {
	if a, b := p.ready(), than.ready(); a != b {
		return a
	}
	if a, b := p.ended(), than.ended(); a != b {
		return b
	}
	return p.CreationTimestamp.After(than.CreationTimestamp.Time)
}

// ended reports whether the pod has ended or is being deleted.
func (p pod) ended() bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

func (p pod) ready() bool {
	return !p.ended() && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// image returns the image of one of the pod's containers, or "" if there is no such container.
func (p pod) image(container string) string {
	for _, c := range p.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// ControllerSelector selects the controllers' pods by the labels that the chart sets.
// ControllerContainer is the name of their container.
const (
	ControllerSelector  = "app.kubernetes.io/name=ebb,app.kubernetes.io/component=controller"
	ControllerContainer = "controller"
)

// The annotations of the Lease in which the leader notes why it deletes nothing, and what it does by its
// configuration (agent/cluster/election).
const (
	haltedKey = "ebb-agent.github.io/halted"
	modeKey   = "ebb-agent.github.io/mode"
)

// Controller is an instance of ebb-controller.
type Controller struct {
	Pod     string    `json:"pod"`
	Node    string    `json:"node,omitempty"` // empty: not scheduled yet
	Ready   bool      `json:"ready"`
	Leads   bool      `json:"leads"` // it holds a Lease
	Renewed time.Time `json:"-"`     // when it last renewed the Lease
	Halted  string    `json:"-"`     // why it deletes nothing, if it leads; "" if it does
	Mode    string    `json:"-"`     // enforce, observe or paused, if it leads and has noted it
	Image   string    `json:"image,omitempty"`
	Version string    `json:"version,omitempty"` // from the pod's label, which the chart sets
}

// Controllers lists the instances that have not ended, sorted by pod name. If the Leases cannot be
// read, it returns the error and the list without a leader.
func (d *Desk) Controllers(ctx context.Context) ([]Controller, error) {
	var all []Controller
	err := d.eachPod(ctx, ControllerSelector, func(p pod) {
		if !p.ended() {
			all = append(all, Controller{
				Pod: p.Name, Node: p.Spec.NodeName, Ready: p.ready(), Image: p.image(ControllerContainer), Version: p.Labels["app.kubernetes.io/version"],
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the controllers' pods: %w", err)
	}
	if len(all) == 0 {
		return nil, nil // and no leader
	}
	slices.SortFunc(all, func(a, b Controller) int { return cmp.Compare(a.Pod, b.Pod) })
	holders, err := d.holders(ctx)
	for i, c := range all {
		lease, leads := holders[c.Pod]
		all[i].Leads, all[i].Renewed = leads, lease.Spec.RenewTime
		all[i].Halted, all[i].Mode = lease.Metadata.Annotations[haltedKey], lease.Metadata.Annotations[modeKey]
	}
	return all, err
}

// lease is a Lease of controllers.
type lease struct {
	Metadata struct{ Annotations map[string]string }
	Spec     struct {
		HolderIdentity string
		RenewTime      time.Time
	}
}

// holders maps the pods that hold a Lease, by name, to that Lease. A holder's identity is its host
// name, "_" and a unique suffix.
func (d *Desk) holders(ctx context.Context) (map[string]lease, error) {
	var leases struct{ Items []lease }
	path := "/apis/coordination.k8s.io/v1/namespaces/" + d.o.Namespace + "/leases"
	if err := d.api.Send(ctx, http.MethodGet, path, nil, nil, &leases); err != nil {
		return nil, fmt.Errorf("list Leases in namespace %s: %w", d.o.Namespace, err)
	}
	holders := make(map[string]lease)
	for _, l := range leases.Items {
		name, _, _ := strings.Cut(l.Spec.HolderIdentity, "_")
		holders[name] = l
	}
	return holders, nil
}

// ErrNoLeader means that several controllers run, and none is known to lead.
var ErrNoLeader = errors.New("no controller is known to lead")

// Leader returns the controller that acts: the one that holds a Lease, or the only one.
func (d *Desk) Leader(ctx context.Context) (Controller, error) {
	all, err := d.Controllers(ctx)
	if i := slices.IndexFunc(all, func(c Controller) bool { return c.Leads }); i >= 0 {
		return all[i], nil
	}
	switch {
	case len(all) == 1:
		return all[0], nil
	case err != nil:
		return Controller{}, err
	case len(all) == 0:
		return Controller{}, fmt.Errorf("no controller's pod in namespace %s (labels %s): is ebb in another namespace?", d.o.Namespace, ControllerSelector)
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = fault.CleanUpTo(c.Pod, maxValue)
	}
	return Controller{}, fmt.Errorf("%w: none of %s holds a Lease in namespace %s", ErrNoLeader, strings.Join(names, ", "), d.o.Namespace)
}

package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// The annotations of the Lease that hold the state.
const (
	HaltedKey    = "ebb-agent.github.io/halted" // State.Halted; "ebb status" reads it
	ModeKey      = "ebb-agent.github.io/mode"   // State.Mode; the same
	deletionsKey = "ebb-agent.github.io/deletions"
)

// ErrNoLease means that the Lease cannot be read and written: this identity lacks the right, or the
// namespace does not exist.
var ErrNoLease = errors.New("no lease that may be read and written")

// State is what one leader leaves to the next.
type State struct {
	Halted    string // why the leader sends nothing
	Deletions string // the counts of deletions
	Mode      string // what the leader does by its configuration: "enforce", "observe" or "paused"
}

// LeaseState stores a State on the Lease, for the next leader. It also works without an election:
// the Lease then has no holder. A write makes a renewal in flight fail once; the library repeats it
// at once.
type LeaseState struct {
	client          coordination.LeaseInterface
	namespace, name string
}

// NewLeaseState returns the LeaseState of the Lease that o names. It sends no request yet.
func NewLeaseState(config *rest.Config, o Options) (*LeaseState, error) {
	client, err := coordination.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "lease-state"))
	if err != nil {
		return nil, fmt.Errorf("keep state on the lease: %w", err)
	}
	return &LeaseState{client.Leases(o.Namespace), o.Namespace, o.Name}, nil
}

// Read returns the state. It is empty if there is none, or no Lease.
func (m *LeaseState) Read(ctx context.Context) (State, error) {
	lease, err := m.client.Get(ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, m.failed("read", err)
	}
	return State{lease.Annotations[HaltedKey], lease.Annotations[deletionsKey], lease.Annotations[ModeKey]}, nil
}

// Write stores the state, and creates the Lease if there is none. It removes the annotations of
// empty fields.
func (m *LeaseState) Write(ctx context.Context, k State) error {
	annotations, set := map[string]any{}, map[string]string{}
	for key, word := range map[string]string{HaltedKey: k.Halted, deletionsKey: k.Deletions, ModeKey: k.Mode} {
		annotations[key] = nil
		if word != "" {
			annotations[key], set[key] = word, word
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("write the lease's state: %w", err)
	}
	_, err = m.client.Patch(ctx, m.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && len(set) == 0 {
		return nil
	}
	if apierrors.IsNotFound(err) {
		_, err = m.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: m.name, Namespace: m.namespace, Annotations: set}}, metav1.CreateOptions{})
	}
	if err != nil {
		return m.failed("write", err)
	}
	return nil
}

func (m *LeaseState) failed(what string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // NotFound: there is no such namespace
		err = errors.Join(ErrNoLease, err)
	}
	return fmt.Errorf("%s the state on lease %s/%s: %w", what, m.namespace, m.name, err)
}
